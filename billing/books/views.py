"""Finance's pages of the ledger: its accounts, entries, statements and health."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from accounts.list_pages import ROWS_PER_PAGE, Deed, ListPage, show_list
from accounts.models import StaffRole, User
from accounts.pages import staff_page
from accounts.zones import zone_of
from billing.adjustments.models import Adjustment, AdjustmentState
from billing.books.forms import EntryFilterForm, PeriodForm
from billing.books.models import LedgerSnapshot, ProofRun
from billing.books.selectors import (
    DEBIT_KINDS,
    AccountStatement,
    Axis,
    LegChoice,
    LegPage,
    account_by_code,
    account_statement,
    accounts_of,
    balances_as_of,
    cursor_of,
    entry_by_key,
    kind_totals,
    leg_page,
)
from billing.books.services import request_proof
from billing.domain.cells import usd_cell
from billing.exports.scope import ExportKind
from billing.forms import ENTRY_WORDS
from billing.models import AccountKind, LedgerAccount, LedgerLeg, TransactionKind
from billing.views.shown import house_export_url
from ground import clock
from ground.cells import csv_lines, text_cell
from ground.errors import NotFound
from ground.filters import Span, span_of_days

NAV = "ledger"
_NO_LEGS = LegPage(legs=(), has_more=False, debit_micro_usd=0, credit_micro_usd=0)


@require_safe
@staff_page(StaffRole.FINANCE)
def ledger(request: HttpRequest, _user: User) -> HttpResponse:
    """Show entries leg by leg, newest first, with the sums of all that match. Alone: the region ``list``."""
    form = EntryFilterForm(request.GET)
    page = _NO_LEGS
    book = "customer"
    if form.is_valid():
        book = form.cleaned_data["book"] or book
        choice = LegChoice(
            book=book,
            span=form.span(zone_of(request, None)),
            **{name: form.cleaned_data[name] for name in ("text", "account_kind", "kind")},
            **{name: form.cleaned_data[name] for name in ("least_micro_usd", "most_micro_usd")},
        )
        try:
            page = leg_page(choice, after=request.GET.get("after") or None, limit=ROWS_PER_PAGE)
        except NotFound as error:
            raise Http404(error.message) from error
    return show_list(
        request,
        ListPage(
            nav=NAV,
            title="Ledger",
            heading="Ledger",
            lead="Double entry, append-only. An entry is corrected by another one that links it.",
            what="Entries",
            table="billing/fin/_entry_table.html",
            empty_title="No entries yet",
            empty_text="The first top-up or settlement writes one.",
            deeds=[
                Deed(key="accounts", label="Accounts", url=reverse("billing:ledger-accounts")),
                Deed(key="health", label="Health", url=reverse("billing:ledger-health"), icon="shield-check"),
            ],
        ),
        form,
        [leg_row(leg) for leg in page.legs],
        next_after=cursor_of(page.legs[-1]) if page.has_more else "",
        totals=page,
        export_url=house_export_url(
            ExportKind.LEDGER, form.cleaned_data if form.is_valid() else {}, zone_of(request, None)
        ),
    )


@require_safe
@staff_page(StaffRole.FINANCE)
def account_tree(request: HttpRequest, _user: User) -> HttpResponse:
    """Show the accounts by kind with their balances at an instant, by booked or effective time."""
    at = _instant(request) or clock.now()
    axis = Axis.EFFECTIVE if request.GET.get("axis") == Axis.EFFECTIVE else Axis.BOOKED
    accounts = accounts_of("customer")
    balances = balances_as_of(at, axis, accounts)
    groups = []
    for total in kind_totals("customer", at, axis):
        rows = [_sided(account, balances[account.pk]) for account in accounts if account.kind == total.kind]
        groups.append({"total": total, "rows": rows, **_sides(total.balance_micro_usd)})
    context = {
        "active_nav": NAV,
        "groups": groups,
        "at": at,
        "axis": axis,
        "axes": [(each, each.value.capitalize()) for each in Axis],
        "asked_on": request.GET.get("on", ""),
        "difference_micro_usd": sum(group["total"].balance_micro_usd for group in groups),
    }
    return render(request, "billing/fin/accounts.html", context)


@require_safe
@staff_page(StaffRole.FINANCE)
def account_page(request: HttpRequest, _user: User, code: str) -> HttpResponseBase:
    """Show an account's statement: opening, movements with the running balance, closing; or as CSV."""
    try:
        account = account_by_code(code)
    except NotFound as error:
        raise Http404(error.message) from error
    zone = zone_of(request, None)
    form = PeriodForm(request.GET)
    span = _period(form, zone)
    assert span.since is not None, "a period has both ends"
    assert span.until is not None, "a period has both ends"
    if request.GET.get("format") == "csv":
        return statement_csv(account, span.since, span.until, f"{code.replace(':', '-')}.csv")
    try:
        found = account_statement(account, since=span.since, until=span.until, after=request.GET.get("after") or None)
    except NotFound as error:
        raise Http404(error.message) from error
    context = {
        "active_nav": NAV,
        "account": account,
        "kind": AccountKind(account.kind).label,
        "form": form,
        "list_url": request.path,
        "statement": found,
        "opening": _sides(found.opening_micro_usd),
        "closing": _sides(found.closing_micro_usd),
        "rows": [{**leg_row(each.leg), **_sides(each.balance_micro_usd)} for each in found.movements],
        "since": span.since,
        "until": span.until,
        "older_url": request.path + form.query(after=cursor_of(found.movements[-1].leg)) if found.has_more else "",
        "csv_url": request.path + form.query(format="csv"),
    }
    return render(request, "billing/fin/account.html", context)


@require_safe
@staff_page(StaffRole.FINANCE)
def entry_detail(request: HttpRequest, _user: User, key: str) -> HttpResponse:
    """Show an entry: all legs, its document, who made it, and what reverses it or it reverses."""
    try:
        entry = entry_by_key(key)
    except NotFound as error:
        raise Http404(error.message) from error
    legs = list(entry.legs.select_related("account").order_by("leg_number"))
    kind = TransactionKind(entry.kind)
    adjustment = getattr(entry, "adjustment", None)
    reversed_by = Adjustment.objects.filter(reverses=entry).exclude(state=AdjustmentState.REFUSED).first()
    context = {
        "active_nav": NAV,
        "entry": entry,
        "word": ENTRY_WORDS[kind],
        "rows": [leg_row(leg) for leg in legs],
        "total_micro_usd": sum(leg.amount_micro_usd for leg in legs if leg.amount_micro_usd > 0),
        "receipt": getattr(entry, "receipt", None),
        "adjustment": adjustment,
        "reversed_by": reversed_by,
        "may_reverse": entry.organisation_id is not None
        and reversed_by is None
        and kind not in {TransactionKind.SETTLEMENT, TransactionKind.REVERSAL, TransactionKind.GRANT_EXPIRY},
    }
    return render(request, "billing/fin/entry.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@staff_page(StaffRole.FINANCE)
def ledger_health(request: HttpRequest, user: User) -> HttpResponse:
    """Show the last proofs of the books, and ask for another one."""
    if request.method == "POST":
        request_proof(user)
        messages.success(request, "The books are being proven. The answer stands here when it is done.")
        return redirect("billing:ledger-health")
    runs = list(ProofRun.objects.select_related("requested_by").order_by("-pk")[:20])
    done = [run for run in runs if run.finished_at is not None]
    context = {
        "active_nav": NAV,
        "last": done[0] if done else None,
        "runs": runs,
        "is_running": any(run.finished_at is None for run in runs),
        "snapshot": LedgerSnapshot.objects.order_by("-cutoff_at").first(),
    }
    return render(request, "billing/fin/health.html", context)


def leg_row(leg: LedgerLeg) -> dict[str, Any]:
    """Give what tables say of a leg: which side, and what it is for."""
    return {
        "leg": leg,
        "entry": leg.transaction,
        "word": ENTRY_WORDS[TransactionKind(leg.transaction.kind)],
        "debit_micro_usd": -leg.amount_micro_usd if leg.amount_micro_usd < 0 else None,
        "credit_micro_usd": leg.amount_micro_usd if leg.amount_micro_usd >= 0 else None,
    }


def statement_csv(account: LedgerAccount, since: datetime, until: datetime, name: str) -> StreamingHttpResponse:
    """Give an account's statement as a CSV file: opening, each movement, closing."""
    header = (
        "booked_at_utc",
        "effective_at_utc",
        "entry",
        "kind",
        "reference",
        "debit_usd",
        "credit_usd",
        "balance_usd",
    )
    return StreamingHttpResponse(
        csv_lines(header, _statement_cells(account, since, until)),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _statement_cells(account: LedgerAccount, since: datetime, until: datetime) -> Iterator[list[str]]:
    after: str | None = None
    while True:
        page: AccountStatement = account_statement(account, since=since, until=until, after=after, limit=1_000)
        if after is None:
            yield [_stamp(since), "", "", "opening", "", "", "", usd_cell(page.opening_micro_usd)]
        for movement in page.movements:
            leg, entry = movement.leg, movement.leg.transaction
            yield [
                _stamp(entry.booked_at),
                _stamp(entry.effective_at),
                text_cell(entry.business_key),
                entry.kind,
                text_cell(entry.reference),
                usd_cell(-leg.amount_micro_usd) if leg.amount_micro_usd < 0 else "",
                usd_cell(leg.amount_micro_usd) if leg.amount_micro_usd >= 0 else "",
                usd_cell(movement.balance_micro_usd),
            ]
        if not page.has_more:
            yield [_stamp(until), "", "", "closing", "", "", "", usd_cell(page.closing_micro_usd)]
            return
        after = cursor_of(page.movements[-1].leg)


def _stamp(at: datetime) -> str:
    return at.astimezone(ZoneInfo("UTC")).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _sides(balance_micro_usd: int) -> dict[str, Any]:
    """Give a balance as accountants write it: its size and its side, never a bare sign."""
    side = "Cr" if balance_micro_usd > 0 else "Dr" if balance_micro_usd < 0 else ""
    return {"balance_micro_usd": abs(balance_micro_usd), "side": side}


def _sided(account: LedgerAccount, balance_micro_usd: int) -> dict[str, Any]:
    is_odd = balance_micro_usd != 0 and (balance_micro_usd < 0) != (AccountKind(account.kind) in DEBIT_KINDS)
    return {"account": account, "is_odd": is_odd, **_sides(balance_micro_usd)}


def _period(form: PeriodForm, zone: ZoneInfo) -> Span:
    """Give the asked span; an open end is the running month's first day, and the day after today."""
    today = clock.now().astimezone(zone).date()
    chosen = form.cleaned_data if form.is_valid() else {}
    first: date = chosen.get("since") or min(today.replace(day=1), chosen.get("until") or today)
    return span_of_days(first, chosen.get("until") or max(today, first), zone)


def _instant(request: HttpRequest) -> datetime | None:
    """Give the end of the day that is asked for, in the viewer's zone."""
    try:
        day = date.fromisoformat(request.GET.get("on", ""))
        span = span_of_days(None, day, zone_of(request, None))
    except (ValueError, OverflowError):
        return None
    return span.until - timedelta(microseconds=1) if span.until else None
