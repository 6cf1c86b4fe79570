"""The rows of a batch: a list by row number, and one row with what was asked and what came back."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from accounts.models import MemberRole, Membership
from accounts.pages import region_asked_for, role_page
from routing.batch_rows import FAILED, OPEN, SUCCEEDED, RowPage, codes_of, row_page, whole_row
from routing.forms import ROW_OUTCOME_WORDS, RowFilterForm
from routing.models import Batch
from routing.selectors import batch_by_id, sub_lanes_of
from routing.views import shown
from routing.views.lists import REGION, ROWS_PER_PAGE
from routing.views.polling import ENDED
from routing.views.said import answered_in, asked_of


@require_safe
@role_page(MemberRole.ADMIN, MemberRole.DEVELOPER)
def batch_requests(request: HttpRequest, membership: Membership, batch_id: str) -> HttpResponse:
    """Show a batch's rows in the order of the file, 50 a page. Alone: the region ``list``."""
    batch = _found(membership, batch_id)
    lane_ids = list(dict.fromkeys(sub_lane.lane_id for sub_lane in sub_lanes_of(batch)))
    form = RowFilterForm(request.GET, codes=codes_of(batch), lane_ids=lane_ids)
    page, after_row = RowPage(rows=(), has_more=False), -1
    if form.is_valid():
        after_row = form.after_row()
        page = row_page(batch, form.wanted(), after_row=after_row, limit=ROWS_PER_PAGE)
    chosen = form.chosen()
    next_row = page.rows[-1].row if page.has_more else page.searched_to
    context = _head(batch) | {
        "title": f"Requests of {shown.batch_name(batch)}",
        "form": form,
        "tabs": _tabs(request, batch, {name: value for name, value in chosen.items() if name != "outcome"}),
        "active_tab": chosen.get("outcome", ""),
        "chips": form.chips(without=frozenset({"outcome"})),
        "is_filtered": bool(chosen),
        "page": page,
        "is_first_page": after_row < 0,
        "newest_url": request.path + form.query(),
        "next_url": "" if next_row is None else request.path + form.query(after=str(next_row)),
    }
    is_region = region_asked_for(request) == REGION
    return render(request, f"routing/{'_' if is_region else ''}batch_requests.html", context)


@require_safe
@role_page(MemberRole.ADMIN, MemberRole.DEVELOPER)
def batch_request(request: HttpRequest, membership: Membership, batch_id: str, row: int) -> HttpResponse:
    """Show one row: what was asked beside what came back."""
    batch = _found(membership, batch_id)
    found = whole_row(batch, row)
    context = _head(batch) | {
        "title": f"Request {row:,} of {shown.batch_name(batch)}",
        "entry": found.entry,
        "asked": None if found.body is None else asked_of(found.body),
        "answered": None if found.line is None else answered_in(found.line),
        "previous_row": row - 1 if row else None,
        "next_row": row + 1 if row + 1 < batch.row_count else None,
    }
    return render(request, "routing/batch_request.html", context)


def _found(membership: Membership, batch_id: str) -> Batch:
    return batch_by_id(organisation=membership.organisation, public_id=batch_id)


def _head(batch: Batch) -> dict[str, Any]:
    return {
        "active_nav": "batches",
        "batch": batch,
        "name": shown.batch_name(batch),
        "is_named": shown.batch_name(batch) != batch.public_id,
        "outcome": shown.outcome_of(batch),
        "has_ended": batch.status in ENDED,
    }


def _tabs(request: HttpRequest, batch: Batch, kept: dict[str, str]) -> list[dict[str, Any]]:
    counts = {
        "": batch.row_count,
        SUCCEEDED: batch.completed_count,
        FAILED: batch.failed_count,
        OPEN: batch.row_count - batch.completed_count - batch.failed_count,
    }
    return [
        {
            "key": key,
            "label": label,
            "count": counts[key],
            "url": f"{request.path}?{urlencode({**kept, 'outcome': key} if key else kept)}",
        }
        for key, label in ROW_OUTCOME_WORDS.items()
        if key != OPEN or batch.status not in ENDED
    ]
