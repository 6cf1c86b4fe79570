"""The one NinjaAPI: authentication, errors, routers."""

from __future__ import annotations

from typing import Any

import orjson
from django.http import HttpRequest
from ninja import NinjaAPI
from ninja.renderers import BaseRenderer

from accounts.selectors import Caller, caller_by_key
from billing.api import router as billing_router
from catalog.api import router as catalog_router
from config.errors import add_handlers
from ground.errors import AuthenticationFailed
from routing.api import router as routing_router


class OrjsonRenderer(BaseRenderer):
    """Writes answers with orjson."""

    media_type = "application/json"

    def render(self, request: HttpRequest, data: Any, *, response_status: int) -> bytes:  # noqa: ANN401, ARG002
        """Serialise an answer."""
        return orjson.dumps(data)


def authenticate(request: HttpRequest) -> Caller:
    """Give the caller of a request, from ``Authorization: Bearer`` or ``x-api-key``.

    Raises:
        AuthenticationFailed: There is no key, or it is not good.
    """
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    key = text.strip() if scheme.lower() == "bearer" else request.headers.get("x-api-key", "").strip()
    if not key:
        raise AuthenticationFailed("An API key is needed: send 'Authorization: Bearer sk-lh-...'.")
    return caller_by_key(key)


api = NinjaAPI(
    title="Lanehouse",
    version="1",
    urls_namespace="api",
    auth=authenticate,
    renderer=OrjsonRenderer(),
    docs_url=None,
    openapi_url="/openapi.json",
)
add_handlers(api)
api.add_router("", routing_router)
api.add_router("", billing_router)
api.add_router("", catalog_router)
