"""Who may see these pages, who may act on them, and which region is asked for."""

from __future__ import annotations

from functools import wraps
from typing import ParamSpec, cast

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django_htmx.middleware import HtmxDetails

from accounts.models import MemberRole, Membership
from accounts.pages import MemberView, View, member_page

Parameters = ParamSpec("Parameters")
_WRITERS = frozenset({MemberRole.ADMIN, MemberRole.DEVELOPER})


def may_write(membership: Membership) -> bool:
    """Say whether a member may make and change endpoints, and read what was sent to them."""
    return membership.role in _WRITERS


def every_member(view: MemberView[Parameters]) -> View[Parameters]:
    """Give a view its viewer's membership, and leave it where the frame around the page finds it."""

    @wraps(view)
    def remembered(
        request: HttpRequest, membership: Membership, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> HttpResponse:
        request.META["lanehouse.membership"] = membership
        return view(request, membership, *args, **kwargs)

    return member_page(cast("MemberView[Parameters]", remembered))


def writers_only(view: MemberView[Parameters]) -> View[Parameters]:
    """Let only admins and developers in; other members learn the role."""

    @wraps(view)
    def checked(
        request: HttpRequest, membership: Membership, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> HttpResponse:
        if not may_write(membership):
            raise PermissionDenied("This page is for the role admin or developer.")
        return view(request, membership, *args, **kwargs)

    return every_member(cast("MemberView[Parameters]", checked))


def region_asked_for(request: HttpRequest) -> str:
    """Give the id of the region that htmx asks for; empty for a whole page."""
    htmx = cast(HtmxDetails, request.htmx)  # type: ignore[attr-defined]  # django-htmx adds it
    return "" if not htmx or htmx.history_restore_request else htmx.target or ""
