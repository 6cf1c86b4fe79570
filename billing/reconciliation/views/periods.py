"""Periods: the months, and one with its checklist, closing and opening again."""

from __future__ import annotations

from datetime import date
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from accounts.audit import record_reading
from accounts.list_pages import ROWS_PER_PAGE
from accounts.models import StaffRole, User
from accounts.pages import staff_page
from billing.reconciliation import period_selectors, selectors
from billing.reconciliation.checklist import checklist
from billing.reconciliation.domain.sides import BreakKind
from billing.reconciliation.forms import ReasonForm
from billing.reconciliation.models import ProviderInvoice
from billing.reconciliation.months import month_of
from billing.reconciliation.period_models import AttemptRecording, Period, PeriodState
from billing.reconciliation.services import periods
from billing.reconciliation.views import shown
from ground import clock
from ground.errors import LanehouseError

_MONTHS_SHOWN = 24


@require_safe
@staff_page(StaffRole.FINANCE)
def period_list(request: HttpRequest, _user: User) -> HttpResponse:
    """Show the months that have something, the newest first."""
    after = request.GET.get("after", "")
    page, has_more = period_selectors.period_page(
        after=_month(after) if after else None, limit=_MONTHS_SHOWN, at=clock.now()
    )
    context = {
        "active_nav": "periods",
        "rows": [_row(each.month, each) for each in page],
        "is_first_page": not after,
        "newest_url": request.path,
        "older_url": f"{request.path}?after={page[-1].month:%Y-%m}" if has_more else "",
    }
    return render(request, "billing/reconciliation/period_list.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@staff_page(StaffRole.FINANCE)
def period_detail(request: HttpRequest, user: User, month: str) -> HttpResponse:
    """Show a month's checklist; take what is asked of it."""
    first = _month(month)
    form = ReasonForm(request.POST or None)
    status = 200
    if request.method == "POST":
        try:
            said = _act(request.POST.get("action", ""), first, user, request.POST.get("reason", ""))
        except LanehouseError as error:
            messages.error(request, error.message)
            status = 422
        else:
            messages.success(request, said)
            return redirect("reconciliation:period-detail", month)
    period = period_selectors.period_of(first)
    items = checklist(first)
    context = {
        "active_nav": "periods",
        "month": month,
        "scope_query": f"&period={month}",
        "title": f"{first:%B %Y}",
        "row": _row(first, period),
        "period": period,
        "items": [(item, _link_of(item.key, month, item.filter_query)) for item in items],
        "unmet_count": sum(not item.is_met for item in items),
        **_late(request, first),
        "form": form if status == 200 else ReasonForm(),  # noqa: PLR2004 -- the page as it was
        "events": period.events.select_related("by").order_by("-at", "-pk") if period.pk else [],
        "is_own_request": period.requested_by_id == user.pk,
        "is_own_close": period.closed_by_id == user.pk,
        "sha256": bytes(period.export_sha256).hex() if period.export_sha256 else "",
        "crumbs": [{"label": "Periods", "url": reverse("reconciliation:period-list")}, {"label": f"{first:%B %Y}"}],
    }
    return render(request, "billing/reconciliation/period_detail.html", context, status=status)


@require_safe
@staff_page(StaffRole.FINANCE)
def period_file(_request: HttpRequest, _user: User, month: str) -> HttpResponse:
    """Give the closing file: the same bytes for ever."""
    content, sha256 = periods.closing_bytes(_month(month))
    record_reading("period.file_downloaded", object_type="period", object_id=month)
    response = HttpResponse(content, content_type="text/csv; charset=utf-8")
    response.headers["Content-Disposition"] = f'attachment; filename="closing-{month}.csv"'
    response.headers["ETag"] = f'"{sha256.hex()}"'
    return response


def _late(request: HttpRequest, month: date) -> dict[str, Any]:
    """Give what came too late for a month, a page of it, and where the rest is."""
    rows, has_more = period_selectors.late_page(month, after=request.GET.get("after", ""), limit=ROWS_PER_PAGE)
    older = f"{request.path}?after={period_selectors.late_cursor(rows[-1])}#h-late" if has_more else ""
    return {
        "late": period_selectors.late_totals(month),
        "late_rows": [(each, int(each.cost_pico_usd), _late_breaks_url(each)) for each in rows],
        "older_url": older,
    }


def _late_breaks_url(recording: AttemptRecording) -> str:
    query = {"kind": BreakKind.TIME_BOUNDARY.value, "period": f"{recording.carried_to:%Y-%m}"}
    return f"{reverse('reconciliation:break-list')}?{urlencode(query)}"


def _act(action: str, month: date, user: User, reason: str) -> str:
    if action == "ask":
        periods.ask_to_close(month, by=user)
        return "Asked: a second person closes the month."
    if action == "close":
        periods.close(month, by=user)
        return "The month is closed."
    if action == "reopen":
        periods.take_back(month, by=user, reason=reason)
        return "The month is open."
    raise Http404("There is no such action.")


def _row(month: date, period: Period) -> dict[str, Any]:
    state = PeriodState(period.state)
    tone, word = shown.PERIOD_BADGES[state]
    found = ProviderInvoice.objects.filter(period=month)
    return {
        "month": f"{month:%Y-%m}",
        "word_of_month": f"{month:%B %Y}",
        "period": period,
        "tone": tone,
        "word": word,
        "invoice_count": found.count(),
        "cards": shown.headline_cards(selectors.headline(found), clock.now()),
        "is_closed": state == PeriodState.CLOSED,
        "is_closing": state == PeriodState.CLOSING,
    }


def _link_of(key: str, month: str, query: str) -> str:
    """Give the list where an unmet item stands."""
    if key == "breaks":
        return reverse("reconciliation:break-list") + query
    if key in {"invoices", "read", "complete", "matched", "waiting"}:
        return f"{reverse('reconciliation:invoice-list')}?period={month}"
    return ""


def _month(text: str) -> date:
    try:
        return month_of(text)
    except ValueError:
        raise Http404("There is no such month.") from None
