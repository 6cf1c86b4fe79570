"""``/v1/finance``: how it shows its things. Money is in whole pico-USD, instants in whole Unix seconds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal

from ninja import Schema

from billing.reconciliation import selectors
from billing.reconciliation.models import (
    BadInvoiceLine,
    Break,
    BreakEvent,
    Bucket,
    InvoiceFile,
    ProviderInvoice,
)


class InvoiceAnswer(Schema):
    """What a provider bills one of our accounts for a month, with the figures of its last match."""

    id: str
    object: Literal["provider_invoice"] = "provider_invoice"
    provider: str
    provider_account: str
    month: str
    number: str
    match_state: str
    match_trouble: str
    matched_at: int | None
    invoiced_pico_usd: int | None
    ours_pico_usd: int | None
    exact_pico_usd: int
    explained_pico_usd: int
    unexplained_pico_usd: int
    waiting_pico_usd: int
    undecided_count: int
    oldest_unexplained_at: int | None
    files: list[str]

    @classmethod
    def of(cls, invoice: ProviderInvoice) -> InvoiceAnswer:
        """Shape an invoice."""
        headline = selectors.headline(ProviderInvoice.objects.filter(pk=invoice.pk))
        return cls(
            id=invoice.public_id,
            provider=invoice.provider,
            provider_account=invoice.provider_account,
            month=f"{invoice.period:%Y-%m}",
            number=invoice.number,
            match_state=invoice.match_state,
            match_trouble=invoice.match_trouble,
            matched_at=instant_answer(invoice.matched_at),
            invoiced_pico_usd=_whole(invoice.invoiced_pico_usd),
            ours_pico_usd=_whole(invoice.ours_pico_usd),
            exact_pico_usd=headline.exact_pico_usd,
            explained_pico_usd=headline.explained_pico_usd,
            unexplained_pico_usd=headline.unexplained_pico_usd,
            waiting_pico_usd=headline.waiting_pico_usd,
            undecided_count=headline.undecided_count,
            oldest_unexplained_at=instant_answer(headline.oldest_unexplained_at),
            files=[file.public_id for file in invoice.files.order_by("-pk")],
        )


class InvoiceListAnswer(Schema):
    """A page of invoices, the newest month first."""

    object: Literal["list"] = "list"
    data: list[InvoiceAnswer]
    first_id: str | None
    last_id: str | None
    has_more: bool


class PlaceAnswer(Schema):
    """Both sides at one account x day x model x tier x token class x project; `id` is the cursor."""

    id: str
    object: Literal["invoice_place"] = "invoice_place"
    day: date
    model: str
    tier: str
    token_class: str
    project: str
    invoiced_line_count: int
    invoiced_tokens: int | None
    invoiced_pico_usd: int
    ours_job_count: int
    ours_tokens: int
    ours_pico_usd: int
    state: str

    @classmethod
    def of(cls, bucket: Bucket) -> PlaceAnswer:
        """Shape a place."""
        return cls(
            id=selectors.place_cursor(bucket),
            day=bucket.day,
            model=bucket.model,
            tier=bucket.tier,
            token_class=bucket.token_class,
            project=bucket.project,
            invoiced_line_count=bucket.invoiced_line_count,
            invoiced_tokens=bucket.invoiced_quantity,
            invoiced_pico_usd=int(bucket.invoiced_pico_usd),
            ours_job_count=bucket.ours_job_count,
            ours_tokens=bucket.ours_quantity,
            ours_pico_usd=int(bucket.ours_pico_usd),
            state=bucket.state,
        )


class PlaceListAnswer(Schema):
    """A page of an invoice's places, by day."""

    object: Literal["list"] = "list"
    data: list[PlaceAnswer]
    first_id: str | None
    last_id: str | None
    has_more: bool


class BadLineAnswer(Schema):
    """A line that could not be read; `id` is the cursor."""

    id: str
    object: Literal["bad_line"] = "bad_line"
    line: int
    code: str
    message: str

    @classmethod
    def of(cls, line: BadInvoiceLine) -> BadLineAnswer:
        """Shape a bad line."""
        return cls(id=selectors.bad_line_cursor(line), line=line.line, code=line.code, message=line.message)


class BadLineListAnswer(Schema):
    """A page of a file's bad lines, in the file's order."""

    object: Literal["list"] = "list"
    data: list[BadLineAnswer]
    first_id: str | None
    last_id: str | None
    has_more: bool


class InvoiceFileAnswer(Schema):
    """A report that was handed in. `bad_lines` are the first 200; `/bad_lines` pages through all."""

    id: str
    object: Literal["invoice_file"] = "invoice_file"
    invoice_id: str
    format: str
    status: str
    file_name: str
    size_bytes: int
    sha256: str
    parser_version: int
    page_count: int
    line_count: int
    read_line_count: int
    bad_line_count: int
    bad_lines: list[BadLineAnswer]
    total_pico_usd: int
    is_complete: bool
    incomplete_reason: str
    trouble: str
    uploaded_at: int
    read_at: int | None

    @classmethod
    def of(cls, file: InvoiceFile) -> InvoiceFileAnswer:
        """Shape a file."""
        bad_lines, _ = selectors.bad_line_page(file, after="", limit=200)
        return cls(
            id=file.public_id,
            invoice_id=file.invoice.public_id,
            format=file.report_format,
            status=file.state,
            file_name=file.file_name,
            size_bytes=file.size_bytes,
            sha256=bytes(file.sha256).hex(),
            parser_version=file.parser_version,
            page_count=file.page_count,
            line_count=file.line_count,
            read_line_count=file.read_line_count,
            bad_line_count=file.bad_line_count,
            bad_lines=[BadLineAnswer.of(line) for line in bad_lines],
            total_pico_usd=int(file.total_pico_usd),
            is_complete=file.is_complete,
            incomplete_reason=file.incomplete_reason,
            trouble=file.trouble,
            uploaded_at=int(file.uploaded_at.timestamp()),
            read_at=instant_answer(file.read_at),
        )


class BreakAnswer(Schema):
    """A difference; `asked_action` waits for a second person while `state` is `pending`."""

    id: str
    object: Literal["break"] = "break"
    invoice_id: str
    kind: str
    state: str
    explanation: str
    day: date | None
    model: str
    tier: str
    token_class: str
    project: str
    invoiced_tokens: int | None
    ours_tokens: int | None
    invoiced_pico_usd: int
    ours_pico_usd: int
    difference_pico_usd: int
    owner: str | None
    reason: str
    asked_action: str | None
    entry_key: str
    decided_by: str | None
    opened_at: int
    decided_at: int | None

    @classmethod
    def of(cls, found: Break) -> BreakAnswer:
        """Shape a break."""
        return cls(**_break_fields(found))


class BreakEventAnswer(Schema):
    """One step in a break's life; without `by` the matcher's."""

    at: int
    by: str | None
    action: str
    from_state: str
    to_state: str
    reason: str
    said: str

    @classmethod
    def of(cls, event: BreakEvent) -> BreakEventAnswer:
        """Shape an event."""
        return cls(
            at=int(event.at.timestamp()),
            by=event.by.name if event.by else None,
            action=event.action,
            from_state=event.from_state,
            to_state=event.to_state,
            reason=event.reason,
            said=event.said,
        )


class BreakDetailAnswer(BreakAnswer):
    """A break with the evidence of both sides and its history."""

    evidence: dict[str, Any]
    siblings: list[str]
    events: list[BreakEventAnswer]

    @classmethod
    def of(cls, found: Break) -> BreakDetailAnswer:
        """Shape a break."""
        events = found.events.select_related("by").order_by("at", "pk")
        return cls(
            **_break_fields(found),
            evidence=found.evidence,
            siblings=[each.public_id for each in selectors.siblings_of(found)],
            events=[BreakEventAnswer.of(event) for event in events],
        )


class BreakTotalsAnswer(Schema):
    """The total of a filter, over all its pages."""

    count: int
    difference_pico_usd: int


class BreakListAnswer(Schema):
    """A page of breaks, the newest first."""

    object: Literal["list"] = "list"
    data: list[BreakAnswer]
    first_id: str | None
    last_id: str | None
    has_more: bool
    total: BreakTotalsAnswer


class DecidedAnswer(Schema):
    """Breaks as they are after a decision."""

    object: Literal["list"] = "list"
    data: list[BreakAnswer]

    @classmethod
    def of(cls, breaks: Sequence[Break]) -> DecidedAnswer:
        """Shape them."""
        return cls(data=[BreakAnswer.of(each) for each in breaks])


def _break_fields(found: Break) -> dict[str, Any]:
    return {
        "id": found.public_id,
        "invoice_id": found.invoice.public_id,
        "kind": found.kind,
        "state": found.state,
        "explanation": found.said,
        "day": found.day,
        "model": found.model,
        "tier": found.tier,
        "token_class": found.token_class,
        "project": found.project,
        "invoiced_tokens": found.invoiced_quantity,
        "ours_tokens": found.ours_quantity,
        "invoiced_pico_usd": int(found.invoiced_pico_usd),
        "ours_pico_usd": int(found.ours_pico_usd),
        "difference_pico_usd": int(found.difference_pico_usd),
        "owner": found.owner.email if found.owner else None,
        "reason": found.reason,
        "asked_action": found.asked_action or None,
        "entry_key": found.entry_key,
        "decided_by": found.decided_by.email if found.decided_by else None,
        "opened_at": int(found.opened_at.timestamp()),
        "decided_at": instant_answer(found.decided_at),
    }


def instant_answer(instant: datetime | None) -> int | None:
    """Give an instant as whole Unix seconds."""
    return int(instant.timestamp()) if instant else None


def _whole(value: Decimal | None) -> int | None:
    return None if value is None else int(value)
