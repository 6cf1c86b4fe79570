"""What routing's endpoints share: who calls, JSON, the errors they publish."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, cast

import orjson
from django.http import HttpRequest, HttpResponse

from accounts.domain.limits import CallLimits
from accounts.once import once_call_of
from accounts.selectors import Caller
from routing.error_schemas import ErrorOut
from routing.sdk_tries import SdkTry

# Where authentication leaves a call's limits for its answer, whatever that will be.
LIMITS: Final = "lanehouse.limits"
# The instant at which a request's head had come, by ``perf_counter_ns``, and how long its body took, where the server
# waited for it before it called us.
STARTED_NS: Final = "lanehouse.started_ns"
BODY_NS: Final = "lanehouse.body_ns"
# OpenAPI's content of what is not one JSON document.
JSON_LINES: dict[str, Any] = {"application/jsonl": {"schema": {"type": "string", "format": "binary"}}}


def caller_of(request: HttpRequest) -> Caller:
    """Give who makes this call; authentication has put it there."""
    return cast(Caller, request.auth)  # type: ignore[attr-defined]  # django-ninja adds it


def show_debit(request: HttpRequest, input_tokens: int) -> None:
    """Let the answer's limits show the tokens of the quote that this call made."""
    limits: CallLimits = request.META[LIMITS]
    request.META[LIMITS] = replace(limits, tokens=limits.tokens.after(input_tokens))


def sdk_try_of(request: HttpRequest) -> SdkTry | None:
    """Give which try of an official SDK this call is; none for other clients, and beside an Idempotency-Key."""
    count = request.headers.get("x-stainless-retry-count", "")
    if once_call_of(request) is not None or not count.isdecimal():
        return None
    return SdkTry(is_retry=count.strip("0") != "", started_ns=request.META[STARTED_NS])


def may_be_repeated(request: HttpRequest) -> bool:
    """Say whether this call may have been made before: it has an Idempotency-Key, or an SDK repeats it."""
    sdk_try = sdk_try_of(request)
    return once_call_of(request) is not None or (sdk_try is not None and sdk_try.is_retry)


def errors_of(*statuses: int) -> dict[Any, Any]:
    """Give OpenAPI's error answers of an operation, beside those that every operation has."""
    return dict.fromkeys(statuses, ErrorOut)


def json_answer(content: dict[str, Any], *, status: int = 200) -> HttpResponse:
    """Give a JSON answer."""
    return HttpResponse(orjson.dumps(content), content_type="application/json", status=status)
