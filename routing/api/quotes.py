"""``/v1/quotes``: price a file, read an offer again."""

from __future__ import annotations

import time

import orjson
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from ninja import Router

from accounts.once import begin_once, begins_itself
from ground.errors import InvalidRequest, PayloadTooLarge, UnsupportedMediaType
from ground.repeated_names import name_repeated, repeated_name
from routing.api.answers import BODY_NS, JSON_LINES, STARTED_NS, caller_of, errors_of, json_answer, show_debit
from routing.quote_path import observe
from routing.schemas import QuoteCommand, QuoteOut, UnpricedQuoteOut
from routing.selectors import quote_by_id
from routing.services.file_quotes import uploaded_file
from routing.services.quotes import create_quote, quote_answer
from routing.services.quotes_by_file import quote_by_file
from routing.workflows import workflow_named

router = Router(tags=["quotes"])
_COMMAND_MAX_BYTES = 4_096
_BODIES = {
    "requestBody": {
        "required": True,
        "content": {**JSON_LINES, "application/json": {"schema": QuoteCommand.model_json_schema()}},
    }
}


@router.post(
    "/model", response={201: QuoteOut, 202: UnpricedQuoteOut, **errors_of(400, 404, 413, 415)}, openapi_extra=_BODIES
)
@begins_itself
def create_model_quote(request: HttpRequest, workflow: str | None = None) -> HttpResponse:
    """Price a JSONL file that may mix models.

    A JSON object of type `application/json` with `input_file_id` and no `custom_id` is a command for the file
    flow; everything else is JSONL, whatever its content type. The file is priced in the background: ask for the
    quote until it is `ready` or `failed`. While a file is being priced under the workflow, its quote is that one.
    """
    started_ns, admitted_ns = request.META[STARTED_NS], time.perf_counter_ns()
    body_ns = request.META.get(BODY_NS, 0)
    caller = caller_of(request)
    profile = workflow_named(caller.organisation, workflow)
    body = read_body(request)
    read_ns = time.perf_counter_ns()
    file_id = _command(request, body)
    # Pricing takes longer than a transaction should. Killed before its answer is kept, it leaves an offer nobody knows.
    begin_once(request, body, is_atomic=file_id is not None)
    if file_id is not None:
        quote = quote_by_file(caller=caller, stored=uploaded_file(caller, file_id), workflow=profile)
        response = json_answer(quote_answer(caller, quote), status=202)
        response["Location"] = f"/v1/quotes/{quote.public_id}"
        return response
    made = create_quote(caller=caller, body=body, workflow=profile)
    show_debit(request, made.answer["estimate"]["input_tokens"])
    timings_ms = {
        "admit": round((admitted_ns - started_ns - body_ns) / 1e6, 3),
        "read": round((read_ns - admitted_ns + body_ns) / 1e6, 3),
        **made.timings_ms,
    }
    timings_ms["total"] = round((time.perf_counter_ns() - started_ns) / 1e6, 3)
    observe(timings_ms)
    response = json_answer({**made.answer, "timings_ms": timings_ms}, status=201)
    response["Server-Timing"] = ", ".join(f"{step};dur={spent_ms:.3f}" for step, spent_ms in timings_ms.items())
    response["Location"] = f"/v1/quotes/{made.answer['id']}"
    return response


@router.get("/{quote_id}", response={200: QuoteOut | UnpricedQuoteOut, **errors_of(404)})
def get_quote(request: HttpRequest, quote_id: str) -> HttpResponse:
    """Give a quote as it stands now."""
    caller = caller_of(request)
    return json_answer(quote_answer(caller, quote_by_id(organisation=caller.organisation, public_id=quote_id)))


def read_body(request: HttpRequest) -> bytes:
    """Read the file, up to the limit of the direct call.

    Raises:
        UnsupportedMediaType: It is compressed.
        PayloadTooLarge: It is over the limit; names the file flow.
    """
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise UnsupportedMediaType("The file is taken as it is, without a Content-Encoding.")
    limit_bytes = settings.QUOTE_BODY_MAX_BYTES
    declared = request.META.get("CONTENT_LENGTH") or ""
    # One without a declared length that the server did not collect is longer than it keeps.
    is_endless = "HTTP_TRANSFER_ENCODING" in request.META
    if is_endless or (declared.isdecimal() and int(declared) > limit_bytes):
        raise _too_large(limit_bytes)
    # At once: what the server holds whole comes without a copy. It is never a part of what was sent.
    return request.read()


def _too_large(limit_bytes: int) -> PayloadTooLarge:
    return PayloadTooLarge(
        f"This call takes up to {limit_bytes // (1024 * 1024)} MiB. Upload a larger file by POST /v1/files with purpose"
        ' \'batch\', then send its id here as {"input_file_id": "file-..."}.'
    )


def _command(request: HttpRequest, body: bytes) -> str | None:
    """Give the file id of a command, or None when the body is JSONL.

    Raises:
        InvalidRequest: It is a command, and its file id is no string or stands there twice.
    """
    if request.content_type != "application/json" or len(body) > _COMMAND_MAX_BYTES:
        return None
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(content, dict) or "custom_id" in content or "input_file_id" not in content:
        return None
    for name in content:
        if name != "input_file_id":
            raise InvalidRequest(
                f"{name[:80]!r} is not a parameter of this call.", code="unsupported_parameter", param=name[:80]
            )
    file_id = content["input_file_id"]
    if not isinstance(file_id, str):
        raise InvalidRequest("'input_file_id' is a string.", code="invalid_type", param="input_file_id")
    if repeated_name(body) is not None:
        raise name_repeated("input_file_id")
    return file_id
