"""Reads a community price file: JSON Lines, one model at one provider a line (the shape of our model facts).

Pure. Rates are whole micro-USD per million tokens; a fraction, a negative one or a text is refused with its line: the
most common mistake in such files is a price per token, or per thousand.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from catalog.domain.records import TokenKind

LINES_MAX_COUNT: Final = 20_000
_LIST: Final = {
    "input_rate_micro_usd_per_mtok": TokenKind.INPUT,
    "cached_input_rate_micro_usd_per_mtok": TokenKind.CACHED_INPUT,
    "cache_write_rate_micro_usd_per_mtok": TokenKind.CACHE_WRITE_5M,
    "output_rate_micro_usd_per_mtok": TokenKind.OUTPUT,
}
_BATCH: Final = {
    "batch_input_rate_micro_usd_per_mtok": TokenKind.INPUT,
    "batch_cached_input_rate_micro_usd_per_mtok": TokenKind.CACHED_INPUT,
    "batch_output_rate_micro_usd_per_mtok": TokenKind.OUTPUT,
}
Published = dict[TokenKind, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceLine:
    """What a file says of one model at one provider; a card without input or output rate is empty."""

    line: int
    provider: str
    model_id: str
    list_card: Published
    batch_card: Published


@dataclass(frozen=True, slots=True, kw_only=True)
class BadLine:
    """A line that cannot be read, and why."""

    line: int
    message: str


def read_price_file(content: bytes) -> tuple[tuple[PriceLine, ...], tuple[BadLine, ...]]:
    """Give the lines of a price file, and those that cannot be read; blank lines are skipped."""
    lines: list[PriceLine] = []
    bad: list[BadLine] = []
    seen: set[tuple[str, str]] = set()
    for number, raw in enumerate(content.split(b"\n"), start=1):
        if not raw.strip():
            continue
        if number > LINES_MAX_COUNT:
            bad.append(BadLine(line=number, message=f"a file has up to {LINES_MAX_COUNT} lines"))
            break
        try:
            found = _read(number, raw)
        except ValueError as error:
            bad.append(BadLine(line=number, message=str(error)))
            continue
        key = (found.provider, found.model_id)
        if key in seen:
            bad.append(BadLine(line=number, message="this provider and model stand in an earlier line"))
            continue
        seen.add(key)
        lines.append(found)
    return tuple(lines), tuple(bad)


def _read(number: int, raw: bytes) -> PriceLine:
    try:
        entry = json.loads(raw, parse_float=_refuse_fraction, parse_constant=_refuse_fraction)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise ValueError("this is no JSON object") from None
    if not isinstance(entry, dict):
        raise ValueError("this is no JSON object")  # noqa: TRY004 -- the file is wrong, not our call
    for name in ("provider", "model_id"):
        if not isinstance(entry.get(name), str) or not entry[name]:
            raise ValueError(f"{name} is missing or no text")
        # A NUL or half a character, which JSON can spell, is none to ask the database about.
        if not entry[name].isprintable():
            raise ValueError(f"{name} holds what no name holds")
    return PriceLine(
        line=number,
        provider=entry["provider"],
        model_id=entry["model_id"],
        list_card=_card(entry, _LIST),
        batch_card=_card(entry, _BATCH),
    )


def _card(entry: dict[str, Any], names: dict[str, TokenKind]) -> Published:
    found: Published = {}
    for name, kind in names.items():
        value = entry.get(name)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise ValueError(f"{name} is no whole number of micro-USD per million tokens")
        found[kind] = value
    return found if TokenKind.INPUT in found and TokenKind.OUTPUT in found else {}


def _refuse_fraction(text: str) -> int:
    raise ValueError(f"{text} is no whole number of micro-USD per million tokens")
