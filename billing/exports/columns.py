"""Columns of exports, and their cells in each format. Numbers stay numbers, and none is ever written with an exponent.

A value is a text, an integer, an aware instant, or a ``Decimal`` of USD; None is missing. In CSV the text alone is
guarded against formulas, so that a negative amount stays a number.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

import orjson

from ground.cells import text_cell

Value = str | int | Decimal | datetime | None


class ColumnKind(enum.Enum):
    """What a column holds; the amounts in USD with the decimals that are kept."""

    TEXT = "text"
    INTEGER = "integer"
    USD = "usd"
    EXACT_USD = "exact_usd"
    INSTANT = "instant"


_NEEDS_QUOTES = re.compile(r'[",\r\n]')
# Decimals of the amounts.
PLACES = {ColumnKind.USD: 6, ColumnKind.EXACT_USD: 12}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column. ``may_be_missing`` is for the schema of what has one."""

    name: str
    kind: ColumnKind
    may_be_missing: bool = True


def plain(amount: Decimal) -> str:
    """Give a number in plain digits: 0.35 micro-USD are ``0.00000035``."""
    return format(amount, "f")


def instant_text(at: datetime) -> str:
    """Give an instant as FOCUS and ISO 8601 write it, to the second, in UTC."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def csv_cell(value: Value) -> str:
    """Give a cell; what is missing is empty."""
    if value is None:
        return ""
    if isinstance(value, str):
        return text_cell(value)
    if isinstance(value, Decimal):
        return plain(value)
    return instant_text(value) if isinstance(value, datetime) else str(value)


def csv_lines(rows: Iterable[Sequence[Value]]) -> bytes:
    """Give rows as lines of CSV, each ended by a line feed."""
    return "".join(f"{','.join(_quoted(csv_cell(value)) for value in row)}\n" for row in rows).encode()


def _quoted(cell: str) -> str:
    """Give a cell in quotes where it needs them. Python's writer forgets a carriage return when lines end without."""
    return '"' + cell.replace('"', '""') + '"' if _NEEDS_QUOTES.search(cell) else cell


def json_lines(columns: Sequence[Column], rows: Iterable[Sequence[Value]]) -> bytes:
    """Give rows as lines of JSON objects; amounts are texts, so that no reader makes floats of them."""
    names = [column.name for column in columns]
    return b"".join(
        orjson.dumps(
            {name: _json_value(value) for name, value in zip(names, row, strict=True)},
            option=orjson.OPT_APPEND_NEWLINE,
        )
        for row in rows
    )


def _json_value(value: Value) -> str | int | None:
    if isinstance(value, Decimal):
        return plain(value)
    return instant_text(value) if isinstance(value, datetime) else value
