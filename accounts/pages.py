"""Who may see a page: decided here and in selectors, never in a template.

What a view does not find (``NotFound``) is the page of 404, in each of the kinds of pages below; a form that wants to
say so itself catches it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, ParamSpec, cast
from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import resolve_url
from django_htmx.middleware import HtmxDetails

from accounts.models import MemberRole, Membership, StaffRole, User
from accounts.selectors import membership_of
from ground.errors import NotFound

Parameters = ParamSpec("Parameters")
MemberView = Callable[Concatenate[HttpRequest, Membership, Parameters], HttpResponseBase]
StaffView = Callable[Concatenate[HttpRequest, User, Parameters], HttpResponseBase]
View = Callable[Concatenate[HttpRequest, Parameters], HttpResponseBase]


@contextmanager
def _missing_is_404() -> Iterator[None]:
    try:
        yield
    except NotFound as error:
        raise Http404(error.message) from error


def to_sign_in(request: HttpRequest) -> HttpResponse:
    """Lead a visitor to the sign-in page and back; a poll of a page whose session has ended leads the whole page."""
    if request.headers.get("HX-Request"):
        try:
            back = urlsplit(request.headers.get("HX-Current-URL", "")).path or "/"
        except ValueError:
            back = "/"
        address = f"{resolve_url(settings.LOGIN_URL)}?{urlencode({'next': back}, safe='/')}"
        return HttpResponse(status=204, headers={"HX-Redirect": address})
    return redirect_to_login(request.get_full_path())


def member_page(view: MemberView[Parameters]) -> View[Parameters]:
    """Give a view its viewer's membership; who belongs to no organisation finds nothing here.

    The membership is left where the frame around the page finds it (console.context).
    """

    @wraps(view)
    def seen(request: HttpRequest, *args: Parameters.args, **kwargs: Parameters.kwargs) -> HttpResponseBase:
        if not request.user.is_authenticated:
            return to_sign_in(request)
        with _missing_is_404():
            membership = membership_of(request.user)
            request.META["lanehouse.membership"] = membership
            return view(request, membership, *args, **kwargs)

    return cast("View[Parameters]", seen)


def role_page(*roles: MemberRole) -> Callable[[MemberView[Parameters]], View[Parameters]]:
    """Let only members of these roles see a view; other members learn the role."""

    def decorate(view: MemberView[Parameters]) -> View[Parameters]:
        @wraps(view)
        def checked(
            request: HttpRequest, membership: Membership, *args: Parameters.args, **kwargs: Parameters.kwargs
        ) -> HttpResponseBase:
            if membership.role not in roles:
                raise PermissionDenied(f"This page is for the role {' or '.join(roles)}.")
            return view(request, membership, *args, **kwargs)

        return member_page(cast("MemberView[Parameters]", checked))

    return decorate


def staff_page(*roles: StaffRole) -> Callable[[StaffView[Parameters]], View[Parameters]]:
    """Let only these staff roles, and superadmins, see a view. Customers find nothing; other staff learn the role."""

    def decorate(view: StaffView[Parameters]) -> View[Parameters]:
        @wraps(view)
        def seen(request: HttpRequest, *args: Parameters.args, **kwargs: Parameters.kwargs) -> HttpResponseBase:
            if not request.user.is_authenticated:
                return to_sign_in(request)
            user = request.user
            if user.staff_role == StaffRole.NONE:
                raise Http404
            if user.staff_role not in {*roles, StaffRole.SUPERADMIN}:
                raise PermissionDenied(f"This page is for the role {' or '.join(roles)}.")
            with _missing_is_404():
                return view(request, user, *args, **kwargs)

        return cast("View[Parameters]", seen)

    return decorate


def viewer_of(request: HttpRequest) -> User:
    """Give the person behind a request that one of the pages above has let in."""
    return cast(User, request.user)


def region_asked_for(request: HttpRequest) -> str:
    """Give the id of the region that htmx asks for; empty for a whole page."""
    htmx = cast(HtmxDetails, request.htmx)  # type: ignore[attr-defined]  # django-htmx adds it
    return "" if not htmx or htmx.history_restore_request else htmx.target or ""
