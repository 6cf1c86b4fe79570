"""The one normal form into which every provider report is read."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal


class Format(enum.StrEnum):
    """A report we can read."""

    OPENAI_COSTS = "openai_costs"
    OPENAI_USAGE = "openai_usage"
    ANTHROPIC_COST = "anthropic_cost"
    ANTHROPIC_USAGE = "anthropic_usage"
    FOCUS = "focus"
    AWS_CUR = "aws_cur"
    MAPPED_CSV = "mapped_csv"


class TokenClass(enum.StrEnum):
    """What was counted. Input classes are disjoint: cached tokens are in none but their own."""

    INPUT_UNCACHED = "input_uncached"
    INPUT_CACHE_READ = "input_cache_read"
    INPUT_CACHE_WRITE_5M = "input_cache_write_5m"
    INPUT_CACHE_WRITE_1H = "input_cache_write_1h"
    OUTPUT = "output"
    TOOL_CALL = "tool_call"
    OTHER = "other"


class ChargeKind(enum.StrEnum):
    """Why a provider asks for the money of a line."""

    USAGE = "usage"
    TAX = "tax"
    CREDIT = "credit"
    COMMITMENT = "commitment"


@dataclass(frozen=True, slots=True, kw_only=True)
class BillLine:
    """One line of a provider's report, in the normal form.

    ``line`` counts from 1: the physical line of a table, the running number of a result in pages. The window is
    half-open, UTC. ``tier`` is the provider's word (``batch``, ``standard``, ``flex``, ...), empty where it says none.
    ``amount`` is in ``currency``, in its major unit and exact; None in a report of usage alone. ``format_note`` says
    what in the line contradicts itself or has no meaning known to us: the line counts, as a break.
    """

    line: int
    account: str
    window_start: datetime
    window_end: datetime
    model_name: str
    tier: str
    token_class: TokenClass
    project: str
    quantity: int | None
    unit: str
    amount: Decimal | None
    currency: str
    charge_kind: ChargeKind = ChargeKind.USAGE
    is_long_context: bool = False
    reference: str = ""
    format_note: str = ""
    raw: str
    raw_row_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class BadLine:
    """A line that could not be read; ``message`` is for people. It is listed, never dropped."""

    line: int
    code: str
    message: str
    raw: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEnd:
    """What a file proves of itself when it was read to its end.

    ``incomplete_reason`` is empty where the file is all there is: its last page says that no more follow, or the table
    is final.
    """

    page_count: int
    incomplete_reason: str


Item = BillLine | BadLine | FileEnd


class UnreadableFile(Exception):
    """The file is not of the format at all; nothing of it can be used."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMapping:
    """How a table of somebody else's is read: our fields by their columns.

    ``columns`` has at least ``day`` and ``amount``. ``amount_unit`` is ``usd``, ``cents`` or ``micro_usd``; ``zone`` is
    the zone in which the provider counts days and writes instants without an offset.
    """

    columns: Mapping[str, str]
    delimiter: str = ","
    zone: str = "UTC"
    amount_unit: str = "usd"
    currency: str = "USD"
    tokens_per_unit_count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What a file does not say of itself."""

    mapping: ColumnMapping | None = None
    is_parquet: bool = False
    # What a gzip file may hold.
    unpacked_max_bytes: int = 2 * 1024**3
