"""A sheet of facts and tables as PDF, by Typst: no system library, no font of the machine, the same bytes each time."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import typst

_SHEET: Final = (Path(__file__).parent / "document.typ").read_bytes()


@dataclass(frozen=True, slots=True, kw_only=True)
class SheetColumn:
    """A column of a table; a number stands at the right, the wide one takes what room is left."""

    label: str
    number: bool = False
    wide: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SheetRow:
    """A row of a table, in words."""

    cells: tuple[str, ...]
    strong: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SheetTable:
    """A table under a heading of its own."""

    title: str
    columns: tuple[SheetColumn, ...]
    rows: tuple[SheetRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """A document. ``facts`` stand in two parts, each of (name, value); ``reference`` is at the foot of each page."""

    title: str
    reference: str
    facts: tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]
    tables: tuple[SheetTable, ...]
    notes: tuple[str, ...] = ()


def pdf_of(sheet: Sheet, at: datetime) -> bytes:
    """Give a sheet as PDF; ``at`` is the instant that it is of, which also is all the file says of time."""
    content: bytes = typst.compile(
        _SHEET,
        format="pdf",
        ignore_system_fonts=True,
        sys_inputs={"data": json.dumps(asdict(sheet))},
        timestamp=int(at.timestamp()),
    )
    return content


def money(micro_usd: int) -> str:
    """Give an amount as pages show it, with all six decimals."""
    dollars, rest = divmod(abs(micro_usd), 1_000_000)
    return f"{chr(0x2212) if micro_usd < 0 else ''}${dollars:,}.{rest:06d}"


def rate(rate_micro_usd_per_mtok: int) -> str:
    """Give a rate in dollars per million tokens, with two decimals or as many as it has."""
    dollars, rest = divmod(rate_micro_usd_per_mtok, 1_000_000)
    digits = f"{rest:06d}".rstrip("0").ljust(2, "0")
    return f"${dollars:,}.{digits}"
