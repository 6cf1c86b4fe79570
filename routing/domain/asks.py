"""What a group's rows ask of its lanes beyond plain text, judged lane by lane before any is chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Raw

from catalog.domain.records import Lane
from routing.domain.jsonl.table import RowTable
from routing.domain.parameters.judgement import LaneJudgement, judge
from routing.domain.parameters.lanes import Family, family_of
from routing.domain.parameters.needs import Alike, PlainRow, gather_needs
from routing.domain.plan import QuotedGroup
from routing.domain.scoring import GroupDemand
from routing.domain.splitting import Share

Body = Mapping[str, Raw] | PlainRow
Bodies = Iterable[Alike]
_CARRIES_ALL = frozenset({Family.OPENAI, Family.AZURE})


class _Row(msgspec.Struct, gc=False):
    body: dict[str, Raw]


_decode = msgspec.json.Decoder(_Row).decode


def judge_lanes(lanes: Sequence[Lane], bodies: Callable[[], Bodies]) -> dict[str, LaneJudgement]:
    """Give, by lane id, what lanes make of rows. Lanes of OpenAI's own shape carry all and are not in it.

    Args:
        lanes: Lanes of one model.
        bodies: Gives what the rows ask by; called only if a lane needs a look, for it costs each row that is not
            plain a decode.
    """
    families = {lane.lane_id: family_of(lane.provider, lane.model_id) for lane in lanes}
    looking = [lane for lane in lanes if families[lane.lane_id] not in {None, *_CARRIES_ALL}]
    if not looking:
        return {}
    needs = gather_needs(bodies())
    judged = {}
    for lane in looking:
        family = families[lane.lane_id]
        assert family is not None, "a lane that is looked at has a family"
        judged[lane.lane_id] = judge(family, lane.model_id, needs)
    return judged


def bodies_of(file: bytes, table: RowTable, rows: npt.NDArray[np.int64]) -> Iterator[Body]:
    """Give the bodies of some rows of a file that was read, each member as the JSON text it was.

    Of a row that the reader knows to be plain it gives only what such a row may ask by, which spares the decode.
    """
    plain = table.plain
    are_plain = np.zeros(len(rows), dtype=bool) if plain is None else plain.are_plain[rows]
    columns = rows, are_plain, table.offsets[rows], table.lengths[rows]
    for row, is_plain, offset, length in zip(*(column.tolist() for column in columns), strict=True):
        if plain is not None and is_plain:
            yield PlainRow(plain.roles_of(row), plain.temperature_of(row))
        else:
            yield decode_body(file[offset : offset + length])


def decode_body(line: bytes) -> dict[str, Raw]:
    """Give the body of a row that was read, by name, each member as the JSON text it was."""
    return _decode(line).body


def say_judgements(
    group: QuotedGroup,
    shares: tuple[Share, ...],
    demand: GroupDemand,
    bodies: Callable[[Share], Bodies],
) -> QuotedGroup:
    """Say of each quoted lane what it drops of its rows, and what it sends in a form of its own.

    Args:
        group: As quoted, without this.
        shares: The parts of its rows, in the order of its lanes.
        demand: With the judgements over the whole group.
        bodies: Gives the bodies of a share's rows; asked for where a group is fanned out, for exact counts.
    """
    lanes = []
    for quoted, share in zip(group.lanes, shares, strict=True):
        judgement = demand.judgements.get(quoted.lane_id)
        if judgement is not None and len(shares) > 1:
            judgement = judge_lanes([share.candidate.lane], partial(bodies, share)).get(quoted.lane_id)
        lanes.append(
            quoted if judgement is None else replace(quoted, dropped=judgement.dropped, mapped=judgement.mapped)
        )
    said = [
        f"{lane.lane_id} gets {said.parameter} of {said.row_count} rows {said.how}"
        for lane in lanes
        for said in lane.mapped
    ]
    text = f"{group.explanation.text} {'; '.join(said)}." if said else group.explanation.text
    return replace(group, lanes=tuple(lanes), explanation=replace(group.explanation, text=text))
