"""What every page here asks first: who is looking, and is it for the whole page or for one region."""

from __future__ import annotations

from functools import wraps
from typing import ParamSpec, cast
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import resolve_url
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails

from accounts.models import Membership
from accounts.pages import MemberView, View, member_page

Parameters = ParamSpec("Parameters")


def customer_page(view: MemberView[Parameters]) -> View[Parameters]:
    """Give a view its viewer's membership, and a region whose session has ended the way to sign in again.

    A poll that was answered with the redirect of a page would swap the sign-in form into its region.
    """

    def remembered(
        request: HttpRequest, membership: Membership, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> HttpResponse:
        # The frame around the page needs the same membership; read once a page (console.context).
        request.META["lanehouse.membership"] = membership
        return view(request, membership, *args, **kwargs)

    for_members = member_page(cast("MemberView[Parameters]", remembered))

    @wraps(view)
    def seen(request: HttpRequest, *args: Parameters.args, **kwargs: Parameters.kwargs) -> HttpResponse:
        if region_asked_for(request) and not request.user.is_authenticated:
            back = urlencode({"next": request.path})
            return HttpResponseClientRedirect(f"{resolve_url(settings.LOGIN_URL)}?{back}")
        return for_members(request, *args, **kwargs)

    return cast("View[Parameters]", seen)


def region_asked_for(request: HttpRequest) -> str:
    """Give the id of the region that htmx asks for; empty for a whole page."""
    htmx = cast(HtmxDetails, request.htmx)  # type: ignore[attr-defined]  # django-htmx adds it
    return "" if not htmx or htmx.history_restore_request else htmx.target or ""
