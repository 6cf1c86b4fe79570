"""Wallets: finance's list of all with its proof and top-ups; a customer's statement of a month."""

from __future__ import annotations

import calendar
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from accounts.action_pages import Action, ask, done, say_error
from accounts.list_pages import ROWS_PER_PAGE, ListPage, show_list
from accounts.models import MemberRole, Membership, StaffRole, User
from accounts.pages import role_page, staff_page
from accounts.zones import reporting_zone_of
from billing.adjustments.selectors import organisation_named
from billing.books.forms import MONTH, TopUpForm, WalletFilterForm
from billing.books.selectors import (
    STATEMENT_ROWS,
    AccountStatement,
    account_by_code,
    account_statement,
    cursor_of,
)
from billing.books.shown import leg_row
from billing.books.statement_file import statement_csv
from billing.books.wallet_selectors import WalletRow, wallet_page, wallet_proof
from billing.models import LedgerAccount
from billing.printing.documents import MOVEMENTS_MAX, StatementFigures, StatementMovement, statement_sheet
from billing.printing.pdf import pdf_of
from billing.services.wallets import open_wallet, record_top_up
from ground import clock
from ground.errors import InvalidRequest
from ground.filters import span_of_days

_NAV = "wallets"
_READERS = (MemberRole.ADMIN, MemberRole.BILLING)


@require_safe
@staff_page(StaffRole.FINANCE)
def wallet_list(request: HttpRequest, _user: User) -> HttpResponse:
    """Show every customer's money, and that its sum is what the ledger says. Alone: the region ``list``."""
    form = WalletFilterForm(request.GET)
    rows: list[WalletRow] = []
    has_more = False
    if form.is_valid():
        rows, has_more = wallet_page(
            after=request.GET.get("after") or None,
            limit=ROWS_PER_PAGE,
            text=form.cleaned_data["text"],
            below_micro_usd=form.cleaned_data["below_micro_usd"],
            is_owing=form.cleaned_data["owing"] == "yes",
        )
    return show_list(
        request,
        ListPage(
            nav=_NAV,
            title="Wallets",
            heading="Wallets",
            lead="What customers have with us. Liability is all that is posted: available and held.",
            what="Wallets",
            table="billing/fin/_wallet_table.html",
            empty_title="No customers yet",
            empty_text="A customer's wallet is opened with its organisation.",
            above="billing/fin/_wallet_proof.html",
        ),
        form,
        rows,
        next_after=rows[-1].organisation.public_id if has_more else "",
        proof=wallet_proof(),
        sums=_sums(rows),
        is_whole=not has_more and not request.GET.get("after"),
    )


def _sums(rows: list[WalletRow]) -> dict[str, int]:
    """Give the sums of the columns that are shown."""
    names = ("available", "held", "settled", "receivable", "liability")
    return {name: sum(getattr(row, f"{name}_micro_usd") for row in rows) for name in names}


@require_http_methods(["GET", "HEAD", "POST"])
@staff_page(StaffRole.FINANCE)
def wallet_top_up(request: HttpRequest, user: User, organisation_id: str) -> HttpResponse:
    """Ask for a payment that came in, and record it once."""
    organisation = organisation_named(organisation_id)
    form = TopUpForm(request.POST if request.method == "POST" else None)
    back_url = reverse("billing:wallet-list")
    if form.is_bound and form.is_valid():
        day = form.cleaned_data["received_on"]
        effective_at = datetime.combine(day, time(), UTC) if day else clock.now()
        try:
            made = record_top_up(
                organisation,
                reference=form.cleaned_data["reference"],
                amount_micro_usd=form.cleaned_data["amount_micro_usd"],
                effective_at=min(effective_at, clock.now()),
                recorded_by=user,
            )
        except InvalidRequest as error:
            say_error(form, error)
        else:
            words = "was recorded before; nothing changed." if made.replayed else "is recorded."
            return done(request, back_url, f"The top-up of {organisation.name} {words}")
    lead = (f"Customer: {organisation.name}. What the customer owes is paid first.",)
    return ask(request, Action(title="Top up", submit="Record top-up", back_url=back_url, nav=_NAV, lead=lead), form)


@require_safe
@role_page(*_READERS)
def month_statement(request: HttpRequest, membership: Membership, month: str) -> HttpResponseBase:
    """Show an organisation's statement of a month in its reporting zone: page (also for paper), CSV or JSON."""
    organisation = membership.organisation
    zone = reporting_zone_of(organisation)
    since, until = _month_span(month, zone)
    open_wallet(organisation)
    account = account_by_code(f"wallet:{organisation.public_id}")
    form = request.GET.get("format", "")
    if form == "csv":
        return statement_csv(
            account, since, until, f"statement-{organisation.slug}-{month}-{zone.key.replace('/', '-')}.csv"
        )
    if form == "json":
        return _json(account, month, zone, since, until)
    first = date.fromisoformat(f"{month}-01")
    month_name = f"{calendar.month_name[first.month]} {first.year}"
    if form == "pdf":
        sheet = statement_sheet(organisation, month_name, zone, _figures(account, since, until))
        name = f"statement-{organisation.slug}-{month}-{zone.key.replace('/', '-')}.pdf"
        return HttpResponse(
            pdf_of(sheet, since),
            content_type="application/pdf",
            headers={"Content-Disposition": f'attachment; filename="{name}"'},
        )
    after = request.GET.get("after") or None
    found = account_statement(account, since=since, until=until, after=after)
    this = clock.now().astimezone(zone).date().replace(day=1)
    context = {
        "active_nav": "wallet",
        "crumbs": [{"label": "Wallet", "url": reverse("billing:wallet")}, {"label": "Statements"}],
        "month": month,
        "month_name": month_name,
        "customer": organisation,
        "statement": found,
        "rows": [(leg_row(each.leg), each.balance_micro_usd) for each in found.movements],
        "by_kind": _by_kind(found) if not found.has_more and after is None else (),
        "reporting_zone": zone.key,
        "since": since,
        "until": until,
        "is_open": first >= this,
        "previous": _neighbour(first, -1),
        "next": _neighbour(first, 1) if first < this else "",
        "older_url": f"{request.path}?after={cursor_of(found.movements[-1].leg)}" if found.has_more else "",
        "may_read_batches": True,
    }
    return render(request, "billing/month_statement.html", context)


def _month_span(month: str, zone: ZoneInfo) -> tuple[datetime, datetime]:
    if not MONTH.fullmatch(month):
        raise Http404("There is no such month.")
    first = date.fromisoformat(f"{month}-01")
    if first > clock.now().astimezone(zone).date():
        raise Http404("This month has not begun.")
    last = first.replace(day=calendar.monthrange(first.year, first.month)[1])
    span = span_of_days(first, last, zone)
    assert span.since is not None, "a month has both ends"
    assert span.until is not None, "a month has both ends"
    return span.since, span.until


def _neighbour(first: date, step: int) -> str:
    other = first - timedelta(days=1) if step < 0 else first + timedelta(days=32)
    return other.strftime("%Y-%m")


def _by_kind(found: AccountStatement) -> list[dict[str, Any]]:
    """Give the movements' sums by kind; they add up to closing less opening."""
    sums: dict[str, list[int]] = {}
    for movement in found.movements:
        total = sums.setdefault(leg_row(movement.leg).word, [0, 0])
        total[0] += 1
        total[1] += movement.leg.amount_micro_usd
    return [{"word": word, "count": count, "amount_micro_usd": total} for word, (count, total) in sums.items()]


def _figures(account: LedgerAccount, since: datetime, until: datetime) -> StatementFigures:
    """Give what the PDF says of a month; of more movements than are printed, their sums alone."""
    found = account_statement(account, since=since, until=until, limit=MOVEMENTS_MAX)
    movements = tuple(
        StatementMovement(
            booked_at=each.leg.transaction.booked_at,
            word=leg_row(each.leg).word,
            reference=each.leg.transaction.reference,
            amount_micro_usd=each.leg.amount_micro_usd,
            balance_micro_usd=each.balance_micro_usd,
        )
        for each in found.movements
    )
    return StatementFigures(
        opening_micro_usd=found.opening_micro_usd,
        credit_micro_usd=found.credit_micro_usd,
        debit_micro_usd=found.debit_micro_usd,
        closing_micro_usd=found.closing_micro_usd,
        movements=None if found.has_more else movements,
    )


def _json(account: LedgerAccount, month: str, zone: ZoneInfo, since: datetime, until: datetime) -> HttpResponse:
    movements: list[dict[str, Any]] = []
    after: str | None = None
    while True:
        found = account_statement(account, since=since, until=until, after=after, limit=STATEMENT_ROWS)
        movements += [
            {
                "booked_at": int(each.leg.transaction.booked_at.timestamp()),
                "effective_at": int(each.leg.transaction.effective_at.timestamp()),
                "kind": each.leg.transaction.kind,
                "reference": each.leg.transaction.reference,
                "amount_micro_usd": each.leg.amount_micro_usd,
                "balance_micro_usd": each.balance_micro_usd,
            }
            for each in found.movements
        ]
        if not found.has_more:
            break
        after = cursor_of(found.movements[-1].leg)
    answer = {
        "object": "wallet_statement",
        "month": month,
        "zone": zone.key,
        "since": int(since.timestamp()),
        "until": int(until.timestamp()),
        "opening_micro_usd": found.opening_micro_usd,
        "debit_micro_usd": found.debit_micro_usd,
        "credit_micro_usd": found.credit_micro_usd,
        "closing_micro_usd": found.closing_micro_usd,
        "movements": movements,
    }
    return JsonResponse(answer, headers={"Content-Disposition": f'attachment; filename="statement-{month}.json"'})
