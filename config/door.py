"""What every ``/v1`` call passes around ninja: NUL, ninja's own 405 in our envelope, limits said."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest, HttpResponseBase
from django.urls import URLPattern, URLResolver, re_path
from django.views.decorators.csrf import csrf_exempt

from config.errors import answer
from config.limits import say_limits
from ground.errors import InvalidRequest, LanehouseError, NotFound

View = Callable[..., HttpResponseBase]
_METHOD_NOT_ALLOWED = 405


def with_doors(patterns: list[URLResolver | URLPattern]) -> list[URLResolver | URLPattern]:
    """Give ninja's addresses, each behind a door, and after them one for every other address."""
    doors: list[URLResolver | URLPattern] = []
    for pattern in patterns:
        assert isinstance(pattern, URLPattern), "ninja gives plain addresses"
        # ninja's root is there for its own links only.
        view = nothing_here if pattern.name == "api-root" else door(pattern.callback)
        doors.append(URLPattern(pattern.pattern, view, pattern.default_args, pattern.name))
    return [*doors, re_path("", nothing_here)]


@csrf_exempt
def nothing_here(_request: HttpRequest, *_: object, **__: object) -> HttpResponseBase:
    """Say that an address is none of ours, whatever the method."""
    return answer(NotFound("There is nothing at this address."))


def door(view: View) -> View:
    """Put a view behind the door."""

    @csrf_exempt
    @wraps(view)
    def pass_through(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        refusal = _refusal(request)
        if refusal is not None:
            return answer(refusal)
        response = view(request, *args, **kwargs)
        say_limits(response, request)
        if response.status_code != _METHOD_NOT_ALLOWED:
            return response
        refused = answer(
            LanehouseError(f"{request.method} is not a method of this address.", code="method_not_allowed"),
            status=_METHOD_NOT_ALLOWED,
        )
        refused["Allow"] = response["Allow"]
        return refused

    return pass_through


def _refusal(request: HttpRequest) -> LanehouseError | None:
    """Refuse what PostgreSQL cannot hold (NUL), before any view hands it on."""
    if "\x00" in request.path:
        return NotFound("There is nothing at this address.")
    try:
        query = request.GET
    except SuspiciousOperation:
        return InvalidRequest("The address has too many parameters.")
    for name, values in query.lists():
        if any("\x00" in text for text in (name, *values)):
            return InvalidRequest("A parameter of the address holds a NUL character.", param=name[:80])
    return None
