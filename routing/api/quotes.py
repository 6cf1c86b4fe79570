"""``/v1/quotes``: price a file, read an offer again."""

from __future__ import annotations

import time
from typing import Any

import orjson
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from ninja import Router

from ground.errors import NotFound, PayloadTooLarge
from routing.api.answers import caller_of, json_answer
from routing.schemas import ErrorOut, QuoteOut
from routing.selectors import quote_by_id
from routing.services.quotes import create_quote, quote_answer

router = Router(tags=["quotes"])
_ERRORS: dict[Any, Any] = dict.fromkeys((400, 401, 402, 403, 404, 409, 413, 415, 429, 503), ErrorOut)
_COMMAND_MAX_BYTES = 4_096


@router.post("/model", response={201: QuoteOut, **_ERRORS})
def create_model_quote(request: HttpRequest, workflow: str | None = None) -> HttpResponse:
    """Price a JSONL file that may mix models.

    A JSON object of type ``application/json`` with ``input_file_id`` and no ``custom_id`` is a command for the file
    flow; everything else is JSONL, whatever its content type.
    """
    started_ns = time.perf_counter_ns()
    caller = caller_of(request)
    body = read_body(request)
    read_ns = time.perf_counter_ns()
    file_id = _command(request, body)
    if file_id is not None:
        raise NotFound(f"There is no file {file_id[:60]!r}.", param="input_file_id")
    made = create_quote(caller=caller, body=body, workflow_name=workflow)
    timings_ms = {"read": round((read_ns - started_ns) / 1e6, 3), **made.timings_ms}
    timings_ms["total"] = round((time.perf_counter_ns() - started_ns) / 1e6, 3)
    response = json_answer({**made.answer, "timings_ms": timings_ms}, status=201)
    response["Server-Timing"] = ", ".join(f"{step};dur={spent_ms}" for step, spent_ms in timings_ms.items())
    response["Location"] = f"/v1/quotes/{made.answer['id']}"
    return response


@router.get("/{quote_id}", response={200: QuoteOut, **_ERRORS})
def get_quote(request: HttpRequest, quote_id: str) -> HttpResponse:
    """Give a quote as it stands now."""
    caller = caller_of(request)
    return json_answer(quote_answer(caller, quote_by_id(organisation=caller.organisation, public_id=quote_id)))


def read_body(request: HttpRequest) -> bytes:
    """Read the file, up to the limit of the direct call.

    Raises:
        PayloadTooLarge: It is over the limit; names the file flow.
    """
    limit_bytes = settings.QUOTE_BODY_MAX_BYTES
    declared = request.META.get("CONTENT_LENGTH") or ""
    if declared.isdigit() and int(declared) > limit_bytes:
        raise _too_large(limit_bytes)
    # One byte more than the limit shows that there is more, without a length declared.
    body = request.read(limit_bytes + 1)
    if len(body) > limit_bytes:
        raise _too_large(limit_bytes)
    return body


def _too_large(limit_bytes: int) -> PayloadTooLarge:
    return PayloadTooLarge(
        f"This call takes up to {limit_bytes // (1024 * 1024)} MiB. Upload the file with POST /v1/files"
        " (purpose=batch) and quote it with POST /v1/quotes/model and its input_file_id."
    )


def _command(request: HttpRequest, body: bytes) -> str | None:
    """Give the file id of a command, or None when the body is JSONL."""
    if request.content_type != "application/json" or len(body) > _COMMAND_MAX_BYTES:
        return None
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(content, dict) or "custom_id" in content:
        return None
    file_id = content.get("input_file_id")
    return file_id if isinstance(file_id, str) else None
