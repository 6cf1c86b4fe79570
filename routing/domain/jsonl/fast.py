"""The fast path: bytes to a row table in one pass, or a sign of trouble.

One typed decode of the whole body leaves text raw. It skips names it does not know and takes the last of two equal
ones, so quotes are counted: names, values and raw texts that the decode gave explain a number of quotes, and where
the body holds just as many, nothing else stands in it. Rows with more are decoded alone, and judged by :mod:`exact`
where the plain decode leaves a doubt. The slow twin in the tests proves that both give the same table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import orjson
from msgspec import UNSET, Raw

from catalog.domain.records import Endpoint
from routing.domain.estimate.tokens import RowExtras
from routing.domain.estimate.weights import Literal, RowLiterals, RowTexts, prepare_texts
from routing.domain.jsonl import exact
from routing.domain.jsonl.account import Account, is_whole
from routing.domain.jsonl.checks import (
    ENDPOINTS,
    check_body,
    check_custom_id,
    check_envelope,
    choice_count,
    output_limit_tokens,
)
from routing.domain.jsonl.contents import MAXIMUM_EMBEDDING_TEXT_BYTES
from routing.domain.jsonl.faults import RowFault
from routing.domain.jsonl.lines import Lines, is_utf8, split_lines
from routing.domain.jsonl.rare import RawTexts, read_parts
from routing.domain.jsonl.table import FileLimits, PlainRows, RowTable
from routing.domain.jsonl.texts import counted_body
from routing.domain.jsonl.typed import ROW_TYPES, Contents, RowType, decode_rows, read_contents

Counts = npt.NDArray[np.int64]


class Trouble(Exception):
    """The file must be read by the exact path."""


@dataclass(slots=True, kw_only=True)
class _Columns:
    """One entry a row; ``own_literals`` has rows whose texts are not just their contents, ``odd`` those read alone.

    ``rare`` has those that hold more than every row does.
    """

    custom_ids: list[str]
    model_names: list[str]
    literals: RowLiterals
    message_counts: Counts
    limits: Counts
    choices: Counts
    endpoint: Endpoint | None = None
    own_literals: dict[int, Sequence[Literal]] = field(default_factory=dict)
    extras: dict[int, RowExtras] = field(default_factory=dict)
    odd: set[int] = field(default_factory=set)
    rare: set[int] = field(default_factory=set)

    def by_model(self) -> tuple[tuple[str, ...], npt.NDArray[np.int32], Counts | None]:
        """Give the names in order of first appearance, each row's name as an index, and the rows sorted by it.

        There is no order where there is but one name.
        """
        index_of = {name: index for index, name in enumerate(dict.fromkeys(self.model_names))}
        indexes = np.fromiter(map(index_of.__getitem__, self.model_names), dtype=np.int32, count=len(self.model_names))
        return tuple(index_of), indexes, np.argsort(indexes, kind="stable") if len(index_of) > 1 else None


def read_rows(body: bytes, limits: FileLimits) -> RowTable:
    """Read a file that is good.

    Raises:
        Trouble: Something is wrong somewhere.
    """
    lines = split_lines(body)
    if not len(lines) or len(lines) > limits.maximum_rows or lines.lengths.max() > limits.maximum_row_bytes:
        raise Trouble
    if not is_utf8(body):
        raise Trouble
    try:
        return _read_lines(lines)
    except (RowFault, msgspec.DecodeError, RecursionError) as error:
        raise Trouble from error


def _read_lines(lines: Lines) -> RowTable:
    """Fill the columns from one decode of the whole body, then from the rows that must be read alone."""
    kind = _row_type(lines.text(0))
    rows, odd = decode_rows(lines, kind)
    bodies = [row.body for row in rows]
    contents = read_contents(bodies, kind.endpoint)
    common = {name: [*map(attrgetter(name), bodies)] for name in kind.common_names}
    columns = _Columns(
        custom_ids=[row.custom_id for row in rows],
        model_names=[body.model for body in bodies],
        literals=RowLiterals.end_to_end(contents.flat, contents.counts),
        message_counts=contents.message_counts,
        limits=np.zeros(len(rows), dtype=np.int64),
        choices=np.ones(len(rows), dtype=np.int64),
        odd=odd | contents.odd,
    )
    if kind.limit_name:
        limits = [value or 0 for value in common[kind.limit_name]]
        columns.limits = np.fromiter(limits, dtype=np.int64, count=len(rows))
    account = Account(lines=lines, common=common, contents=contents, literals=columns.literals)
    if columns.odd or not account.is_plain():
        columns.message_counts = columns.message_counts.copy()
        _read_rare(columns, account, kind, bodies)
    if len(columns.odd) < len(rows):
        columns.endpoint = kind.endpoint
    if kind.endpoint is Endpoint.EMBEDDINGS:
        _set_odd_embeddings_apart(columns)
    for row in sorted(columns.odd):
        _read_alone(columns, row, lines.text(row))
    names, indexes, order = columns.by_model()
    columns.literals = _merged(columns.literals, columns.own_literals)
    if not all(map(str.strip, names)):
        raise Trouble
    _check_ids(columns.custom_ids)
    plain = _plain_rows(columns, account, bodies) if kind.endpoint is Endpoint.CHAT_COMPLETIONS else None
    return _table(columns, lines, names, indexes, prepare_texts(columns.literals, order), plain)


def _row_type(line: bytes) -> RowType:
    """Guess a file's endpoint by its first row."""
    try:
        first = orjson.loads(line)
        return ROW_TYPES[ENDPOINTS[first["url"]]]
    except (orjson.JSONDecodeError, TypeError, KeyError) as error:
        raise Trouble from error


def _plain_rows(columns: _Columns, account: Account, bodies: Sequence[Any]) -> PlainRows:
    """Say which rows hold nothing but messages of text and the common names."""
    stops = np.cumsum(account.contents.counts)
    others = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(~account.are_texts)))
    are_plain = others[stops] == others[stops - account.contents.counts]
    are_plain[[*columns.odd, *columns.rare]] = False
    return PlainRows(are_plain=are_plain, bodies=bodies)


def _read_rare(columns: _Columns, account: Account, kind: RowType, bodies: Sequence[Any]) -> None:
    """Read what only some rows have, and set apart the rows that hold more quotes than that explains."""
    _read_parts(columns, account.contents, account.are_strings)
    unexplained = account.unexplained_quotes - account.unexplained_in(columns.odd)
    explained = np.zeros(len(bodies), dtype=np.int64)
    known_odd_count = len(columns.odd)
    for name in kind.rare_names:
        if not unexplained:
            break
        values = [*map(attrgetter(name), bodies)]
        given = [row for row, value in enumerate(values) if value is not UNSET and row not in columns.odd]
        if not given:
            continue
        quotes = np.full(len(given), 2)
        if isinstance(values[given[0]], Raw):
            quotes += _read_raw(columns, RawTexts(name=name, endpoint=kind.endpoint), values, given)
        else:
            _read_number(columns, name, values, given)
        columns.rare.update(given)
        explained[given] += quotes
        unexplained -= int(quotes.sum())
    if unexplained or len(columns.odd) > known_odd_count:
        columns.odd.update(account.unexplained_rows(explained))


def _read_parts(columns: _Columns, contents: Contents, are_strings: npt.NDArray[np.bool_]) -> None:
    """Give rows with content in parts their own literals and images."""
    stops = np.cumsum(contents.counts)
    rows = np.unique(np.searchsorted(stops, np.flatnonzero(~are_strings), side="right"))
    for row in rows.tolist():
        parts = read_parts(contents.flat[int(stops[row] - contents.counts[row]) : int(stops[row])])
        if parts is None:
            columns.odd.add(row)
            continue
        columns.own_literals[row], images = parts
        if images:
            extras = columns.extras.get(row, RowExtras())
            columns.extras[row] = replace(extras, images=tuple(images))


def _read_raw(columns: _Columns, raw_texts: RawTexts, values: Sequence[Any], given: Sequence[int]) -> list[int]:
    """Take over a raw parameter: tools and schemas go to the rows that have them; give the quotes in each."""
    quotes: list[int] = []
    for row in given:
        text = bytes(values[row])
        known = raw_texts.known(text)
        quotes.append(known.quote_count)
        if not known.is_sure:
            columns.odd.add(row)
        if known.schemas:
            plain = columns.literals.of_row(row) if row not in columns.own_literals else columns.own_literals[row]
            columns.own_literals[row] = [*plain, *known.schemas]
            columns.extras[row] = replace(columns.extras.get(row, RowExtras()), has_schema=True)
        if known.tools:
            columns.extras[row] = replace(columns.extras.get(row, RowExtras()), tools=known.tools, tools_key=text)
    return quotes


def _read_number(columns: _Columns, name: str, values: Sequence[Any], given: Sequence[int]) -> None:
    """Take over a parameter that was decoded; one that only the letter can judge sets its row apart."""
    for row in given if name in ("n", "stream", "max_completion_tokens") else ():
        value = values[row]
        if name == "n":
            columns.choices[row] = value or 1
        elif name == "stream" and value:
            columns.odd.add(row)
        elif name == "max_completion_tokens" and value:
            if columns.limits[row] not in (0, value):
                columns.odd.add(row)
            columns.limits[row] = value


def _set_odd_embeddings_apart(columns: _Columns) -> None:
    """Refuse empty texts, and let rows be read alone whose text is long or not text at all."""
    lengths = columns.literals.lengths
    if lengths.size and lengths.min() <= len(b'""'):
        raise Trouble
    too_long = np.flatnonzero(lengths > MAXIMUM_EMBEDDING_TEXT_BYTES)
    columns.odd.update(np.searchsorted(np.cumsum(columns.literals.counts), too_long, side="right").tolist())


def _read_alone(columns: _Columns, row: int, line: bytes) -> None:
    """Read one row by a plain decode, or to the letter where names were lost or something seems wrong."""
    try:
        decoded = orjson.loads(line)
        if is_whole(decoded, line) and not exact.is_too_deep(line):
            _put(columns, row, decoded)
            return
    except (orjson.JSONDecodeError, RowFault):
        pass
    _put(columns, row, exact.decode_line(line))


def _put(columns: _Columns, row: int, decoded: Mapping[str, Any]) -> None:
    custom_id = check_custom_id(decoded)
    endpoint = check_envelope(decoded, columns.endpoint)
    body = check_body(decoded, endpoint)
    counted = counted_body(body, endpoint)
    columns.endpoint = endpoint
    columns.custom_ids[row] = custom_id
    columns.model_names[row] = body["model"]
    columns.own_literals[row] = counted.literals
    columns.message_counts[row] = counted.message_count
    columns.limits[row] = output_limit_tokens(body, endpoint)
    columns.choices[row] = choice_count(body, endpoint)
    columns.extras.pop(row, None)
    if counted.extras:
        columns.extras[row] = counted.extras


def _check_ids(custom_ids: list[str]) -> None:
    """Refuse ids that stand twice, are blank or hold a NUL."""
    joined = "".join(custom_ids)
    holds_blanks = len(joined.split(maxsplit=1)) != 1 or joined[0].isspace() or joined[-1].isspace()
    if (
        len(set(custom_ids)) != len(custom_ids)
        or "\0" in joined
        or (holds_blanks and not all(map(str.strip, custom_ids)))
    ):
        raise Trouble


def _merged(literals: RowLiterals, own: Mapping[int, Sequence[Literal]]) -> RowLiterals:
    """Put the literals that rows brought themselves in the place of those from the common decode."""
    if not own:
        return literals
    counts, ends = literals.counts.copy(), np.cumsum(literals.counts).tolist()
    flat: list[Literal] = []
    position = 0
    for row in sorted(own):
        flat += literals.flat[position : ends[row] - int(counts[row])]
        flat += own[row]
        position = ends[row]
        counts[row] = len(own[row])
    flat += literals.flat[position:]
    return RowLiterals.end_to_end(flat, counts)


def _table(
    columns: _Columns,
    lines: Lines,
    names: tuple[str, ...],
    indexes: npt.NDArray[np.int32],
    texts: RowTexts,
    plain: PlainRows | None,
) -> RowTable:
    assert columns.endpoint is not None, "a table has rows"
    return RowTable(
        endpoint=columns.endpoint,
        offsets=lines.offsets,
        lengths=lines.lengths,
        lines=lines.numbers,
        custom_ids=columns.custom_ids,
        model_names=names,
        model_indexes=indexes,
        literals=columns.literals,
        texts=texts,
        message_counts=columns.message_counts,
        limits=columns.limits,
        choices=columns.choices,
        extras=columns.extras,
        plain=plain,
    )
