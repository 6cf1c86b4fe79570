"""Downloads of a batch's files."""

from __future__ import annotations

from typing import cast

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from accounts.models import MemberRole, Membership
from ground.errors import NotFound
from routing.api.answers import stream_of
from routing.selectors import batch_by_id
from routing.views.access import customer_page

_FILES = {"results": "results_file", "output": "output_file", "errors": "error_file"}


def may_download(membership: Membership) -> bool:
    """Say whether a member may read results: they hold what the models answered."""
    return membership.role in {MemberRole.ADMIN, MemberRole.DEVELOPER}


@require_safe
@customer_page
def batch_file(_request: HttpRequest, membership: Membership, batch_id: str, kind: str) -> HttpResponse:
    """Download a batch's results, output or errors."""
    try:
        batch = batch_by_id(organisation=membership.organisation, public_id=batch_id)
    except NotFound as error:
        raise Http404(error.message) from error
    if not may_download(membership):
        raise PermissionDenied("Downloads are for the role admin or developer.")
    stored = getattr(batch, _FILES[kind])
    if stored is None:
        raise Http404("The batch has no such file.")
    # A stream is no HttpResponse by its class, and does all that is asked of one.
    return cast(HttpResponse, stream_of(stored))
