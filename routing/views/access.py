"""What every page here asks first: who is looking, and is it for the whole page or for one region."""

from __future__ import annotations

from functools import wraps
from typing import ParamSpec, cast

from django.http import HttpRequest, HttpResponse
from django_htmx.middleware import HtmxDetails

from accounts.models import Membership
from accounts.pages import MemberView, View, member_page

Parameters = ParamSpec("Parameters")


def customer_page(view: MemberView[Parameters]) -> View[Parameters]:
    """Give a view its viewer's membership, and leave it where the frame around the page finds it (console.context)."""

    @wraps(view)
    def remembered(
        request: HttpRequest, membership: Membership, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> HttpResponse:
        request.META["lanehouse.membership"] = membership
        return view(request, membership, *args, **kwargs)

    return member_page(cast("MemberView[Parameters]", remembered))


def region_asked_for(request: HttpRequest) -> str:
    """Give the id of the region that htmx asks for; empty for a whole page."""
    htmx = cast(HtmxDetails, request.htmx)  # type: ignore[attr-defined]  # django-htmx adds it
    return "" if not htmx or htmx.history_restore_request else htmx.target or ""
