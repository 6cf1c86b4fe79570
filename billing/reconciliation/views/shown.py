"""What the pages of reconciliation say, put together from rows that selectors gave."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from billing.domain.money import round_pico_to_micro
from billing.reconciliation.domain.records import Format
from billing.reconciliation.domain.sides import BreakKind
from billing.reconciliation.models import (
    Break,
    BreakState,
    Bucket,
    FileState,
    InvoiceFile,
    MatchState,
    ProviderInvoice,
)
from billing.reconciliation.period_models import PeriodState
from billing.reconciliation.selectors import Headline

KIND_WORDS: Final = {
    BreakKind.DUPLICATE_RECEIPT: "Twice in our books",
    BreakKind.DUPLICATE_INVOICE_LINE: "Twice on the invoice",
    BreakKind.MISSING_RECEIPT: "Missing in our books",
    BreakKind.MISSING_INVOICE: "Missing on the invoice",
    BreakKind.TIME_BOUNDARY: "Another day",
    BreakKind.CACHE_CLASS: "Another cache class",
    BreakKind.TIER: "Another tier",
    BreakKind.CONTEXT_TIER: "Long context rate",
    BreakKind.PRICE_VERSION: "Another price version",
    BreakKind.QUANTITY: "Quantity differs",
    BreakKind.UNBILLED_FAILED: "Failed, not billed",
    BreakKind.MODEL_ALIAS: "Another model name",
    BreakKind.CURRENCY: "Another currency",
    BreakKind.TAX: "Tax",
    BreakKind.CREDIT_OR_COMMITMENT: "Credit or commitment",
    BreakKind.ROUNDING: "Rounding",
    BreakKind.FORMAT: "Unknown format",
    BreakKind.UNEXPLAINED: "Unexplained",
}
# A tone of the badge and its word.
STATE_BADGES: Final = {
    BreakState.OPEN: ("bad", "Open"),
    BreakState.EXPLAINED: ("warn", "Explained"),
    BreakState.PENDING: ("run", "Waits for a second person"),
    BreakState.ACCEPTED: ("ok", "Accepted"),
    BreakState.LINKED: ("ok", "Linked"),
    BreakState.ADJUSTED: ("ok", "Adjusted"),
    BreakState.WRITTEN_OFF: ("off", "Written off"),
    BreakState.DISPUTED: ("run", "Disputed"),
    BreakState.CLEARED: ("off", "Gone"),
}
PERIOD_BADGES: Final = {
    PeriodState.OPEN: ("run", "Open"),
    PeriodState.CLOSING: ("warn", "Waits for a second person"),
    PeriodState.CLOSED: ("ok", "Closed"),
}
FILE_BADGES: Final = {
    FileState.DRAFT: ("warn", "Waits for its mapping"),
    FileState.UPLOADED: ("run", "Being read"),
    FileState.READ: ("ok", "Current"),
    FileState.REPLACED: ("off", "Replaced"),
    FileState.UNREADABLE: ("bad", "Unreadable"),
    FileState.CANCELLED: ("off", "Cancelled"),
}
CLASS_WORDS: Final = {
    "input_uncached": "Input",
    "input_cache_read": "Cached input",
    "input_cache_write_5m": "Cache write, 5 min",
    "input_cache_write_1h": "Cache write, 1 h",
    "output": "Output",
    "tool_call": "Tool calls",
    "other": "All tokens",
}


_PLACE_WORDS: Final = {"exact": "exact", "break": "has a break", "waiting": "may still be billed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakRow:
    """A break as lists and pages show it; amounts are whole pico-USD."""

    found: Break
    kind_word: str
    is_unexplained: bool
    tone: str
    state_word: str
    class_word: str
    days_open: int
    invoiced_pico_usd: int
    ours_pico_usd: int
    difference_pico_usd: int
    entry_micro_usd: int
    is_undecided: bool
    is_invoiced: bool
    is_ours: bool
    is_closed: bool


def break_row(found: Break, at: datetime, *, is_closed: bool = False) -> BreakRow:
    """Give what is shown of a break at an instant; ``is_closed``: its month is."""
    tone, word = STATE_BADGES[BreakState(found.state)]
    difference = int(found.difference_pico_usd)
    return BreakRow(
        found=found,
        kind_word=KIND_WORDS[BreakKind(found.kind)],
        is_unexplained=found.kind == BreakKind.UNEXPLAINED,
        tone=tone,
        state_word=word,
        class_word=CLASS_WORDS.get(found.token_class, ""),
        days_open=(at - found.opened_at).days,
        invoiced_pico_usd=int(found.invoiced_pico_usd),
        ours_pico_usd=int(found.ours_pico_usd),
        difference_pico_usd=difference,
        entry_micro_usd=round_pico_to_micro(difference),
        is_undecided=found.state in {BreakState.OPEN, BreakState.EXPLAINED},
        is_invoiced=bool(found.invoiced_quantity or found.invoiced_pico_usd),
        is_ours=bool(found.ours_quantity or found.ours_pico_usd),
        is_closed=is_closed,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadlineCards:
    """The headline for cards: exact amounts are the headline's own; ages are whole days."""

    headline: Headline
    exact_micro_usd: int
    whole_micro_usd: int
    unexplained_days: int
    undecided_days: int


def headline_cards(found: Headline, at: datetime) -> HeadlineCards:
    """Give the cards at an instant."""
    return HeadlineCards(
        headline=found,
        exact_micro_usd=round_pico_to_micro(found.exact_pico_usd),
        whole_micro_usd=round_pico_to_micro(found.whole_pico_usd),
        unexplained_days=_days(found.oldest_unexplained_at, at),
        undecided_days=_days(found.oldest_undecided_at, at),
    )


def _days(since: datetime | None, at: datetime) -> int:
    return (at - since).days if since else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InvoiceRow:
    """An invoice in the list: ``step`` says how far it is, 1 to 5."""

    invoice: ProviderInvoice
    tone: str
    word: str
    invoiced_pico_usd: int | None
    ours_pico_usd: int | None
    difference_pico_usd: int | None
    undecided_count: int


def invoice_row(invoice: ProviderInvoice, *, is_closed: bool) -> InvoiceRow:
    """Give a line of the list; the invoice has its ``undecided_count`` and ``file_state``."""
    undecided_count = int(getattr(invoice, "undecided_count", 0))
    invoiced, ours = (
        None if each is None else int(each) for each in (invoice.invoiced_pico_usd, invoice.ours_pico_usd)
    )
    tone, word = _invoice_state(invoice, undecided_count, is_closed=is_closed)
    return InvoiceRow(
        invoice=invoice,
        tone=tone,
        word=word,
        invoiced_pico_usd=invoiced,
        ours_pico_usd=ours,
        difference_pico_usd=None if invoiced is None or ours is None else invoiced - ours,
        undecided_count=undecided_count,
    )


def _invoice_state(invoice: ProviderInvoice, undecided_count: int, *, is_closed: bool) -> tuple[str, str]:
    if is_closed:
        return "ok", "Closed"
    if invoice.match_state == "due":
        return "run", "Being matched"
    if invoice.match_state == MatchState.FAILED:
        return "bad", "Not matched"
    if invoice.matched_at is None:
        file_state = getattr(invoice, "file_state", None)
        if file_state in {None, FileState.READ}:
            return "idle", "Not matched yet"
        return FILE_BADGES[FileState(file_state)]
    return ("warn", "In review") if undecided_count else ("ok", "Matched")


def steps_of(
    file: InvoiceFile | None, invoice: ProviderInvoice, undecided_count: int, *, is_closed: bool
) -> list[dict[str, Any]]:
    """Give the steps of an invoice: what is done, and where it stands."""
    is_mapped = file is not None and file.report_format == Format.MAPPED_CSV
    words = ["Uploaded", *(["Mapped"] if is_mapped else []), "Read", "Matched", "Reviewed", "Closed"]
    done = {"Uploaded"} if file is not None else set()
    if file is not None and file.state != FileState.DRAFT:
        done.add("Mapped")
    if file is not None and file.state in {FileState.READ, FileState.REPLACED}:
        done.add("Read")
        if invoice.matched_at is not None and invoice.match_state == MatchState.IDLE:
            done |= {"Matched"} if undecided_count else {"Matched", "Reviewed"}
    if is_closed:
        done.add("Closed")
    current = next((word for word in words if word not in done), "")
    return [{"word": word, "is_done": word in done, "is_current": word == current} for word in words]


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketRow:
    """A compared place; rates are micro-USD per million tokens where they are whole."""

    bucket: Bucket
    class_word: str
    state_word: str
    invoiced_pico_usd: int
    ours_pico_usd: int
    difference_pico_usd: int
    invoiced_rate_micro_usd_per_mtok: int | None
    ours_rate_micro_usd_per_mtok: int | None


def bucket_row(bucket: Bucket) -> BucketRow:
    """Give a line of an invoice's page."""
    invoiced, ours = int(bucket.invoiced_pico_usd), int(bucket.ours_pico_usd)
    return BucketRow(
        bucket=bucket,
        class_word=CLASS_WORDS.get(bucket.token_class, bucket.token_class),
        state_word=_PLACE_WORDS[bucket.state],
        invoiced_pico_usd=invoiced,
        ours_pico_usd=ours,
        difference_pico_usd=invoiced - ours,
        invoiced_rate_micro_usd_per_mtok=rate_of(invoiced, bucket.invoiced_quantity),
        ours_rate_micro_usd_per_mtok=rate_of(ours, bucket.ours_quantity),
    )


def rate_of(pico_usd: int, tokens: int | None) -> int | None:
    """Give pico-USD a token, which is micro-USD per million tokens, to the nearest whole; None without tokens."""
    return (2 * pico_usd + tokens) // (2 * tokens) if tokens else None
