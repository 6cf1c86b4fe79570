"""The fast path: bytes to a row table in one pass, or a sign of trouble.

One typed decode of the whole body leaves message content raw; the names on each line are counted from its quotes. A
row is taken as it is when it holds exactly the names that the decode kept, so none stood twice and none was skipped.
Any other row is decoded alone, and judged by :mod:`exact` where the plain decode leaves a doubt. The slow twin in the
tests proves that both give the same table.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any
from typing import Literal as Choice

import msgspec
import numpy as np
import numpy.typing as npt
import orjson
from msgspec import UNSET, Raw, UnsetType

from catalog.domain.records import Endpoint
from routing.domain.estimate.tokens import RowExtras
from routing.domain.estimate.weights import Literal, RowLiterals
from routing.domain.jsonl import exact
from routing.domain.jsonl.checks import (
    MAXIMUM_CHOICES,
    MAXIMUM_CUSTOM_ID_CHARACTERS,
    MAXIMUM_LIMIT_TOKENS,
    check_body,
    check_custom_id,
    check_envelope,
    choice_count,
    output_limit_tokens,
)
from routing.domain.jsonl.faults import Json, RowFault
from routing.domain.jsonl.lines import BYTE_ORDER_MARK, Lines, count_names, is_utf8, split_lines
from routing.domain.jsonl.rare import RareNames, count_decoded_names
from routing.domain.jsonl.table import FileLimits, RowTable
from routing.domain.jsonl.texts import counted_body

ENVELOPE_NAMES = 4
QUOTE = (0x22,)


class Trouble(Exception):
    """The file must be read by the exact path."""


_Tokens = Annotated[int, msgspec.Meta(ge=1, le=MAXIMUM_LIMIT_TOKENS)]


class _Message(msgspec.Struct, gc=False):
    role: Choice["system", "developer", "user", "assistant", "tool", "function"]
    content: Raw


class _Body(msgspec.Struct, gc=False):
    """The names that need no second look, and two that are looked at once for each text they have."""

    model: str
    messages: list[_Message]
    max_tokens: _Tokens | UnsetType | None = UNSET
    max_completion_tokens: _Tokens | UnsetType | None = UNSET
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | UnsetType | None = UNSET
    top_p: Annotated[float, msgspec.Meta(ge=0, le=1)] | UnsetType | None = UNSET
    n: Annotated[int, msgspec.Meta(ge=1, le=MAXIMUM_CHOICES)] | UnsetType | None = UNSET
    seed: int | UnsetType | None = UNSET
    stop: str | list[str] | UnsetType | None = UNSET
    user: str | UnsetType | None = UNSET
    presence_penalty: float | UnsetType | None = UNSET
    frequency_penalty: float | UnsetType | None = UNSET
    stream: bool | UnsetType | None = UNSET
    tools: Raw | UnsetType = UNSET
    response_format: Raw | UnsetType = UNSET


class _Row(msgspec.Struct, gc=False):
    custom_id: Annotated[str, msgspec.Meta(max_length=MAXIMUM_CUSTOM_ID_CHARACTERS)]
    method: Choice["POST"]
    url: Choice["/v1/chat/completions"]
    body: _Body


_decode_rows = msgspec.json.Decoder(_Row).decode_lines
_first_byte = struct.Struct("B").unpack_from


@dataclass(slots=True, kw_only=True)
class _Columns:
    custom_ids: list[str]
    model_names: list[str]
    literals: RowLiterals
    message_counts: list[int]
    limits: list[int]
    choices: list[int]
    endpoint: Endpoint | None = None
    own_literals: dict[int, Sequence[Literal]] = field(default_factory=dict)
    extras: dict[int, RowExtras] = field(default_factory=dict)


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
    name_counts = count_names(lines)
    columns, odd_rows = _read_common(lines, name_counts)
    try:
        for row in odd_rows:
            _read_alone(columns, row, lines.text(row), int(name_counts[row]))
    except RowFault as fault:
        raise Trouble from fault
    _check_ids(columns.custom_ids)
    return _table(columns, lines)


def _read_common(lines: Lines, name_counts: npt.NDArray[np.int64]) -> tuple[_Columns, list[int]]:
    """Fill the columns from one decode of the whole body; give the rows that must be read alone."""
    view = memoryview(lines.body)[len(BYTE_ORDER_MARK) if lines.body.startswith(BYTE_ORDER_MARK) else 0 :]
    try:
        rows = _decode_rows(view)
    except msgspec.ValidationError:
        return _empty_columns(len(lines)), list(range(len(lines)))
    except (msgspec.DecodeError, RecursionError) as error:
        raise Trouble from error
    if len(rows) != len(lines):
        raise Trouble
    bodies = [row.body for row in rows]
    contents = [message.content for body in bodies for message in body.messages]
    message_counts = [len(body.messages) for body in bodies]
    columns = _Columns(
        custom_ids=[row.custom_id for row in rows],
        model_names=[body.model for body in bodies],
        literals=RowLiterals(flat=contents, counts=np.array(message_counts, dtype=np.int64)),
        message_counts=message_counts,
        limits=[body.max_tokens or 0 for body in bodies],
        choices=[1] * len(rows),
    )
    surplus = name_counts - 2 * columns.literals.counts - (ENVELOPE_NAMES + 2)
    surplus -= [(body.max_tokens is not UNSET) + (body.temperature is not UNSET) for body in bodies]
    rare = RareNames(columns=columns)
    odd = {row for row in np.flatnonzero(surplus).tolist() if not rare.take(row, bodies[row], int(surplus[row]))}
    odd.update(row for row in _without_plain_text(columns.literals) if row not in rare.taken)
    odd.update(row for row, body in enumerate(bodies) if not body.messages)
    if not all(map(str.strip, set(columns.model_names))):
        raise Trouble
    if len(odd) < len(rows):
        columns.endpoint = Endpoint.CHAT_COMPLETIONS
    return columns, sorted(odd)


def _without_plain_text(literals: RowLiterals) -> set[int]:
    """Give the rows that hold content which is not a string."""
    first_bytes = [*map(_first_byte, literals.flat)]
    if first_bytes.count(QUOTE) == len(first_bytes):
        return set()
    odd = [index for index, first_byte in enumerate(first_bytes) if first_byte != QUOTE]
    return set(np.searchsorted(np.cumsum(literals.counts), odd, side="right").tolist())


def _read_alone(columns: _Columns, row: int, line: bytes, name_count: int) -> None:
    """Read one row by a plain decode, or to the letter where names were lost or something seems wrong."""
    try:
        decoded = orjson.loads(line)
        if _is_whole(decoded, name_count) and exact.nesting_depth(line) <= exact.MAXIMUM_DEPTH:
            _put(columns, row, decoded)
            return
    except (orjson.JSONDecodeError, RowFault):
        pass
    _put(columns, row, exact.decode_line(line))


def _is_whole(decoded: Json, name_count: int) -> bool:
    """Say whether a decode kept every name on the line, none having stood twice."""
    return isinstance(decoded, dict) and count_decoded_names(decoded) == name_count


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
    if counted.extras:
        columns.extras[row] = counted.extras


def _check_ids(custom_ids: list[str]) -> None:
    """Refuse ids that stand twice, are blank or hold a NUL."""
    if len(set(custom_ids)) != len(custom_ids) or not all(map(str.strip, custom_ids)) or "\0" in "".join(custom_ids):
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
    return RowLiterals(flat=flat, counts=counts)


def _empty_columns(row_count: int) -> _Columns:
    return _Columns(
        custom_ids=[""] * row_count,
        model_names=[""] * row_count,
        literals=RowLiterals(flat=(), counts=np.zeros(row_count, dtype=np.int64)),
        message_counts=[0] * row_count,
        limits=[0] * row_count,
        choices=[1] * row_count,
    )


def _table(columns: _Columns, lines: Lines) -> RowTable:
    assert columns.endpoint is not None, "a table has rows"
    return RowTable(
        endpoint=columns.endpoint,
        offsets=lines.offsets,
        lengths=lines.lengths,
        lines=lines.numbers,
        custom_ids=columns.custom_ids,
        model_names=columns.model_names,
        literals=_merged(columns.literals, columns.own_literals),
        message_counts=np.array(columns.message_counts, dtype=np.int64),
        limits=np.array(columns.limits, dtype=np.int64),
        choices=np.array(columns.choices, dtype=np.int64),
        extras=columns.extras,
    )
