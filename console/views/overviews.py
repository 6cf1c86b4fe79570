"""The first pages: an organisation's, and the operators'."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from accounts.models import MemberRole, Membership, StaffRole, User
from accounts.pages import member_page, region_asked_for, staff_page
from billing.views.shown import may_read_money
from billing.views.usage_shown import recent_spend
from console.overviews import (
    customer_overview,
    engine_queue,
    lanes_in_breach,
    running_work,
    webhook_queue,
    work_in_flight,
)
from ground import clock
from routing.selectors import batch_page, sub_lanes_of_batches
from routing.views.lists import list_row

_POLL_MS = 15_000
_LATEST_COUNT = 5
_RUNNING = "running"
_WRITERS = frozenset({MemberRole.ADMIN, MemberRole.DEVELOPER})
_STAFF = (StaffRole.OPERATOR, StaffRole.SUPPORT, StaffRole.FINANCE)


@login_required
def home(request: HttpRequest) -> HttpResponse:
    """Lead everybody to their first page."""
    user = cast(User, request.user)
    return redirect("console:customer-overview" if user.staff_role == StaffRole.NONE else "console:operator-overview")


@require_safe
@member_page
def customer_page(request: HttpRequest, membership: Membership) -> HttpResponse:
    """Show what runs, what is left to spend and what needs a look. Alone: the region ``running``."""
    organisation = membership.organisation
    live = {"at": clock.now(), "every_ms": _every_ms(), "poll_url": request.path}
    if region_asked_for(request) == _RUNNING:
        return render(request, "console/_running.html", live | {"running": running_work(organisation)})
    overview = customer_overview(organisation, clock.now())
    latest = batch_page(organisation=organisation, after=None, limit=_LATEST_COUNT).batches
    sub_lanes = sub_lanes_of_batches(latest)
    context = live | {
        "active_nav": "overview",
        "organisation": organisation,
        "overview": overview,
        "running": overview.running,
        "rows": [list_row(batch, sub_lanes[batch.pk]) for batch in latest],
        "may_read_money": may_read_money(membership),
        "chart": recent_spend(organisation, clock.now()) if may_read_money(membership) else None,
        "may_write": membership.role in _WRITERS,
        "may_make_keys": membership.role == MemberRole.ADMIN,
    }
    return render(request, "console/customer_overview.html", context)


_BLOCKS: dict[str, Callable[[], object]] = {
    "flight": lambda: work_in_flight(clock.now()),
    "lanes": lanes_in_breach,
    "engine": engine_queue,
    "webhooks": lambda: webhook_queue(clock.now()),
}


@require_safe
@staff_page(*_STAFF)
def operator_page(request: HttpRequest, _user: User) -> HttpResponse:
    """Show what is in flight and what needs a look. Alone: one block, so that one that fails leaves the rest."""
    asked = region_asked_for(request).removeprefix("block-")
    context: dict[str, Any] = {
        "active_nav": "ops-overview",
        "at": clock.now(),
        "every_ms": _every_ms(),
        "poll_url": request.path,
    }
    if asked in _BLOCKS:
        return render(request, f"console/_block_{asked}.html", context | {asked: _BLOCKS[asked]()})
    return render(request, "console/operator_overview.html", context | {name: read() for name, read in _BLOCKS.items()})


def _every_ms() -> int:
    """Tests shorten every wait by one setting."""
    return settings.PAGE_POLL_MILLISECONDS or _POLL_MS
