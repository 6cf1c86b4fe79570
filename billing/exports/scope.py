"""What an export is of: kind, whose, which days in which zone, and the filters of the screen."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from zoneinfo import ZoneInfo


class ExportKind(enum.StrEnum):
    """What is exported."""

    LEDGER = "ledger"
    USAGE = "usage"
    RECEIPTS = "receipts"
    STATEMENTS = "statements"
    FOCUS = "focus"
    JOURNAL = "journal"
    BREAKS = "breaks"


class ExportFormat(enum.StrEnum):
    """How it is written; the value is the file's ending."""

    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"
    BEANCOUNT = "beancount"


CONTENT_TYPES = {
    ExportFormat.CSV: "text/csv; charset=utf-8",
    ExportFormat.JSONL: "application/jsonl",
    ExportFormat.PARQUET: "application/vnd.apache.parquet",
    ExportFormat.BEANCOUNT: "text/plain; charset=utf-8",
}
# Longer than any name of ours.
_VALUE_MAX_CHARACTERS = 250
TABULAR = (ExportFormat.CSV, ExportFormat.JSONL, ExportFormat.PARQUET)
# By kind: the filters beside days, for a customer and for the house.
FILTERS_OF_CUSTOMERS: Mapping[ExportKind, frozenset[str]] = {
    ExportKind.LEDGER: frozenset({"kind"}),
    ExportKind.USAGE: frozenset({"model", "key", "lane"}),
    ExportKind.RECEIPTS: frozenset({"text", "state"}),
    ExportKind.STATEMENTS: frozenset(),
    ExportKind.FOCUS: frozenset(),
}
FILTERS_OF_THE_HOUSE: Mapping[ExportKind, frozenset[str]] = {
    ExportKind.LEDGER: frozenset(
        {"kind", "organisation", "account", "text", "account_kind", "least_micro_usd", "most_micro_usd", "book"}
    ),
    ExportKind.USAGE: frozenset({"organisation", "model", "lane"}),
    ExportKind.RECEIPTS: frozenset({"organisation", "text", "state"}),
    ExportKind.STATEMENTS: frozenset({"organisation"}),
    ExportKind.FOCUS: frozenset({"organisation"}),
    ExportKind.JOURNAL: frozenset(),
    ExportKind.BREAKS: frozenset({"state", "kind", "provider", "owner", "period", "invoice", "min_difference"}),
}
# How the filters are written that are no free text.
_SHAPES: Mapping[str, re.Pattern[str]] = {
    "least_micro_usd": re.compile(r"\d{1,18}"),
    "most_micro_usd": re.compile(r"\d{1,18}"),
    "min_difference": re.compile(r"\d{1,9}(\.\d{1,12})?"),
    "period": re.compile(r"20\d\d-(0[1-9]|1[0-2])"),
}


def is_filter(name: str, value: str) -> bool:
    """Say whether a filter may have a value."""
    shape = _SHAPES.get(name)
    return len(value) <= _VALUE_MAX_CHARACTERS and "\0" not in value and (not shape or bool(shape.fullmatch(value)))


def formats_of(kind: ExportKind) -> tuple[ExportFormat, ...]:
    """Give the formats that a kind is written in."""
    return (ExportFormat.BEANCOUNT,) if kind is ExportKind.JOURNAL else TABULAR


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportScope:
    """Half-open from ``since`` to before ``until``. Without an organisation it is the house's: all of its customers."""

    kind: ExportKind
    organisation_id: int | None
    since: datetime | None
    until: datetime | None
    zone: ZoneInfo
    filters: Mapping[str, str] = field(default_factory=dict)
