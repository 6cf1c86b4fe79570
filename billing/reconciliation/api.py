"""``/v1/finance``: invoices, breaks and periods for programs of our own staff."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Annotated, Any, cast

from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Router, Schema
from pydantic import AfterValidator

from accounts.domain.staff_scopes import StaffScope
from accounts.models import User
from accounts.services.staff_keys import StaffCaller
from billing.reconciliation import selectors
from billing.reconciliation.answers import break_answer, file_answer, instant_answer, invoice_answer, period_answer
from billing.reconciliation.domain.decisions import Action
from billing.reconciliation.domain.mapped import FIELDS
from billing.reconciliation.domain.records import ColumnMapping, Format
from billing.reconciliation.forms import UNDECIDED_STATE
from billing.reconciliation.models import UNDECIDED, BreakState
from billing.reconciliation.months import month_of
from billing.reconciliation.services import periods
from billing.reconciliation.services.decisions import Decision, decide_breaks, settle_pending
from billing.reconciliation.services.files import Report, ask_to_cancel, file_by_id, map_file, take_file
from billing.reconciliation.services.matching import ask_to_match
from ground import clock
from ground.errors import InvalidRequest

router = Router(tags=["finance"])
# Not in the published OpenAPI, which is for customers; docs/finance-api.md has it.
_get = partial(router.get, include_in_schema=False)
_post = partial(router.post, include_in_schema=False)
_CHUNK_BYTES = 256 * 1024
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


@_post("/invoice_files")
def hand_in_invoice_file(request: HttpRequest, said: Query[ReportIn]) -> dict[str, Any]:
    """Hand in a report: the body is the file. It is read and matched in the background."""
    report = Report(
        provider=said.provider,
        provider_account=said.account,
        period=_month(said.month),
        report_format=said.format,
        file_name=said.file_name,
        invoice_number=said.number,
        stated_total_micro_usd=_micro_usd(said.total) if said.total else None,
        request_parameters=said.fetched_with,
        fetched_at=clock.now(),
    )
    return file_answer(take_file(report, _chunks(request), by=_writer(request)))


@_get("/invoice_files/{file_id}")
def get_invoice_file(request: HttpRequest, file_id: str) -> dict[str, Any]:
    """Give a file: how far it is, what was read, and its bad lines (the first 200)."""
    _reader(request)
    return file_answer(file_by_id(file_id))


@_post("/invoice_files/{file_id}/mapping")
def map_invoice_file(request: HttpRequest, file_id: str, body: MappingIn) -> dict[str, Any]:
    """Say which column of a draft is what."""
    user = _writer(request)
    unknown = set(body.columns) - set(FIELDS)
    if unknown:
        raise InvalidRequest(f"These fields are not known: {', '.join(sorted(unknown))[:200]}.", param="columns")
    mapping = ColumnMapping(**body.dict(exclude={"save_as"}))
    return file_answer(map_file(file_id, mapping, save_as=body.save_as, by=user))


@_post("/invoice_files/{file_id}/cancel")
def cancel_invoice_file(request: HttpRequest, file_id: str) -> dict[str, Any]:
    """Read a file no further."""
    _writer(request)
    return file_answer(ask_to_cancel(file_id))


@_get("/invoices")
def list_invoices(request: HttpRequest, month: str = "", text: str = "", limit: Limit = 100) -> dict[str, Any]:
    """Give invoices, the newest month first."""
    _reader(request)
    found = selectors.invoices(text=text, period=_month(month) if month else None)[: limit + 1]
    page = list(found)
    return {"object": "list", "data": [invoice_answer(each) for each in page[:limit]], "has_more": len(page) > limit}


@_get("/invoices/{invoice_id}")
def get_invoice(request: HttpRequest, invoice_id: str) -> dict[str, Any]:
    """Give an invoice with its figures."""
    _reader(request)
    return invoice_answer(selectors.invoice_by_id(invoice_id))


@_post("/invoices/{invoice_id}/match")
def match_invoice(request: HttpRequest, invoice_id: str) -> dict[str, Any]:
    """Match an invoice again; decisions stay."""
    _writer(request)
    invoice = selectors.invoice_by_id(invoice_id)
    ask_to_match(invoice)
    return invoice_answer(selectors.invoice_by_id(invoice_id))


@_get("/breaks")
def list_breaks(request: HttpRequest, wanted: Query[BreaksIn]) -> dict[str, Any]:
    """Give breaks, the newest first, and the total of the filter over all its pages."""
    _reader(request)
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
    return {
        "object": "list",
        "data": [break_answer(each) for each in page],
        "first_id": page[0].public_id if page else None,
        "last_id": page[-1].public_id if page else None,
        "has_more": has_more,
        "total": {"count": totals.count, "difference_pico_usd": totals.difference_pico_usd},
    }


@_get("/breaks/{break_id}")
def get_break(request: HttpRequest, break_id: str) -> dict[str, Any]:
    """Give a break with the evidence of both sides and its history."""
    _reader(request)
    found = selectors.break_by_id(break_id)
    events = found.events.select_related("by").order_by("at", "pk")
    return break_answer(found) | {
        "evidence": found.evidence,
        "siblings": [each.public_id for each in selectors.siblings_of(found)],
        "events": [
            {
                "at": instant_answer(event.at),
                "by": event.by.name if event.by else None,
                "action": event.action,
                "from_state": event.from_state,
                "to_state": event.to_state,
                "reason": event.reason,
                "said": event.said,
            }
            for event in events
        ],
    }


@_post("/break_decisions")
def decide(request: HttpRequest, body: DecisionIn) -> dict[str, Any]:
    """Decide breaks: all of them or none. Repeating it changes nothing."""
    user = _writer(request)
    owner = User.objects.filter(email=body.owner.lower()).first() if body.owner else None
    decision = Decision(action=body.action, reason=body.reason, owner=owner, entry_key=body.entry_key)
    return {"object": "list", "data": [break_answer(each) for each in decide_breaks(body.ids, decision, by=user)]}


@_post("/breaks/{break_id}/approval")
def approve(request: HttpRequest, break_id: str, body: ApprovalIn) -> dict[str, Any]:
    """Agree to what waits for a second person, or refuse it."""
    user = _writer(request)
    (settled,) = settle_pending([break_id], agrees=body.agrees, reason=body.reason, by=user)
    return break_answer(settled)


@_post("/break_approvals")
def approve_many(request: HttpRequest, body: ApprovalsIn) -> dict[str, Any]:
    """Agree to what waits for a second person at many breaks, or refuse it: all of them or none."""
    user = _writer(request)
    settled = settle_pending(body.ids, agrees=body.agrees, reason=body.reason, by=user)
    return {"object": "list", "data": [break_answer(each) for each in settled]}


@_get("/periods/{month}")
def get_period(request: HttpRequest, month: str) -> dict[str, Any]:
    """Give a month with its checklist."""
    _reader(request)
    return period_answer(_month(month))


@_get("/periods/{month}/closing_file")
def get_closing_file(request: HttpRequest, month: str) -> HttpResponse:
    """Give the closing file of a closed month."""
    _reader(request)
    content, sha256 = periods.closing_bytes(_month(month))
    response = HttpResponse(content, content_type="text/csv; charset=utf-8")
    response.headers["ETag"] = f'"{sha256.hex()}"'
    return response


@_post("/periods/{month}/{action}")
def act_on_period(request: HttpRequest, month: str, action: str, body: ReasonIn) -> dict[str, Any]:
    """Ask to close a month (``ask``), close it as the second person (``close``), or open it again (``reopen``)."""
    user, first = _writer(request), _month(month)
    if action == "ask":
        periods.ask_to_close(first, by=user)
    elif action == "close":
        periods.close(first, by=user)
    elif action == "reopen":
        periods.take_back(first, by=user, reason=body.reason)
    else:
        raise InvalidRequest("A month is asked to close, closed, or reopened: ask, close, reopen.", param="action")
    return period_answer(first)


def _caller(request: HttpRequest) -> StaffCaller:
    return cast(StaffCaller, request.auth)  # type: ignore[attr-defined]  # django-ninja adds it


def _reader(request: HttpRequest) -> User:
    caller = _caller(request)
    caller.check(StaffScope.FINANCE_READ)
    return caller.user


def _writer(request: HttpRequest) -> User:
    caller = _caller(request)
    caller.check(StaffScope.FINANCE_WRITE)
    return caller.user


def _chunks(request: HttpRequest) -> Iterator[bytes]:
    while chunk := request.read(_CHUNK_BYTES):
        yield chunk


def _month(text: str) -> date:
    try:
        return month_of(text)
    except ValueError:
        raise InvalidRequest("Write a month as 2026-10.", param="month") from None


def _micro_usd(text: str) -> int:
    try:
        total = Decimal(text)
    except InvalidOperation:
        raise InvalidRequest("The total is an amount in USD, such as 1234.56.", param="total") from None
    if not total.is_finite() or abs(total) >= 10**12 or total != round(total, 6):
        raise InvalidRequest("The total is an amount in USD with up to six decimals.", param="total")
    return int(total.scaleb(6))
