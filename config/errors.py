"""The one table from our errors to HTTP, and the standard envelope."""

from __future__ import annotations

import errno
import logging
from functools import singledispatch
from typing import Any

import orjson
from django.core.exceptions import RequestDataTooBig
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.http.request import UnreadablePostError
from ninja.errors import HttpError, ValidationError

from config.limits import say_refused
from ground import errors
from ground.documentation import documentation_of

logger = logging.getLogger("lanehouse.api")

STATUS: dict[type[errors.LanehouseError], int] = {
    errors.InvalidRequest: 400,
    errors.AuthenticationFailed: 401,
    errors.PaymentRequired: 402,
    errors.PermissionRefused: 403,
    errors.NotFound: 404,
    errors.BodyTooSlow: 408,
    errors.InProgress: 409,
    errors.PayloadTooLarge: 413,
    errors.UnsupportedMediaType: 415,
    errors.RangeNotSatisfiable: 416,
    errors.RateLimited: 429,
    errors.StoreFull: 429,
    errors.HeadTooLong: 431,
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
# Disk, quota or file handles are used up: it passes when there is room again, and nothing was stored.
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE}
_PARAM_MAX_CHARACTERS = 80


def broken_off() -> errors.InvalidRequest:
    """Give the refusal of a body of which a part is missing."""
    return errors.InvalidRequest("The body ended before it was whole. Nothing of it was used.", code="body_incomplete")


def status_of(error: errors.LanehouseError) -> int:
    """Give the HTTP status of one of our errors; what is not in the table is our own fault."""
    for kind in type(error).__mro__:
        if kind in STATUS:
            return STATUS[kind]
    return 500


def envelope(error: errors.LanehouseError, status: int) -> dict[str, Any]:
    """Give the standard body: OpenAI's four members, then ours; ``doc_url`` leads to what the code means."""
    members = errors.members_of(error, _TYPE.get(status, errors.INVALID_REQUEST_TYPE))
    return {"error": {**members, "doc_url": documentation_of(error.code)}}


def answer(error: errors.LanehouseError, *, status: int | None = None) -> HttpResponse:
    """Give the HTTP answer of one of our errors; ``status`` only where HTTP itself has one that no error stands for."""
    status = status or status_of(error)
    response = HttpResponse(
        orjson.dumps(envelope(error, status)),
        content_type="application/json",
        status=status,
        headers=getattr(error, "headers", None),
    )
    retry_after = getattr(error, "retry_after_seconds", None)
    if status in {409, 429, 503}:
        response["Retry-After"] = str(min(retry_after or 1, 59))
    if isinstance(error, errors.RateLimited):
        say_refused(response, error)
    if status == 401:  # noqa: PLR2004 -- the status that must name its scheme
        response["WWW-Authenticate"] = "Bearer"
    return response


@singledispatch
def answer_to(error: Exception, request: HttpRequest) -> HttpResponse:
    """Give the HTTP answer of whatever a call raised; here, of what nobody foresaw."""
    request_id = _log(error, request)
    return answer(errors.LanehouseError(f"Something went wrong on our side. Name request {request_id} to support."))


@answer_to.register
def _(error: errors.LanehouseError, _request: HttpRequest) -> HttpResponse:
    return answer(error)


@answer_to.register
def _(_error: Http404, _request: HttpRequest) -> HttpResponse:
    return answer(errors.NotFound("There is nothing at this address."))


@answer_to.register
def _(error: ValidationError, _request: HttpRequest) -> HttpResponse:
    return answer(_from_validation(error))


@answer_to.register
def _(error: HttpError, _request: HttpRequest) -> HttpResponse:
    # ninja wraps whatever the body's parser raises; ours says what is wrong.
    cause = error.__cause__
    return answer(cause if isinstance(cause, errors.LanehouseError) else errors.InvalidRequest(str(error)))


class BodyLost(OSError):
    """What reading a body raises when no more of it comes: Django takes it for a broken connection."""

    def __init__(self, error: errors.LanehouseError) -> None:
        super().__init__(error.message)
        self.error = error


@answer_to.register
def _(error: BodyLost, _request: HttpRequest) -> HttpResponse:
    return answer(error.error)


@answer_to.register
def _(error: UnreadablePostError, _request: HttpRequest) -> HttpResponse:
    cause = error.__cause__
    return answer(cause.error if isinstance(cause, BodyLost) else broken_off())


@answer_to.register
def _(_error: RequestDataTooBig, _request: HttpRequest) -> HttpResponse:
    return answer(errors.PayloadTooLarge("The body is too large for this call."))


@answer_to.register(OperationalError)
@answer_to.register(InterfaceError)
def _(error: Exception, request: HttpRequest) -> HttpResponse:
    """No connection is free, or the database is away, full or restarting: what was begun is rolled back."""
    _log(error, request)
    return answer(errors.ServerBusy("The server is busy. Send the same request again."))


@answer_to.register
def _(error: OSError, request: HttpRequest) -> HttpResponse:
    if error.errno not in _NO_ROOM:
        return answer_to.dispatch(Exception)(error, request)
    _log(error, request)
    return answer(errors.ServerBusy("There is no room to store this now. Nothing was done; send it again later."))


def _log(error: Exception, request: HttpRequest) -> str:
    """Log the class and the place, never the text: it may quote the request. Gives the request's id."""
    request_id = str(request.META.get("lanehouse.request_id", ""))
    logger.error("request %s failed: %s", request_id, type(error).__name__, exc_info=_without_text(error))
    return request_id


def _without_text(error: Exception) -> tuple[type[Exception], Exception, Any]:
    return type(error), RuntimeError("text left out"), error.__traceback__


def _from_validation(error: ValidationError) -> errors.InvalidRequest:
    first: dict[str, Any] = dict(error.errors[0])
    # ninja says first where it looked; in a body the name of our argument follows, which no caller knows.
    source, *path = first["loc"]
    param = ".".join(str(part) for part in (path[1:] if source == "body" else path))[:_PARAM_MAX_CHARACTERS] or None
    kind = str(first["type"])
    if param is None:
        return errors.InvalidRequest("This call needs a JSON object as its body.", code="missing_required_parameter")
    if kind == "missing":
        return errors.InvalidRequest(f"{param!r} is required.", code="missing_required_parameter", param=param)
    if kind == "extra_forbidden":
        return errors.InvalidRequest(
            f"{param!r} is not a parameter of this call.", code="unsupported_parameter", param=param
        )
    code = "invalid_type" if kind.endswith(("_type", "_parsing")) else "invalid_value"
    return errors.InvalidRequest(f"{param!r} is not acceptable: {first['msg']}.", code=code, param=param)
