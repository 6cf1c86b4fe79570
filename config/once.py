"""``Idempotency-Key`` on every call of ``/v1`` that changes something: done once, answered alike for a day.

Around each call: :func:`keeping` outside of everything, :func:`claiming` where the caller is known. The claim is a
statement of its own, seen by everybody at once. The work and its kept answer are one transaction, so a process that
is killed leaves either both or neither, and one that was overtaken after 60 s undoes its work.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar

from django.db import DatabaseError, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseBase

from accounts.once import AnsweredBefore, OnceCall, begin_once, is_begun_by_view, note_once_call, once_call_of
from accounts.selectors import Caller
from accounts.services.kept_calls import CallAnswer, free_call, keep_answer
from accounts.services.staff_keys import StaffCaller
from config.errors import answer_to
from ground.errors import InProgress, InvalidRequest

HEADER: Final = "Idempotency-Key"
REPLAYED: Final = "idempotent-replayed"
KEY_MAX_CHARACTERS: Final = 255
KEY_PATTERN: Final = rf"^[!-~]{{1,{KEY_MAX_CHARACTERS}}}$"
_KEY: Final = re.compile(KEY_PATTERN)
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
# What passes by itself or by a top-up: nothing was done, and the same call may do it.
_PASSING: Final = frozenset({402, 409, 429})
_SERVER_ERRORS_FROM: Final = 500

Result = TypeVar("Result")


def keeping(run: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Wrap a whole call: what it answers is kept with its work, or nothing of either."""

    @wraps(run)
    def answered_once(request: HttpRequest, *arguments: object, **named: object) -> HttpResponseBase:
        key = request.headers.get(HEADER)
        if key is None or request.method in _READS:
            return run(request, *arguments, **named)
        call = OnceCall(route=_route_of(request), key=key)
        note_once_call(request, call)
        try:
            with call.stack:
                response = run(request, *arguments, **named)
                is_kept = call.claim is None or _keep(call, response)
        except Exception as error:  # noqa: BLE001 -- the commit failed; it is answered as any failure of a call
            response, is_kept = answer_to(error, request), False
        if not is_kept:
            _free(call)
        return response

    return answered_once


def claiming(view: Callable[..., Result]) -> Callable[..., Result]:
    """Wrap a view: with a key, its work begins only when the call is claimed."""

    @wraps(view)
    def claimed(request: HttpRequest, *arguments: object, **named: object) -> Result:
        call = once_call_of(request)
        if call is not None:
            if not _KEY.fullmatch(call.key):
                raise InvalidRequest(
                    f"{HEADER} is 1 to {KEY_MAX_CHARACTERS} characters of printable ASCII without blanks.", param=HEADER
                )
            caller: Caller | StaffCaller = request.auth  # type: ignore[attr-defined]  # django-ninja adds it
            call.owner = caller.user if isinstance(caller, StaffCaller) else caller.organisation
            if not is_begun_by_view(view):
                begin_once(request, request.body)
        return view(request, *arguments, **named)

    return claimed


def said_again(found: AnsweredBefore) -> HttpResponse:
    """Give the answer that was kept, marked as a repetition."""
    kept = found.answer
    response = HttpResponse(kept.content, content_type="application/json", status=kept.status_code)
    response[REPLAYED] = "true"
    if kept.location:
        response["Location"] = kept.location
    return response


def _keep(call: OnceCall, response: HttpResponseBase) -> bool:
    """Keep an answer where it is one for good; otherwise, and when the claim was lost, undo the work."""
    assert call.claim is not None, "only a claimed call is kept"
    if response.status_code in _PASSING or response.status_code >= _SERVER_ERRORS_FROM:
        _undo()
        return False
    assert isinstance(response, HttpResponse), "a call that changes something answers in one piece"
    kept = CallAnswer(
        status_code=response.status_code, content=response.content, location=response.headers.get("Location", "")
    )
    if keep_answer(call.claim, kept):
        return True
    raise InProgress("This call took so long that another one with its Idempotency-Key took over. Send it again.")


def _undo() -> None:
    if transaction.get_connection().in_atomic_block:
        transaction.set_rollback(True)


def _free(call: OnceCall) -> None:
    """Let the key be used again at once; where even that fails, the claim lapses by itself."""
    if call.claim is not None:
        with contextlib.suppress(DatabaseError):
            free_call(call.claim)


def _route_of(request: HttpRequest) -> str:
    """Give the method and the address with the names of its parameters."""
    match = request.resolver_match
    assert match is not None, "a call has an address"
    return f"{request.method} /{match.route}"


def documented(operation: dict[str, Any], error: dict[str, Any]) -> None:
    """Add the header, and what it may lead to, to a published operation."""
    operation.setdefault("parameters", []).append(
        {
            "name": HEADER,
            "in": "header",
            "required": False,
            "schema": {"type": "string", "minLength": 1, "maxLength": KEY_MAX_CHARACTERS, "pattern": KEY_PATTERN},
            "description": (
                "Makes the call safe to repeat for 24 hours: the same key and request are answered with the same status"
                f" and body and `{REPLAYED}: true`; another request is refused (400 `idempotency_conflict`). Answers"
                " 402, 409, 429 and 5xx are not kept."
            ),
        }
    )
    operation["responses"]["409"] = {
        "description": f"The first call with this {HEADER} is still running; `Retry-After` says when to ask again.",
        "content": error,
    }
