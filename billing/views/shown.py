"""What the pages of money say, put together from records that selectors gave."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from django.urls import reverse

from accounts.models import MemberRole, Membership
from billing.domain.records import LineKind, StatementLine
from billing.exports.scope import ExportKind
from billing.forms import MOVEMENT_WORDS
from billing.models import Receipt, ReceiptLine, TransactionKind

_LINE_WORDS = {
    LineKind.INPUT: "Input tokens",
    LineKind.CACHED_INPUT: "Cached input tokens",
    LineKind.CACHE_WRITE_5M: "Cache write tokens, 5 min",
    LineKind.CACHE_WRITE_1H: "Cache write tokens, 1 h",
    LineKind.OUTPUT: "Output tokens",
    LineKind.CONTROL_PLANE_FEE: "Control plane fee",
    LineKind.CEILING_CREDIT: "Credit above the ceiling",
}
_READERS_OF_RECEIPTS = frozenset({MemberRole.ADMIN, MemberRole.BILLING, MemberRole.DEVELOPER})
_READERS_OF_MONEY = frozenset({MemberRole.ADMIN, MemberRole.BILLING})
# Money that came in earlier than this before it was booked says so.
_BOOKED_LATE = timedelta(hours=1)


def may_read_a_receipt(membership: Membership) -> bool:
    """Say whether a member may read one receipt."""
    return membership.role in _READERS_OF_RECEIPTS


def may_read_money(membership: Membership) -> bool:
    """Say whether a member may read all receipts and the statement."""
    return membership.role in _READERS_OF_MONEY


def export_url(membership: Membership, kind: ExportKind, filters: Mapping[str, str]) -> str:
    """Give the address that exports what is on screen; empty for members who may not."""
    if not may_read_money(membership):
        return ""
    return f"{reverse('billing:export-new')}?{urlencode({'of': kind.value, **filters})}"


def house_export_url(kind: ExportKind, filters: Mapping[str, object], zone: ZoneInfo) -> str:
    """Give the address at finance's desk that exports what is on screen; empty filters are left out."""
    chosen = {name: str(value) for name, value in filters.items() if value not in {None, ""}}
    return f"{reverse('billing:house-export-new')}?{urlencode({'of': kind.value, 'zone': zone.key, **chosen})}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineRow:
    """A receipt line and what it is for."""

    line: ReceiptLine
    word: str


def line_rows(receipt: Receipt) -> tuple[LineRow, ...]:
    """Give a receipt's lines in their order."""
    return tuple(LineRow(line=line, word=_LINE_WORDS[LineKind(line.kind)]) for line in receipt.lines.all())


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneLines:
    """The lines of one lane and model, and their sum."""

    lane_id: str
    model_slug: str
    rows: tuple[LineRow, ...]
    amount_micro_usd: int


def lines_by_lane(receipt: Receipt) -> tuple[LaneLines, ...]:
    """Give a receipt's lines by lane and model, in the order of their first lines; the sums add up to its total."""
    groups: dict[tuple[str, str], list[LineRow]] = {}
    for row in line_rows(receipt):
        groups.setdefault((row.line.lane_id, row.line.model_slug), []).append(row)
    return tuple(
        LaneLines(
            lane_id=lane_id,
            model_slug=model_slug,
            rows=tuple(rows),
            amount_micro_usd=sum(row.line.amount_micro_usd for row in rows),
        )
        for (lane_id, model_slug), rows in groups.items()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptRow:
    """A line of the list of receipts."""

    receipt: Receipt
    lane_count: int
    tokens: int
    is_credited: bool


def receipt_row(receipt: Receipt) -> ReceiptRow:
    """Give a line of the list; the receipt's lines are loaded."""
    lines = list(receipt.lines.all())
    return ReceiptRow(
        receipt=receipt,
        lane_count=len({(line.lane_id, line.model_slug) for line in lines}),
        tokens=sum(line.tokens or 0 for line in lines),
        is_credited=is_credited(lines),
    )


def is_credited(lines: Iterable[ReceiptLine]) -> bool:
    """Say whether a credit above the ceiling is among the lines."""
    return any(line.kind == LineKind.CEILING_CREDIT for line in lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class MovementRow:
    """A line of the statement: ``owed_micro_usd`` is what the wallet could not carry of a receipt."""

    line: StatementLine
    word: str
    owed_micro_usd: int
    is_booked_late: bool

    @property
    def batch_public_id(self) -> str:
        """The batch that was settled; empty for anything else."""
        return self.line.reference if self.line.kind == TransactionKind.SETTLEMENT else ""


def movement_row(line: StatementLine) -> MovementRow:
    """Give a line of the statement."""
    total_micro_usd = line.receipt_total_micro_usd
    return MovementRow(
        line=line,
        word=str(MOVEMENT_WORDS[TransactionKind(line.kind)]),
        owed_micro_usd=0 if total_micro_usd is None else total_micro_usd + line.amount_micro_usd,
        is_booked_late=line.booked_at - line.effective_at >= _BOOKED_LATE,
    )
