"""The wallet: what is available, held and settled, and the statement of every movement."""

from __future__ import annotations

import hashlib
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from accounts.list_pages import ROWS_PER_PAGE, ListPage, list_context
from accounts.models import Membership
from accounts.pages import member_page, region_asked_for
from accounts.zones import reporting_zone_of, zone_of
from billing.domain.records import StatementLine
from billing.exports.scope import ExportKind
from billing.forms import StatementFilterForm
from billing.movements import statement
from billing.selectors import held_batch_count, wallet
from billing.views import shown
from ground import clock

_POLL_MS = 15_000
_BALANCES, _STATEMENT = "balances", "list"
_STATEMENT_PAGE = ListPage(
    nav="wallet",
    title="Wallet",
    heading="Wallet",
    lead="",
    what="Movements",
    table="billing/_statement_table.html",
    empty_title="No movements yet",
    empty_text="Your first top-up appears here as soon as its payment has arrived. Ask us for the payment details.",
)
_FOR_WHOM = "The statement is for the role admin or billing."


@require_safe
@member_page
def wallet_page(request: HttpRequest, membership: Membership) -> HttpResponse:
    """Show the wallet. Alone: ``balances``, which asks again while credit is held (204: nothing moved), or ``list``."""
    region = region_asked_for(request)
    context: dict[str, Any] = {"active_nav": "wallet", "for_whom": _FOR_WHOM}
    if region != _STATEMENT:
        context |= _balances(request, membership)
    if region == _BALANCES:
        if request.GET.get("v") == context["version"]:
            return HttpResponse(status=204)
        return render(request, "billing/_balances.html", context)
    context["may_read"] = shown.may_read_money(membership)
    if context["may_read"]:
        context |= _statement(request, membership)
        context["this_month"] = clock.now().astimezone(reporting_zone_of(membership.organisation)).strftime("%Y-%m")
    elif region == _STATEMENT:
        raise PermissionDenied(_FOR_WHOM)
    return render(request, "_list_region.html" if region == _STATEMENT else "billing/wallet.html", context)


def _balances(request: HttpRequest, membership: Membership) -> dict[str, Any]:
    state = wallet(membership.organisation)
    batch_count = held_batch_count(membership.organisation) if state.held_micro_usd else 0
    version = hashlib.blake2b(repr((state, batch_count)).encode(), digest_size=8).hexdigest()
    return {
        "wallet": state,
        "held_batch_count": batch_count,
        "credit_line_micro_usd": state.available_micro_usd + state.held_micro_usd - state.posted_micro_usd,
        "version": version,
        "poll_url": f"{request.path}?v={version}",
        # Tests shorten every wait by one setting.
        "every_ms": (settings.PAGE_POLL_MILLISECONDS or _POLL_MS) if batch_count else None,
        "at": clock.now(),
    }


def _statement(request: HttpRequest, membership: Membership) -> dict[str, Any]:
    form = StatementFilterForm(request.GET)
    page: list[StatementLine] = []
    has_more = False
    if form.is_valid():
        page, has_more = statement(
            membership.organisation,
            after=request.GET.get("after") or None,
            limit=ROWS_PER_PAGE,
            kind=form.cleaned_data["kind"],
            span=form.span(zone_of(request, membership.organisation)),
        )
    rows = [shown.movement_row(line) for line in page]
    return {
        **list_context(request, _STATEMENT_PAGE, form, rows, next_after=page[-1].key if has_more else ""),
        "export_url": shown.export_url(membership, ExportKind.LEDGER, form.chosen()),
    }
