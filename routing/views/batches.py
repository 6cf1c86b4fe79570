"""The list of batches, and one batch, live until it has ended."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from django_htmx.http import trigger_client_event

from accounts.models import Membership
from accounts.pages import member_page, region_asked_for
from accounts.zones import zone_of
from billing.selectors import receipt_for_batch
from billing.views.shown import line_rows, may_read_a_receipt
from ground import clock
from routing.batch_rows import results_are_gone
from routing.forms import BatchFilterForm
from routing.models import Batch, BatchStatus, SubLane
from routing.selectors import (
    BatchPage,
    batch_by_id,
    batch_page,
    collected_charge_by_group,
    quote_terms_of,
    sub_lanes_of,
    sub_lanes_of_batches,
)
from routing.services.retries import can_be_retried
from routing.services.room import places_in_line
from routing.views import shown
from routing.views.cancelling import may_cancel
from routing.views.files import may_download
from routing.views.lists import REGION, ROWS_PER_PAGE, list_frame, list_row
from routing.views.polling import Poll, likely_end, poll_of

_REGION = "batch"


@require_safe
@member_page
def batch_list(request: HttpRequest, membership: Membership) -> HttpResponse:
    """Show an organisation's batches, newest first. Alone: the region ``list``, live on the first page."""
    form = BatchFilterForm(request.GET)
    page = BatchPage(batches=(), has_more=False)
    if form.is_valid():
        page = batch_page(
            organisation=membership.organisation,
            after=request.GET.get("after") or None,
            limit=ROWS_PER_PAGE,
            chosen=form.wanted(zone_of(request, membership.organisation)),
        )
    sub_lanes = sub_lanes_of_batches(page.batches)
    rows = [list_row(batch, sub_lanes[batch.pk]) for batch in page.batches]
    frame = list_frame(request, form, page, rows)
    is_region = region_asked_for(request) == REGION
    if is_region and request.GET.get("v") == frame["version"]:
        return HttpResponse(status=204)
    context = {
        **frame,
        "active_nav": "batches",
        "first_calls": shown.first_calls(request.build_absolute_uri("/v1")),
        "at": clock.now(),
    }
    return render(request, f"routing/{'_' if is_region else ''}batch_list.html", context)


@require_safe
@member_page
def batch_detail(request: HttpRequest, membership: Membership, batch_id: str) -> HttpResponse:
    """Show one batch. Alone: the region ``batch``, which asks again until the batch has ended (204: nothing moved)."""
    batch = batch_by_id(organisation=membership.organisation, public_id=batch_id)
    sub_lanes = sub_lanes_of(batch)
    poll = poll_of(batch, sub_lanes, clock.now())
    is_region = region_asked_for(request) == _REGION
    if is_region and request.GET.get("v") == poll.version:
        return HttpResponse(status=204)
    context = detail_of(batch, sub_lanes, poll) | {
        "active_nav": "batches",
        "may_download": may_download(membership),
        "may_cancel": may_cancel(membership.role, batch),
        "may_retry": may_download(membership) and can_be_retried(batch),
        "may_read_receipt": may_read_a_receipt(membership),
    }
    response = render(request, "routing/_batch_alone.html" if is_region else "routing/batch_detail.html", context)
    if is_region and poll.every_ms is None:
        # Only a page that was live asks for the region, and its answer no longer asks: so this is said once.
        tone = "bad" if batch.status == BatchStatus.FAILED else ""
        trigger_client_event(response, "batch-finished", {"id": batch.public_id, "status": batch.status})
        trigger_client_event(response, "toast", {"text": f"{context['title']}.", "tone": tone})
    return response


def detail_of(batch: Batch, sub_lanes: list[SubLane], poll: Poll) -> dict[str, Any]:
    """Give what the page of a batch says to everybody who may see it."""
    terms = quote_terms_of(batch)
    is_settled = batch.charge_micro_usd is not None
    ended_at = shown.ended_at_of(batch)
    receipt = receipt_for_batch(batch.organisation, batch.public_id) if is_settled else None
    table = shown.sub_lane_table(
        batch,
        sub_lanes,
        terms,
        {} if is_settled else collected_charge_by_group(batch),
        places_in_line(sub_lanes),
    )
    return {
        "title": f"{shown.state_words(batch)}: {shown.batch_name(batch)}",
        "batch": batch,
        "name": shown.batch_name(batch),
        "is_named": shown.batch_name(batch) != batch.public_id,
        "outcome": shown.outcome_of(batch),
        "poll": poll,
        "at": clock.now(),
        "table": table,
        "finished_count": batch.completed_count + batch.failed_count,
        "reported_count": sum(row.reported_count for row in table.rows),
        "likely_end": likely_end(batch, sub_lanes, clock.now()),
        "ended_at": ended_at,
        "took_seconds": int((ended_at - batch.created_at).total_seconds()) if ended_at else None,
        "reserved_micro_usd": shown.reserved_micro_usd(batch),
        "terms": terms,
        "receipt": receipt,
        "receipt_lines": line_rows(receipt) if receipt else (),
        "files": shown.file_rows(batch),
        "are_gone": results_are_gone(batch),
        "timeline": shown.timeline(batch, sub_lanes),
        "waiting": [row for row in table.rows if row.sub_lane.state == "waiting"],
    }
