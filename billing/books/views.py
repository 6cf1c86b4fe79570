"""Finance's pages of the ledger: its accounts, entries, statements and health."""

from __future__ import annotations

from datetime import date, timedelta
from zoneinfo import ZoneInfo

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from accounts.list_pages import ROWS_PER_PAGE, Deed, ListPage, show_list
from accounts.models import StaffRole, User
from accounts.pages import staff_page
from accounts.zones import zone_of
from billing.adjustments.models import Adjustment, AdjustmentState
from billing.books.forms import BalanceForm, EntryFilterForm, PeriodForm
from billing.books.models import LedgerSnapshot, ProofRun
from billing.books.selectors import (
    KindTotal,
    LegChoice,
    LegPage,
    account_by_code,
    account_statement,
    accounts_of,
    balances_as_of,
    cursor_of,
    entry_by_key,
    leg_page,
    totals_of,
)
from billing.books.services import request_proof
from billing.books.shown import BalanceRow, account_row, kind_row, leg_row, provider_of
from billing.books.statement_file import statement_csv
from billing.exports.scope import ExportKind
from billing.forms import ACCOUNT_WORDS, ENTRY_WORDS
from billing.models import AccountKind, TransactionKind
from billing.views.shown import house_export_url
from ground import clock
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
        page = leg_page(choice, after=request.GET.get("after") or None, limit=ROWS_PER_PAGE)
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
                Deed(key="accounts", label="Trial balance", url=reverse("billing:ledger-accounts")),
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
def trial_balance(request: HttpRequest, _user: User) -> HttpResponse:
    """Show the balances of all accounts at an instant by kind, or of one kind's by account. Alone: the region ``list``.

    Both columns' totals are of all accounts that match, whatever page is shown.
    """
    form = BalanceForm(request.GET)
    rows: list[BalanceRow] = []
    next_after = ""
    totals: list[KindTotal] = []
    at = form.instant(zone_of(request, None)) if form.is_valid() else clock.now()
    if form.is_valid():
        kind, axis = form.cleaned_data["account_kind"], form.axis()
        accounts = accounts_of(form.book_name(), (kind,) if kind else ())
        balances = balances_as_of(at, axis, accounts)
        totals = totals_of(accounts, balances)
        if kind:
            after = request.GET.get("after", "")
            rest = [account for account in accounts if account.code > after]
            rows = [account_row(each, balances[each.pk]) for each in rest[:ROWS_PER_PAGE]]
            next_after = rest[ROWS_PER_PAGE - 1].code if len(rest) > ROWS_PER_PAGE else ""
        else:
            rows = [
                kind_row(
                    total,
                    [each for each in accounts if each.kind == total.kind],
                    balances,
                    form.query(account_kind=total.kind),
                )
                for total in totals
            ]
    return show_list(
        request,
        ListPage(
            nav=NAV,
            title="Trial balance",
            heading="Trial balance",
            lead="Every account of the ledger. What one account has in debit, others have in credit.",
            what="Accounts",
            table="billing/fin/_trial_balance.html",
            empty_title="No accounts yet",
            empty_text="The first top-up or settlement opens them.",
            crumbs=[{"label": "Ledger", "url": reverse("billing:ledger")}, {"label": "Accounts"}],
        ),
        form,
        rows,
        next_after=next_after,
        at=at,
        debit_micro_usd=sum(total.debit_micro_usd for total in totals),
        credit_micro_usd=sum(total.credit_micro_usd for total in totals),
        is_whole=form.is_valid() and not form.cleaned_data["account_kind"],
    )


@require_safe
@staff_page(StaffRole.FINANCE)
def account_page(request: HttpRequest, _user: User, code: str) -> HttpResponseBase:
    """Show an account's statement: opening, movements with the running balance, closing; or as CSV."""
    account = account_by_code(code)
    zone = zone_of(request, None)
    form = PeriodForm(request.GET)
    span = _period(form, zone)
    assert span.since is not None, "a period has both ends"
    assert span.until is not None, "a period has both ends"
    if request.GET.get("format") == "csv":
        return statement_csv(account, span.since, span.until, f"{code.replace(':', '-')}.csv")
    found = account_statement(account, since=span.since, until=span.until, after=request.GET.get("after") or None)
    word = ACCOUNT_WORDS[AccountKind(account.kind)]
    context = {
        "active_nav": NAV,
        "account": account,
        "word": word,
        "name": account.organisation.name if account.organisation else provider_of(account),
        "crumbs": [
            {"label": "Ledger", "url": reverse("billing:ledger")},
            {"label": "Accounts", "url": reverse("billing:ledger-accounts")},
            {"label": word},
        ],
        "form": form,
        "list_url": request.path,
        "statement": found,
        "rows": [(leg_row(each.leg), each.balance_micro_usd) for each in found.movements],
        "first": span.since,
        "last": span.until - timedelta(microseconds=1),
        "is_first_page": not request.GET.get("after"),
        "zone_name": zone.key,
        "older_url": request.path + form.query(after=cursor_of(found.movements[-1].leg)) if found.has_more else "",
        "csv_url": request.path + form.query(format="csv"),
    }
    return render(request, "billing/fin/account.html", context)


@require_safe
@staff_page(StaffRole.FINANCE)
def entry_detail(request: HttpRequest, _user: User, key: str) -> HttpResponse:
    """Show an entry: all legs, its document, who made it, and what reverses it or it reverses."""
    entry = entry_by_key(key)
    legs = list(entry.legs.select_related("account__organisation").order_by("leg_number"))
    kind = TransactionKind(entry.kind)
    adjustment = getattr(entry, "adjustment", None)
    word = ENTRY_WORDS[kind]
    reversed_by = Adjustment.objects.filter(reverses=entry).exclude(state=AdjustmentState.REFUSED).first()
    context = {
        "active_nav": NAV,
        "entry": entry,
        "word": word,
        "crumbs": [{"label": "Ledger", "url": reverse("billing:ledger")}, {"label": word}],
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
        "crumbs": [{"label": "Ledger", "url": reverse("billing:ledger")}, {"label": "Health"}],
        "last": done[0] if done else None,
        "checks": [{**check, "said": _sentence(check["rule"])} for check in done[0].checks] if done else [],
        "runs": runs,
        "is_running": any(run.finished_at is None for run in runs),
        "snapshot": LedgerSnapshot.objects.order_by("-cutoff_at").first(),
    }
    return render(request, "billing/fin/health.html", context)


def _sentence(rule: str) -> str:
    """Give a law's name in words: the database names its constraints so that they can be read."""
    return rule.replace("_", " ").capitalize()


def _period(form: PeriodForm, zone: ZoneInfo) -> Span:
    """Give the asked span; an open end is the running month's first day, and the day after today."""
    today = clock.now().astimezone(zone).date()
    chosen = form.cleaned_data if form.is_valid() else {}
    first: date = chosen.get("since") or min(today.replace(day=1), chosen.get("until") or today)
    return span_of_days(first, chosen.get("until") or max(today, first), zone)
