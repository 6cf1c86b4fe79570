"""``/v1/finance``: invoices, breaks and periods for programs of our own staff."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from typing import Annotated, Any, Final

from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Router, Schema
from pydantic import AfterValidator

from accounts.audit import record_reading
from accounts.models import User
from accounts.once import begin_once, begins_itself
from accounts.services.staff_keys import StaffCaller
from billing.reconciliation import period_selectors, selectors
from billing.reconciliation.domain.decisions import Action
from billing.reconciliation.domain.mapped import FIELDS
from billing.reconciliation.domain.records import ColumnMapping, Format
from billing.reconciliation.forms import UNDECIDED_STATE
from billing.reconciliation.models import UNDECIDED, BreakState
from billing.reconciliation.months import month_of
from billing.reconciliation.period_schemas import (
    LateAttemptsAnswer,
    LateAttemptsListAnswer,
    PeriodAnswer,
    PeriodDetailAnswer,
    PeriodListAnswer,
)
from billing.reconciliation.schemas import (
    BadLineAnswer,
    BadLineListAnswer,
    BreakAnswer,
    BreakDetailAnswer,
    BreakListAnswer,
    BreakTotalsAnswer,
    DecidedAnswer,
    InvoiceAnswer,
    InvoiceFileAnswer,
    InvoiceListAnswer,
    PlaceAnswer,
    PlaceListAnswer,
)
from billing.reconciliation.services import periods
from billing.reconciliation.services.decisions import Decision, decide_breaks, settle_pending
from billing.reconciliation.services.files import (
    Report,
    ask_to_cancel,
    file_by_id,
    map_file,
    stated_total_of,
    take_file,
)
from billing.reconciliation.services.matching import ask_to_match
from ground import clock
from ground.errors import InvalidRequest

router = Router(tags=["finance"])
_CHUNK_BYTES = 256 * 1024
_FILE_BODY: Final[dict[str, Any]] = {
    "requestBody": {"required": True, "content": {"application/octet-stream": {"schema": {"format": "binary"}}}}
}
_CSV: Final[dict[str, Any]] = {"responses": {200: {"content": {"text/csv": {}}}}}
Limit = Annotated[int, Query(ge=1, le=500)]


def _storable(text: str) -> str:
    if "\0" in text:
        raise ValueError("it holds a NUL character")
    return text


# What a body says: PostgreSQL takes no NUL as text. In addresses the door refuses it.
Text = Annotated[str, AfterValidator(_storable)]


class ReportIn(Schema):
    """What a file does not say of itself."""

    provider: str
    account: str
    month: str
    format: Format
    file_name: str = "report"
    number: str = ""
    total: str = ""
    fetched_with: str = ""


class MappingIn(Schema):
    """Which column of somebody else's table is what."""

    columns: dict[str, Text]
    delimiter: Text = ","
    zone: Text = "UTC"
    amount_unit: Text = "usd"
    currency: Text = "USD"
    tokens_per_unit_count: int = 1
    save_as: Text = ""


class DecisionIn(Schema):
    """One decision for one break or many."""

    ids: list[Text]
    action: Action
    reason: Text
    owner: Text = ""
    entry_key: Text = ""


class ApprovalIn(Schema):
    """What the second person says."""

    agrees: bool
    reason: Text


class ApprovalsIn(ApprovalIn):
    """What the second person says of many breaks."""

    ids: list[Text]


class BreaksIn(Schema):
    """Which breaks, and which page of them."""

    state: str = ""
    kind: str = ""
    invoice: str = ""
    month: str = ""
    provider: str = ""
    after: str = ""
    limit_count: int = Field(default=100, ge=1, le=500, alias="limit")


class ReasonIn(Schema):
    """A reason; needed to reopen."""

    reason: Text = ""


@router.post("/invoice_files", response=InvoiceFileAnswer, openapi_extra=_FILE_BODY)
@begins_itself
def hand_in_invoice_file(request: HttpRequest, said: Query[ReportIn]) -> InvoiceFileAnswer:
    """Hand in a report: the body is the file. It is read and matched in the background.

    Formats are `openai_costs`, `openai_usage`, `anthropic_cost`, `anthropic_usage`, `focus`, `aws_cur`, `mapped_csv`.
    """
    report = Report(
        provider=said.provider,
        provider_account=said.account,
        period=_month(said.month),
        report_format=said.format,
        file_name=said.file_name,
        invoice_number=said.number,
        stated_total_micro_usd=stated_total_of(said.total) if said.total else None,
        request_parameters=said.fetched_with,
        fetched_at=clock.now(),
    )
    file = take_file(report, _chunks(request), by=_person(request), begin=lambda sha256: begin_once(request, sha256))
    return InvoiceFileAnswer.of(file)


@router.get("/invoice_files/{file_id}", response=InvoiceFileAnswer)
def get_invoice_file(request: HttpRequest, file_id: str) -> InvoiceFileAnswer:
    """Give a file: how far it is, what was read, and its bad lines (the first 200)."""
    return InvoiceFileAnswer.of(file_by_id(file_id))


@router.get("/invoice_files/{file_id}/bad_lines", response=BadLineListAnswer)
def list_bad_lines(request: HttpRequest, file_id: str, after: str = "", limit: Limit = 100) -> BadLineListAnswer:
    """Give the lines of a file that could not be read, in its order."""
    page, has_more = selectors.bad_line_page(file_by_id(file_id), after=after, limit=limit)
    return BadLineListAnswer(**_page([BadLineAnswer.of(each) for each in page], has_more=has_more))


@router.post("/invoice_files/{file_id}/mapping", response=InvoiceFileAnswer)
def map_invoice_file(request: HttpRequest, file_id: str, body: MappingIn) -> InvoiceFileAnswer:
    """Say which column of a draft is what."""
    user = _person(request)
    unknown = set(body.columns) - set(FIELDS)
    if unknown:
        raise InvalidRequest(f"These fields are not known: {', '.join(sorted(unknown))[:200]}.", param="columns")
    mapping = ColumnMapping(**body.dict(exclude={"save_as"}))
    return InvoiceFileAnswer.of(map_file(file_id, mapping, save_as=body.save_as, by=user))


@router.post("/invoice_files/{file_id}/cancel", response=InvoiceFileAnswer)
def cancel_invoice_file(request: HttpRequest, file_id: str) -> InvoiceFileAnswer:
    """Read a file no further."""
    return InvoiceFileAnswer.of(ask_to_cancel(file_id))


@router.get("/invoices", response=InvoiceListAnswer)
def list_invoices(
    request: HttpRequest, month: str = "", text: str = "", after: str = "", limit: Limit = 100
) -> InvoiceListAnswer:
    """Give invoices, the newest month first."""
    period = _month(month) if month else None
    page, has_more = selectors.invoice_page(after=after, limit=limit, text=text, period=period)
    return InvoiceListAnswer(**_page([InvoiceAnswer.of(each) for each in page], has_more=has_more))


@router.get("/invoices/{invoice_id}", response=InvoiceAnswer)
def get_invoice(request: HttpRequest, invoice_id: str) -> InvoiceAnswer:
    """Give an invoice with its figures."""
    return InvoiceAnswer.of(selectors.invoice_by_id(invoice_id))


@router.get("/invoices/{invoice_id}/places", response=PlaceListAnswer)
def list_invoice_places(
    request: HttpRequest, invoice_id: str, state: str = "", after: str = "", limit: Limit = 100
) -> PlaceListAnswer:
    """Give both sides at each place of an invoice, by day; `state` is `exact`, `break` or `waiting`."""
    invoice = selectors.invoice_by_id(invoice_id)
    page, has_more = selectors.place_page(invoice, after=after, limit=limit, state=state)
    return PlaceListAnswer(**_page([PlaceAnswer.of(each) for each in page], has_more=has_more))


@router.post("/invoices/{invoice_id}/match", response=InvoiceAnswer)
def match_invoice(request: HttpRequest, invoice_id: str) -> InvoiceAnswer:
    """Match an invoice again; decisions stay."""
    invoice = selectors.invoice_by_id(invoice_id)
    ask_to_match(invoice)
    return InvoiceAnswer.of(selectors.invoice_by_id(invoice_id))


@router.get("/breaks", response=BreakListAnswer)
def list_breaks(request: HttpRequest, wanted: Query[BreaksIn]) -> BreakListAnswer:
    """Give breaks, the newest first, and the total of the filter over all its pages."""
    state = wanted.state
    known = {UNDECIDED_STATE, "", *BreakState.values}
    if state not in known:
        raise InvalidRequest(f"There is no such state; there are {', '.join(sorted(known - {''}))}.", param="state")
    choice = selectors.BreakChoice(
        states=tuple(str(each) for each in UNDECIDED) if state == UNDECIDED_STATE else (state,) if state else (),
        kind=wanted.kind,
        invoice=wanted.invoice,
        period=_month(wanted.month) if wanted.month else None,
        provider=wanted.provider,
    )
    found = selectors.breaks(choice)
    totals = selectors.totals_of(found)
    page, has_more = selectors.page_after(found, wanted.after, wanted.limit_count)
    total = BreakTotalsAnswer(count=totals.count, difference_pico_usd=totals.difference_pico_usd)
    return BreakListAnswer(**_page([BreakAnswer.of(each) for each in page], has_more=has_more), total=total)


@router.get("/breaks/{break_id}", response=BreakDetailAnswer)
def get_break(request: HttpRequest, break_id: str) -> BreakDetailAnswer:
    """Give a break with the evidence of both sides and its history."""
    return BreakDetailAnswer.of(selectors.break_by_id(break_id))


@router.post("/break_decisions", response=DecidedAnswer)
def decide(request: HttpRequest, body: DecisionIn) -> DecidedAnswer:
    """Decide breaks: all of them or none. Repeating it changes nothing."""
    user = _person(request)
    owner = User.objects.filter(email=body.owner.lower()).first() if body.owner else None
    decision = Decision(action=body.action, reason=body.reason, owner=owner, entry_key=body.entry_key)
    return DecidedAnswer.of(decide_breaks(body.ids, decision, by=user))


@router.post("/breaks/{break_id}/approval", response=BreakAnswer)
def approve(request: HttpRequest, break_id: str, body: ApprovalIn) -> BreakAnswer:
    """Agree to what waits for a second person, or refuse it."""
    user = _person(request)
    (settled,) = settle_pending([break_id], agrees=body.agrees, reason=body.reason, by=user)
    return BreakAnswer.of(settled)


@router.post("/break_approvals", response=DecidedAnswer)
def approve_many(request: HttpRequest, body: ApprovalsIn) -> DecidedAnswer:
    """Agree to what waits for a second person at many breaks, or refuse it: all of them or none."""
    user = _person(request)
    settled = settle_pending(body.ids, agrees=body.agrees, reason=body.reason, by=user)
    return DecidedAnswer.of(settled)


@router.get("/periods", response=PeriodListAnswer)
def list_periods(request: HttpRequest, after: str = "", limit: Limit = 24) -> PeriodListAnswer:
    """Give the months that have something, the newest first; `after` is a month, such as `2026-10`."""
    last = _month(after, param="after") if after else None
    page, has_more = period_selectors.period_page(after=last, limit=limit, at=clock.now())
    data = [PeriodAnswer.of(each) for each in page]
    return PeriodListAnswer(
        data=data,
        first_id=data[0].month if data else None,
        last_id=data[-1].month if data else None,
        has_more=has_more,
    )


@router.get("/periods/{month}", response=PeriodDetailAnswer)
def get_period(request: HttpRequest, month: str) -> PeriodDetailAnswer:
    """Give a month with its checklist."""
    return PeriodDetailAnswer.of(period_selectors.period_of(_month(month)))


@router.get("/periods/{month}/late_attempts", response=LateAttemptsListAnswer)
def list_late_attempts(request: HttpRequest, month: str, after: str = "", limit: Limit = 100) -> LateAttemptsListAnswer:
    """Give what was recorded of a month after it was closed, the newest first."""
    page, has_more = period_selectors.late_page(_month(month), after=after, limit=limit)
    return LateAttemptsListAnswer(**_page([LateAttemptsAnswer.of(each) for each in page], has_more=has_more))


@router.get("/periods/{month}/closing_file", response={200: None}, openapi_extra=_CSV)
def get_closing_file(request: HttpRequest, month: str) -> HttpResponse:
    """Give the closing file of a closed month."""
    content, sha256 = periods.closing_bytes(_month(month))
    record_reading("period.file_downloaded", object_type="period", object_id=month)
    response = HttpResponse(content, content_type="text/csv; charset=utf-8")
    response.headers["ETag"] = f'"{sha256.hex()}"'
    return response


@router.post("/periods/{month}/{action}", response=PeriodDetailAnswer)
@begins_itself
def act_on_period(request: HttpRequest, month: str, action: str, body: ReasonIn) -> PeriodDetailAnswer:
    """Ask to close a month (``ask``), close it as the second person (``close``), or open it again (``reopen``)."""
    user, first = _person(request), _month(month)
    # No transaction around it: the ledger is proven in a snapshot of its own. Each step is safe to repeat by itself.
    begin_once(request, request.body, is_atomic=False)
    if action == "ask":
        periods.ask_to_close(first, by=user)
    elif action == "close":
        periods.close(first, by=user)
    elif action == "reopen":
        periods.take_back(first, by=user, reason=body.reason)
    else:
        raise InvalidRequest("A month is asked to close, closed, or reopened: ask, close, reopen.", param="action")
    return PeriodDetailAnswer.of(period_selectors.period_of(first))


def _person(request: HttpRequest) -> User:
    """Give in whose name a call is made; what its key may do was looked at when it came in."""
    caller: StaffCaller = request.auth  # type: ignore[attr-defined]  # django-ninja adds it
    return caller.user


def _chunks(request: HttpRequest) -> Iterator[bytes]:
    while chunk := request.read(_CHUNK_BYTES):
        yield chunk


def _page(data: Sequence[Any], *, has_more: bool) -> dict[str, Any]:
    """Give the fields of a page in OpenAI's list shape; ``last_id`` is the next page's ``after``."""
    return {
        "data": data,
        "first_id": data[0].id if data else None,
        "last_id": data[-1].id if data else None,
        "has_more": has_more,
    }


def _month(text: str, *, param: str = "month") -> date:
    try:
        return month_of(text)
    except ValueError:
        raise InvalidRequest("Write a month as 2026-10.", param=param) from None
