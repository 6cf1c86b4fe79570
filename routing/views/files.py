"""The results of a batch: their page, and the downloads."""

from __future__ import annotations

from typing import cast

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from accounts.models import MemberRole, Membership
from accounts.pages import member_page, region_asked_for, role_page
from ground import clock
from ground.errors import NotFound, RangeNotSatisfiable
from routing.api.downloads import download
from routing.batch_rows import results_are_gone
from routing.models import Batch
from routing.selectors import batch_by_id, sub_lanes_of
from routing.views import shown
from routing.views.polling import poll_of

_FILES = {"results": "results_file", "output": "output_file", "errors": "error_file"}
_REGION = "results"


def may_download(membership: Membership) -> bool:
    """Say whether a member may read results: they hold what the models answered."""
    return membership.role in {MemberRole.ADMIN, MemberRole.DEVELOPER}


@require_safe
@role_page(MemberRole.ADMIN, MemberRole.DEVELOPER)
def batch_results(request: HttpRequest, membership: Membership, batch_id: str) -> HttpResponse:
    """Show a batch's files. Alone: the region ``results``, which asks again until they are there (204: no news)."""
    batch = _found(membership, batch_id)
    at = clock.now()
    poll = poll_of(batch, sub_lanes_of(batch), at)
    is_region = region_asked_for(request) == _REGION
    if is_region and request.GET.get("v") == poll.version:
        return HttpResponse(status=204)
    rows = shown.file_rows(batch)
    context = {
        "active_nav": "batches",
        "title": f"Results of {shown.batch_name(batch)}",
        "batch": batch,
        "name": shown.batch_name(batch),
        "is_named": shown.batch_name(batch) != batch.public_id,
        "outcome": shown.outcome_of(batch),
        "poll": poll,
        "at": at,
        "files": rows,
        "are_gone": results_are_gone(batch),
        "finished_count": batch.completed_count + batch.failed_count,
        "partial_call": shown.partial_call(request.build_absolute_uri("/v1"), batch),
    }
    return render(request, f"routing/{'_' if is_region else ''}batch_results.html", context)


@require_safe
@member_page
def batch_file(request: HttpRequest, membership: Membership, batch_id: str, kind: str) -> HttpResponse:
    """Download a batch's results, output or errors."""
    batch = _found(membership, batch_id)
    if not may_download(membership):
        raise PermissionDenied("Downloads are for the role admin or developer.")
    stored = getattr(batch, _FILES[kind]) if kind in _FILES else None
    if stored is None or stored.deleted_at is not None or results_are_gone(batch):
        raise Http404("The batch has no such file.")
    try:
        # A stream is no HttpResponse by its class, and does all that is asked of one.
        return cast(HttpResponse, download(request, stored))
    except RangeNotSatisfiable as error:
        return HttpResponse(status=416, headers=error.headers)
    except NotFound as error:
        raise Http404(error.message) from error


def _found(membership: Membership, batch_id: str) -> Batch:
    return batch_by_id(organisation=membership.organisation, public_id=batch_id)
