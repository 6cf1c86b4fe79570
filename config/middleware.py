"""Request ids, and the headers that every page answers with."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.utils.cache import patch_vary_headers

from accounts.audit import VISITOR_NAME, Hand, acting
from accounts.models import User
from accounts.services.sign_in import address_of
from ground import clock
from ground.ids import new_public_id
from routing.api.answers import STARTED_NS

type_of_next = Callable[[HttpRequest], HttpResponseBase]

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_SAFE_REQUEST_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class RequestIdMiddleware:
    """Notes when a request came, and names it: the client's ``x-request-id`` where it is harmless, else one of ours."""

    def __init__(self, get_response: type_of_next) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer, with the id as ``x-request-id``."""
        given = request.headers.get("x-request-id", "")
        request_id = given if _SAFE_REQUEST_ID.fullmatch(given) else new_public_id("req_", clock.now())
        request.META["lanehouse.request_id"] = request_id
        request.META.setdefault(STARTED_NS, time.perf_counter_ns())
        response = self._get_response(request)
        response["x-request-id"] = request_id
        return response


class PageHeadersMiddleware:
    """Strict content policy and no caching on pages; a page and its fragment vary on htmx's headers."""

    def __init__(self, get_response: type_of_next) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer, with the headers added."""
        if not request.path.startswith("/v1") and ("\x00" in request.path or "%00" in request.META["QUERY_STRING"]):
            # Nothing of ours has a NUL in its name, and PostgreSQL takes none as text.
            raise Http404
        response = self._get_response(request)
        if isinstance(response, HttpResponse) and response.headers.get("Content-Type", "").startswith("text/html"):
            response.headers.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY)
            response.headers.setdefault("Cache-Control", "private, no-store")
            patch_vary_headers(response, ["HX-Request", "HX-History-Restore-Request", "HX-Target"])
        elif request.path.startswith("/v1/"):
            response.headers.setdefault("Cache-Control", "no-store")
        return response


class ActingMiddleware:
    """Lets what a request does be done in its caller's name, for the audit log; the user is read only if asked for."""

    def __init__(self, get_response: type_of_next) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer, with the hand set meanwhile."""

        def user() -> User | None:
            found: Any = request.user
            return found if found.is_authenticated else None

        hand = Hand(
            request_id=request.META["lanehouse.request_id"],
            address=address_of(request)[:64],
            user_of=user,
            name=VISITOR_NAME,
        )
        with acting(hand):
            return self._get_response(request)
