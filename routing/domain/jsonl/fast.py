"""The fast path: bytes to a row table in one pass, or a sign of trouble.

Strings of messages are never decoded here. A row of the common shape is proven free of repeated names by its length:
it is exactly as long as its decoded names and raw values in one of the two spellings that writers use (no blanks, or
one after each colon and comma). Every other row goes to :mod:`exact`, alone. ``tests/routing/domain`` has the slow
twin that proves both equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal as Choice

import msgspec
import numpy as np
from msgspec import Raw

from catalog.domain.records import Endpoint
from routing.domain.estimate.tokens import RowExtras
from routing.domain.estimate.weights import Literal
from routing.domain.jsonl import exact
from routing.domain.jsonl.checks import (
    LIMIT_NAMES,
    MAXIMUM_CHOICES,
    MAXIMUM_LIMIT_TOKENS,
    check_body,
    check_custom_id,
    check_envelope,
    choice_count,
    output_limit_tokens,
)
from routing.domain.jsonl.faults import RowFault
from routing.domain.jsonl.lines import Lines, split_lines
from routing.domain.jsonl.table import FileLimits, RowTable
from routing.domain.jsonl.texts import counted_body


class Trouble(Exception):  # noqa: N818 - a sign, not an error: the exact path says what is wrong
    """The file must be read by the exact path."""


def read_rows(body: bytes, limits: FileLimits) -> RowTable:
    """Read a file that is good.

    Raises:
        Trouble: Something is wrong somewhere.
    """
    lines = split_lines(body)
    if not lines.texts or len(lines.texts) > limits.maximum_rows or lines.lengths.max() > limits.maximum_row_bytes:
        raise Trouble
    columns = _Columns()
    try:
        for row, line in enumerate(lines.texts):
            _read_exactly(columns, row, line)
    except RowFault as fault:
        raise Trouble from fault
    if len(set(columns.custom_ids)) != len(columns.custom_ids):
        raise Trouble
    return _table(columns, lines)


@dataclass(slots=True, kw_only=True)
class _Columns:
    endpoint: Endpoint | None = None
    custom_ids: list[str] = field(default_factory=list)
    model_names: list[str] = field(default_factory=list)
    literals: list[Sequence[Literal]] = field(default_factory=list)
    message_counts: list[int] = field(default_factory=list)
    limits: list[int] = field(default_factory=list)
    choices: list[int] = field(default_factory=list)
    extras: dict[int, RowExtras] = field(default_factory=dict)


def _read_exactly(columns: _Columns, row: int, line: bytes) -> None:
    decoded = exact.decode_line(line)
    custom_id = check_custom_id(decoded)
    endpoint = check_envelope(decoded, columns.endpoint)
    columns.endpoint = endpoint
    body = check_body(decoded, endpoint)
    counted = counted_body(body, endpoint)
    columns.custom_ids.append(custom_id)
    columns.model_names.append(body["model"])
    columns.literals.append(counted.literals)
    columns.message_counts.append(counted.message_count)
    columns.limits.append(output_limit_tokens(body, endpoint))
    columns.choices.append(choice_count(body, endpoint))
    if counted.extras:
        columns.extras[row] = counted.extras


def _table(columns: _Columns, lines: Lines) -> RowTable:
    assert columns.endpoint is not None, "a table has rows"
    return RowTable(
        endpoint=columns.endpoint,
        offsets=lines.offsets,
        lengths=lines.lengths,
        lines=lines.numbers,
        custom_ids=columns.custom_ids,
        model_names=columns.model_names,
        literals=columns.literals,
        message_counts=np.array(columns.message_counts, dtype=np.int64),
        limits=np.array(columns.limits, dtype=np.int64),
        choices=np.array(columns.choices, dtype=np.int64),
        extras=columns.extras,
    )
