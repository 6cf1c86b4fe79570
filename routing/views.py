"""Customers' pages of batches: the list, one batch (live until it has ended), its results."""

from __future__ import annotations

from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from accounts.models import Membership
from accounts.pages import member_page
from ground.errors import NotFound
from routing.api.answers import stream_of
from routing.models import Batch
from routing.selectors import batch_by_id, batch_page, sub_lanes_of

_ROWS_PER_PAGE = 50


@member_page
def batch_list(request: HttpRequest, membership: Membership) -> HttpResponse:
    """Show an organisation's batches, newest first."""
    page = batch_page(
        organisation=membership.organisation, after=request.GET.get("after") or None, limit=_ROWS_PER_PAGE
    )
    return render(request, "routing/batch_list.html", {"active_nav": "batches", "page": page})


@member_page
def batch_detail(request: HttpRequest, membership: Membership, batch_id: str) -> HttpResponse:
    """Show one batch."""
    batch = _batch(membership, batch_id)
    context = {"active_nav": "batches", "batch": batch, "sub_lanes": sub_lanes_of(batch)}
    return render(request, "routing/batch_detail.html", context)


@member_page
def batch_live(request: HttpRequest, membership: Membership, batch_id: str) -> HttpResponse:
    """Give the part of a batch's page that moves."""
    batch = _batch(membership, batch_id)
    return render(request, "routing/_batch_live.html", {"batch": batch, "sub_lanes": sub_lanes_of(batch)})


@member_page
def batch_results(_request: HttpRequest, membership: Membership, batch_id: str) -> HttpResponse | FileResponse:
    """Download the one results file."""
    batch = _batch(membership, batch_id)
    if batch.results_file is None:
        raise Http404("The batch has no results yet.")
    return stream_of(batch.results_file)


def _batch(membership: Membership, batch_id: str) -> Batch:
    try:
        return batch_by_id(organisation=membership.organisation, public_id=batch_id)
    except NotFound as error:
        raise Http404(error.message) from error
