"""The one NinjaAPI: authentication, errors, routers."""

from __future__ import annotations

import copy
from functools import cached_property
from typing import Any

import orjson
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, URLResolver
from ninja import NinjaAPI
from ninja.openapi.schema import OpenAPISchema
from ninja.operation import Operation
from ninja.parser import Parser
from ninja.renderers import BaseRenderer

from accounts.audit import acts_for, acts_with
from accounts.once import AnsweredBefore
from accounts.services.staff_keys import StaffCaller, staff_caller_by_key
from billing.api import router as billing_router
from billing.exports.api import router as exports_router
from billing.exports.finance_api import router as finance_exports_router
from billing.reconciliation.api import router as finance_router
from billing.usage.api import router as usage_router
from catalog.api import router as catalog_router
from config.door import with_doors
from config.errors import answer_to
from config.gate import Work, work_of
from config.once import claiming, keeping, said_again
from config.openapi import published
from config.scopes import check_scope, staff_scope_for
from ground.connections import give_back
from ground.errors import AuthenticationFailed, InvalidRequest, PayloadTooLarge, UnsupportedMediaType
from ground.repeated_names import name_repeated, repeated_name
from routing.api import router as routing_router
from routing.api.answers import LIMITS
from routing.services.admission import TakenCall, take_call
from webhooks.api import router as webhooks_router

# The longest command is a batch with all its metadata, every character escaped.
COMMAND_MAX_BYTES = 256 * 1024


class OrjsonRenderer(BaseRenderer):
    """Writes answers with orjson."""

    media_type = "application/json"

    def render(self, request: HttpRequest, data: Any, *, response_status: int) -> bytes:  # noqa: ANN401, ARG002
        """Serialise an answer."""
        return orjson.dumps(data)


class CommandParser(Parser):
    """Reads the JSON object of a command; orjson bounds the nesting and refuses NaN and lone surrogates."""

    def parse_body(self, request: HttpRequest) -> dict[str, Any]:
        """Give the object.

        Raises:
            UnsupportedMediaType: It is declared as something else.
            PayloadTooLarge: It is longer than any command.
            InvalidRequest: It is no JSON, no object, nests too deep or holds a name twice.
        """
        if request.content_type not in {"", "application/json"}:
            raise UnsupportedMediaType("This call takes a body of type application/json.")
        if len(request.body) > COMMAND_MAX_BYTES:
            raise PayloadTooLarge(f"This call takes up to {COMMAND_MAX_BYTES // 1024} KiB.")
        try:
            command = orjson.loads(request.body)
        except orjson.JSONDecodeError:
            raise InvalidRequest("The body is not valid JSON.", code="invalid_json_line") from None
        if not isinstance(command, dict):
            raise InvalidRequest("The body must be a JSON object.", code="invalid_type")
        try:
            twice = repeated_name(request.body)
        except RecursionError:
            raise InvalidRequest("The body nests too deep.", code="too_deep") from None
        if twice is not None:
            raise name_repeated(twice)
        return command


class PublicApi(NinjaAPI):
    """ninja, with a door before every address and the OpenAPI that we publish."""

    @property
    def urls(self) -> tuple[list[URLResolver | URLPattern], str, str]:
        """Give the addresses for Django."""
        patterns, app_name, namespace = super().urls
        return with_doors(patterns), app_name, namespace

    def on_exception(self, request: HttpRequest, exc: Any) -> HttpResponse:  # noqa: ANN401 -- as ninja has it
        """Answer an error in the standard envelope; that a call was answered before is none."""
        return said_again(exc) if isinstance(exc, AnsweredBefore) else answer_to(exc, request)

    def get_openapi_operation_id(self, operation: Operation) -> str:
        """Name an operation by what it does, without our modules."""
        return operation.view_func.__name__

    def get_openapi_schema(
        self,
        *,
        path_prefix: str | None = None,  # noqa: ARG002 -- there is one prefix
        path_params: dict[str, Any] | None = None,  # noqa: ARG002 -- the same
    ) -> OpenAPISchema:
        """Give what ``/v1/openapi.json`` publishes."""
        return self._documents[False]

    @property
    def finance_document(self) -> OpenAPISchema:
        """Give what ``/v1/finance/openapi.json`` publishes, for our own people's programs."""
        return self._documents[True]

    @cached_property
    def _documents(self) -> dict[bool, OpenAPISchema]:
        schema = super().get_openapi_schema()
        documents: dict[bool, OpenAPISchema] = {}
        for is_finance in (False, True):
            documents[is_finance] = copy.copy(schema)
            documents[is_finance].update(published(schema, is_finance=is_finance))
        return documents


def authenticate(request: HttpRequest) -> TakenCall:
    """Give the caller of a request, from ``Authorization: Bearer`` or ``x-api-key``, with its call counted.

    Raises:
        AuthenticationFailed: There is no key, or it is not good.
        RateLimited: The organisation has made as many calls as it may, or has had as many tokens priced.
        PermissionRefused: The key lacks the scope for this call.
    """
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    key = text.strip() if scheme.lower() == "bearer" else request.headers.get("x-api-key", "").strip()
    if not key:
        raise AuthenticationFailed("An API key is needed: send 'Authorization: Bearer sk-lh-...'.")
    caller = take_call(key)
    assert caller.api_key is not None, "a call of the API comes with a key"
    acts_with(caller.api_key)
    request.META[LIMITS] = caller.limits
    caller.limits.check()
    check_scope(caller, str(request.method), request.path)
    if work_of(request) is Work.UPLOAD:
        # Next the body is waited for.
        give_back()
    return caller


def authenticate_staff(request: HttpRequest) -> StaffCaller:
    """Give the person behind a call of ``/v1/finance``.

    Raises:
        AuthenticationFailed: There is no key of a person of finance.
        PermissionRefused: The key lacks the scope for this call.
    """
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        raise AuthenticationFailed("A staff key is needed: send 'Authorization: Bearer sk-lh-staff-...'.")
    caller = staff_caller_by_key(text.strip())
    caller.check(staff_scope_for(str(request.method)))
    acts_for(caller.user)
    return caller


api = PublicApi(
    title="Lanehouse",
    version="1",
    urls_namespace="api",
    auth=authenticate,
    renderer=OrjsonRenderer(),
    parser=CommandParser(),
    docs_url=None,
    openapi_url="/openapi.json",
)
# In ninja's words "view" is the whole call with its authentication, "operation" the function behind it.
api.add_decorator(keeping, mode="view")
api.add_decorator(claiming, mode="operation")
api.add_router("", routing_router)
api.add_router("", billing_router)
api.add_router("", usage_router)
api.add_router("", exports_router)
api.add_router("", catalog_router)
api.add_router("", webhooks_router)
# Our own people's programs: keys of their own, and no organisation behind them.
api.add_router("/finance", finance_router, auth=authenticate_staff)
api.add_router("/finance", finance_exports_router, auth=authenticate_staff)


@api.get("/finance/openapi.json", auth=None, include_in_schema=False)
def finance_openapi(request: HttpRequest) -> OpenAPISchema:  # noqa: ARG001 -- ninja hands it to every operation
    """Give the OpenAPI of finance's calls."""
    return api.finance_document
