"""The one table from our errors to HTTP, and the standard envelope."""

from __future__ import annotations

import logging
from dataclasses import asdict
from typing import Any

import orjson
from django.core.exceptions import RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError

from ground import errors

logger = logging.getLogger("lanehouse.api")

STATUS: dict[type[errors.LanehouseError], int] = {
    errors.InvalidRequest: 400,
    errors.AuthenticationFailed: 401,
    errors.PaymentRequired: 402,
    errors.PermissionRefused: 403,
    errors.NotFound: 404,
    errors.InProgress: 409,
    errors.PayloadTooLarge: 413,
    errors.UnsupportedMediaType: 415,
    errors.RateLimited: 429,
    errors.ServerBusy: 503,
}
# OpenAI's words for the kinds of error, so that its SDKs show them as their own.
_TYPE = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "invalid_request_error",
    409: "conflict_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "server_error",
}


def status_of(error: errors.LanehouseError) -> int:
    """Give the HTTP status of one of our errors; what is not in the table is our own fault."""
    for kind in type(error).__mro__:
        if kind in STATUS:
            return STATUS[kind]
    return 500


def envelope(error: errors.LanehouseError, status: int) -> dict[str, Any]:
    """Give the standard body: OpenAI's four members, then ours."""
    members: dict[str, Any] = {
        "message": error.message,
        "type": _TYPE.get(status, "invalid_request_error"),
        "param": error.param,
        "code": error.code,
    }
    if isinstance(error, errors.RowErrors):
        first = error.errors[0]
        members |= {"row": first.row, "line": first.line, "custom_id": first.custom_id}
        members["duplicates"] = [asdict(duplicate) for duplicate in error.duplicates]
        members["errors"] = [asdict(row_error) for row_error in error.errors]
        members["error_count"] = error.error_count
    return {"error": members | error.extra}


def answer(error: errors.LanehouseError) -> HttpResponse:
    """Give the HTTP answer of one of our errors."""
    status = status_of(error)
    response = HttpResponse(orjson.dumps(envelope(error, status)), content_type="application/json", status=status)
    retry_after = getattr(error, "retry_after_seconds", None)
    if status in {409, 429, 503}:
        response["Retry-After"] = str(min(retry_after or 1, 59))
    if status == 401:  # noqa: PLR2004 -- the status that must name its scheme
        response["WWW-Authenticate"] = "Bearer"
    return response


def add_handlers(api: NinjaAPI) -> None:
    """Make the API answer every error in the standard envelope."""

    def ours(_request: HttpRequest, error: errors.LanehouseError) -> HttpResponse:
        return answer(error)

    def not_found(_request: HttpRequest, _error: Http404) -> HttpResponse:
        return answer(errors.NotFound("There is nothing at this address."))

    def malformed(_request: HttpRequest, error: ValidationError) -> HttpResponse:
        return answer(_from_validation(error))

    def http(_request: HttpRequest, error: HttpError) -> HttpResponse:
        return answer(errors.InvalidRequest(str(error), code="invalid_json_line" if "JSON" in str(error) else None))

    def too_big(_request: HttpRequest, _error: RequestDataTooBig) -> HttpResponse:
        return answer(errors.PayloadTooLarge("The body is too large for this call."))

    def unexpected(request: HttpRequest, error: Exception) -> HttpResponse:
        request_id = request.META.get("lanehouse.request_id", "")
        # The class and the place, never the text: it may quote the request.
        logger.error("request %s failed: %s", request_id, type(error).__name__, exc_info=_without_text(error))
        return answer(errors.LanehouseError(f"Something went wrong on our side. Name request {request_id} to support."))

    api.add_exception_handler(errors.LanehouseError, ours)
    api.add_exception_handler(Http404, not_found)
    api.add_exception_handler(ValidationError, malformed)
    api.add_exception_handler(HttpError, http)
    api.add_exception_handler(RequestDataTooBig, too_big)
    api.add_exception_handler(Exception, unexpected)


def _without_text(error: Exception) -> tuple[type[Exception], Exception, Any]:
    return type(error), RuntimeError("text left out"), error.__traceback__


def _from_validation(error: ValidationError) -> errors.InvalidRequest:
    first: dict[str, Any] = dict(error.errors[0])
    # The first two parts say where ninja found it (``body``, the argument's name); the caller knows neither.
    param = ".".join(str(part) for part in first["loc"][2:]) or None
    kind = str(first["type"])
    if kind == "missing":
        return errors.InvalidRequest(
            f"The field {param!r} is required.", code="missing_required_parameter", param=param
        )
    code = "invalid_type" if kind.endswith(("_type", "_parsing")) else "invalid_value"
    return errors.InvalidRequest(f"The field {param!r} is not acceptable: {first['msg']}.", code=code, param=param)
