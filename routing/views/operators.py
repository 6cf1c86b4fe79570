"""Operators' pages of batches: all of them, and one with what happens to it at its providers."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from accounts.models import StaffRole, User
from accounts.pages import region_asked_for, staff_page
from accounts.zones import zone_of
from billing.domain.rating import payable_by_account
from billing.selectors import provider_costs_of_batch
from ground import clock
from ground.errors import NotFound
from routing.forms import OperatorBatchFilterForm
from routing.models import Batch, ProviderJob, SubLane, SubLaneState
from routing.oversight import (
    any_batch_by_id,
    any_batch_page,
    jobs_with_origin,
    moved_work,
    refused_accounts,
    unclear_jobs,
)
from routing.risks import RISK_REASONS, RISK_WORDS, risks_of
from routing.selectors import BatchPage, sub_lanes_of, sub_lanes_of_batches
from routing.views.batches import detail_of
from routing.views.cancelling import may_cancel
from routing.views.deciding import may_decide
from routing.views.lists import REGION, ROWS_PER_PAGE, list_frame, list_row
from routing.views.moving import may_move
from routing.views.polling import ENDED, Poll, poll_of

_REGION = "batch"
_SHOWN_LANES = 2
_GRAVE = frozenset({"late", "stuck"})


@require_safe
@staff_page(StaffRole.OPERATOR, StaffRole.SUPPORT, StaffRole.FINANCE)
def any_batch_list(request: HttpRequest, _user: User) -> HttpResponse:
    """Show the batches of all customers, newest first. Alone: the region ``list``, live on the first page."""
    form = OperatorBatchFilterForm(request.GET)
    page = BatchPage(batches=(), has_more=False)
    if form.is_valid():
        try:
            page = any_batch_page(
                after=request.GET.get("after") or None,
                limit=ROWS_PER_PAGE,
                customer=form.cleaned_data["customer"],
                risk=form.cleaned_data["risk"],
                chosen=form.wanted(zone_of(request, None)),
            )
        except NotFound as error:
            raise Http404(error.message) from error
    at = clock.now()
    rows = any_batch_rows(page.batches)
    frame = list_frame(request, form, page, rows)
    is_region = region_asked_for(request) == REGION
    if is_region and request.GET.get("v") == frame["version"]:
        return HttpResponse(status=204)
    context = {
        **frame,
        "active_nav": "any-batches",
        "at": at,
        "unclear_jobs": unclear_jobs(),
        "refused_accounts": refused_accounts(),
    }
    return render(request, f"routing/{'_' if is_region else ''}any_batch_list.html", context)


def any_batch_rows(batches: Sequence[Batch]) -> list[dict[str, Any]]:
    """Give what the lines of a list of anybody's batches say."""
    sub_lanes, risks = sub_lanes_of_batches(batches), risks_of(batches)
    return [_row(batch, sub_lanes[batch.pk], risks[batch.pk]) for batch in batches]


def _row(batch: Batch, sub_lanes: Sequence[SubLane], risks: Sequence[str]) -> dict[str, Any]:
    lane_ids = list(dict.fromkeys(sub_lane.lane_id for sub_lane in sub_lanes))
    return list_row(batch, sub_lanes) | {
        "is_open": batch.status not in ENDED,
        "risks": _said_risks(risks),
        "lane_ids": lane_ids,
        "more_lane_count": len(lane_ids) - 1 if len(lane_ids) > _SHOWN_LANES else 0,
        "waiting_count": sum(sub_lane.state == SubLaneState.WAITING for sub_lane in sub_lanes),
    }


def _said_risks(risks: Sequence[str]) -> list[dict[str, str]]:
    return [
        {"word": RISK_WORDS[risk], "why": RISK_REASONS[risk], "tone": "bad" if risk in _GRAVE else "warn"}
        for risk in risks
    ]


@require_safe
@staff_page(StaffRole.OPERATOR, StaffRole.SUPPORT, StaffRole.FINANCE)
def any_batch_detail(request: HttpRequest, user: User, batch_id: str) -> HttpResponse:
    """Show one batch of any customer. Alone: the region ``batch``, which asks again until the batch has ended."""
    try:
        batch = any_batch_by_id(batch_id)
    except NotFound as error:
        raise Http404(error.message) from error
    sub_lanes, jobs = sub_lanes_of(batch), jobs_with_origin(batch)
    poll = _poll(poll_of(batch, sub_lanes, clock.now()), jobs)
    is_region = region_asked_for(request) == _REGION
    if is_region and request.GET.get("v") == poll.version:
        return HttpResponse(status=204)
    context = (
        detail_of(batch, sub_lanes, poll)
        | _money(batch)
        | {
            "active_nav": "any-batches",
            "customer": batch.organisation,
            "risks": _said_risks(risks_of([batch])[batch.pk]),
            "jobs": jobs,
            "moves": moved_work(jobs),
            "movable_ids": {job.pk for job in jobs if may_move(user.staff_role, job)},
            "decidable_ids": {job.pk for job in jobs if may_decide(user.staff_role, job)},
            "may_cancel": may_cancel(user.staff_role, batch),
            "may_read_receipt": user.staff_role in {StaffRole.FINANCE, StaffRole.SUPERADMIN},
        }
    )
    return render(request, f"routing/{'_' if is_region else ''}any_batch.html", context)


def _poll(poll: Poll, jobs: Sequence[ProviderJob]) -> Poll:
    """Give the batch's poll, its version made to name the jobs too."""
    seen = [(job.pk, job.state, job.polled_at, job.try_count, job.last_error, job.reported_done_count) for job in jobs]
    version = hashlib.blake2b(repr((poll.version, seen)).encode(), digest_size=8).hexdigest()
    return Poll(version=version, every_ms=poll.every_ms)


def _money(batch: Batch) -> dict[str, Any]:
    """Give what the providers bill so far against the charge: as settlement posts it, by account."""
    payables = payable_by_account(provider_costs_of_batch(organisation_id=batch.organisation_id, batch_id=batch.pk))
    cost_micro_usd = sum(payables.values())
    charge = batch.charge_micro_usd
    return {
        "costs": [(*names, micro_usd) for names, micro_usd in payables.items()],
        "cost_micro_usd": cost_micro_usd,
        "margin_micro_usd": None if charge is None else charge - cost_micro_usd,
    }
