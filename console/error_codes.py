"""Every code that ``/v1`` answers with, and every code of a row that did not succeed: what it means, what to do.

The one table behind the page of errors; a test compares it with the code that raises them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorCode:
    """One code. ``statuses`` are those of HTTP; none where it stands on a row of the results."""

    code: str
    statuses: tuple[int, ...]
    meaning: str
    remedy: str


def _of(status: int, code: str, meaning: str, remedy: str) -> ErrorCode:
    return ErrorCode(code=code, statuses=(status,), meaning=meaning, remedy=remedy)


FILE_CODES: Final = (
    _of(400, "empty_file", "The file has no request.", "Send one request a line."),
    _of(400, "invalid_encoding", "The file is not UTF-8.", "Save it as UTF-8, without a byte order mark inside."),
    _of(400, "invalid_json_line", "A line, or the body of a command, is no JSON object.", "One object a line."),
    _of(400, "duplicate_key", "A name stands twice in one object, so nobody can tell which counts.", "Keep one."),
    _of(400, "too_deep", "The JSON is nested too deeply.", "Flatten it."),
    _of(400, "missing_required_parameter", "Something that is needed is not there.", "param names it."),
    _of(400, "invalid_type", "A value has another type than it must have.", "param names it."),
    _of(400, "invalid_value", "A value is out of its bounds, or cannot be now.", "The message says why."),
    _of(
        400,
        "duplicate_custom_id",
        "A custom_id stands on more than one line.",
        "duplicates lists every id with all its rows and lines; make each one unique.",
    ),
    _of(400, "url_mismatch", "The lines name different endpoints.", "One endpoint a file."),
    _of(400, "unsupported_endpoint", "The endpoint, or this model at it, is not offered.", "See GET /v1/models."),
    _of(400, "unsupported_model", "There is no such model.", "The message names the nearest ones."),
    _of(400, "model_retired", "The model is no longer offered.", "successor names what to use instead."),
    _of(
        400,
        "unsupported_parameter",
        "A parameter is unknown, or no batch can carry it out (streaming, for example).",
        "Leave it out. Misspelt names end here too, so that no wish is dropped silently.",
    ),
    _of(400, "row_too_large", "A line is longer than a row may be.", "Shorten or split it."),
    _of(400, "too_many_rows", "There are more requests than one call takes.", "Upload the file, or send several."),
    _of(400, "too_many_inputs", "An embeddings request has too many inputs.", "Spread them over several lines."),
    _of(400, "lane_minimum", "No lane takes a job of so few requests of this model.", "Add requests to the file."),
)
ACCEPT_CODES: Final = (
    _of(400, "quote_expired", "The quote's time is over.", "Ask for a new one; prices may have moved."),
    _of(400, "quote_already_used", "The quote became a batch already.", "Retrieve that batch, or quote anew."),
    _of(400, "lane_unavailable", "No lane can take these requests now.", "rejected_lanes says why, for each lane."),
    _of(
        400,
        "model.deprecated_post_quote",
        "The model was retired after the quote. Nothing was held. On a row: it was retired while the batch ran.",
        "alternative names a model, and quote is a new quote with it, ready to accept.",
    ),
    _of(402, "insufficient_credit", "The wallet does not carry the reservation.", "Top up by what is missing."),
    _of(402, "billing_blocked", "A charge above the hold is still open.", "A top-up pays it first; then accept."),
)
CALL_CODES: Final = (
    _of(400, "idempotency_conflict", "The Idempotency-Key came with another body before.", "Use a new key."),
    _of(400, "batch_cancelled", "The batch is cancelled already. On a row: it was not done before.", "Nothing."),
    _of(400, "too_many_exports", "Too many exports are not finished yet.", "Wait for one, or cancel it."),
    _of(400, "invalid_url", "A webhook endpoint's address cannot be used.", "A public https address."),
    _of(401, "invalid_api_key", "There is no key, or it is unknown, revoked or expired.", "Check the key."),
    _of(403, "insufficient_scope", "The key may not do this.", "Make a key with the scope that is named."),
    _of(403, "model_not_allowed", "The organisation may not use this model.", "Ask your administrator."),
    _of(
        400,
        "body_incomplete",
        "The body broke off: it is shorter than declared, or its last chunk is missing. Nothing of it was used.",
        "Send it again.",
    ),
    _of(400, "malformed_request", "What was sent is no HTTP request.", "Send one; the connection is closed."),
    _of(404, "not_found", "There is nothing with this id in your organisation.", "Check the id, and whose key it is."),
    _of(405, "method_not_allowed", "The address knows other methods.", "Allow names them."),
    _of(
        408,
        "body_too_slow",
        "The body came below the least pace: 15 s, and another second for each 16 KiB. Nothing of it was used.",
        "Send it again, faster; official SDKs repeat it.",
    ),
    _of(
        409,
        "idempotency_in_progress",
        "The first call with this Idempotency-Key is still running.",
        "Repeat it after Retry-After; official SDKs do.",
    ),
    ErrorCode(
        code="payload_too_large",
        statuses=(413,),
        meaning="The body is larger than the call takes, or your store is full.",
        remedy="Upload it as a file; or delete files that are no longer needed.",
    ),
    _of(415, "unsupported_media_type", "The call takes another content type.", "Set Content-Type."),
    _of(416, "range_not_satisfiable", "The range begins behind the end of the file.", "Ask within its size."),
    _of(429, "rate_limit_exceeded", "A limit of your organisation is used up.", "Wait as Retry-After says."),
    _of(431, "head_too_long", "Address and headers are longer than 64 KiB.", "Send shorter ones."),
    _of(500, "internal_error", "Something went wrong on our side.", "Repeat it; name x-request-id to support."),
    _of(503, "server_busy", "There is no room for the call now; nothing was done.", "Repeat it after Retry-After."),
)


def _on_a_row(code: str, meaning: str, remedy: str) -> ErrorCode:
    return ErrorCode(code=code, statuses=(), meaning=meaning, remedy=remedy)


ROW_CODES: Final = (
    _on_a_row("batch_expired", "The window ended before the request was done.", "Retry the batch's failed requests."),
    _on_a_row("provider_error", "No lane could answer the request.", "Its answer's body says more; then retry."),
    _on_a_row("context_length_exceeded", "The request is longer than the model allows.", "Shorten it."),
    _on_a_row("content_filtered", "The provider's filter stopped the request.", "Change what it asks."),
    _on_a_row("result_missing", "The provider ended its job without a line for the request.", "Retry it."),
)
EVERY_CODE: Final = (*FILE_CODES, *ACCEPT_CODES, *CALL_CODES, *ROW_CODES)
