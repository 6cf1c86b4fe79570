"""Anthropic's batch lines: one row out, one result in. Pure.

A request stands in the create's body as ``{custom_id, params}``. A result is ``{custom_id, result}``, where ``result``
is ``{type: succeeded, message}``, ``{type: errored, error: {error: {type, message}}}`` (the error nested twice),
``{type: canceled}`` or ``{type: expired}``.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Raw

from catalog.domain.records import Endpoint
from routing.providers.anthropic.answers import Message, RowError, not_run, refused, succeeded
from routing.providers.anthropic.requests import RequestMaker
from routing.providers.base import (
    BrokenLine,
    ForeignLine,
    LineProblem,
    Outcome,
    ResultItem,
    RowCode,
    RowResult,
    row_of_key,
)
from routing.providers.lines import one_line

SHOWN_KEY_LENGTH = 200
_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "conflict_error": 409,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


class _Succeeded(msgspec.Struct, frozen=True):
    type: Literal["succeeded"]
    message: Message


class _SucceededLine(msgspec.Struct, frozen=True):
    custom_id: str
    result: _Succeeded


class _Details(msgspec.Struct, frozen=True):
    error_code: str | None = None


class _Error(msgspec.Struct, frozen=True):
    type: str | None = None
    message: Any = None
    details: _Details | None = None


class _Nested(msgspec.Struct, frozen=True):
    error: _Error


class _Result(msgspec.Struct, frozen=True):
    type: str | None = None
    error: Raw = Raw(b"null")


class _Line(msgspec.Struct, frozen=True):
    custom_id: Any = None
    result: Raw = Raw(b"null")


_succeeded_decoder = msgspec.json.Decoder(_SucceededLine)
_line_decoder = msgspec.json.Decoder(_Line)
_result_decoder = msgspec.json.Decoder(_Result)
_nested_decoder = msgspec.json.Decoder(_Nested)
_flat_decoder = msgspec.json.Decoder(_Error)


def encode_row(
    maker: RequestMaker,
    *,
    row_key: str,
    endpoint: Endpoint,
    model_id: str,
    body: Mapping[str, Raw],
    max_output_tokens: int | None,
) -> bytes:
    """Give one request of the create's body, LF included.

    Raises:
        ProviderError: ``refused``, permanent: Claude cannot carry the row.
    """
    request = maker.make(endpoint=endpoint, model_id=model_id, body=body, max_output_tokens=max_output_tokens)
    document = msgspec.json.encode({"model": model_id, **request})
    return f'{{"custom_id":"{row_key}","params":'.encode() + one_line(document) + b"}\n"


def read_line(
    text: bytes, *, token: str, answer_prefix: str, result_ref: str, line: int, created_at_seconds: int
) -> ResultItem:
    """Read one line of the results, without its LF.

    Args:
        text: The line.
        token: The job's token; a key made with another one is foreign.
        answer_prefix: With the row number behind it our id of the answer.
        result_ref: The batch, for a line that cannot be read.
        line: Its number in the results, from 1.
        created_at_seconds: What a completion says of its time: when the batch ended, for Claude does not say.
    """
    problem = LineProblem.NOT_JSON
    try:
        text.decode()
        # Nearly every line is an answer: decoded in one pass. Every other goes the exact way.
        answered = _succeeded_decoder.decode(text)
    except UnicodeDecodeError:
        problem = LineProblem.NOT_UTF8
    except (msgspec.DecodeError, RecursionError):
        try:
            parsed = _line_decoder.decode(text)
        except (msgspec.DecodeError, RecursionError):
            pass
        else:
            if isinstance(parsed.custom_id, str):
                row = row_of_key(token, parsed.custom_id)
                return foreign(parsed.custom_id) if row is None else _read_exactly(parsed.custom_id, row, parsed.result)
            problem = LineProblem.NO_KEY
    else:
        row = row_of_key(token, answered.custom_id)
        if row is None:
            return foreign(answered.custom_id)
        message = answered.result.message
        return succeeded(
            answered.custom_id, row, message, answer_prefix=answer_prefix, created_at_seconds=created_at_seconds
        )
    return BrokenLine(result_ref=result_ref, line=line, size_bytes=len(text), problem=problem)


def foreign(row_key: str) -> ForeignLine:
    """Give the item for a key that is not of this job."""
    return ForeignLine(row_key=row_key[:SHOWN_KEY_LENGTH])


def _read_exactly(row_key: str, row: int, member: Raw) -> RowResult:
    """Read one row's result that is no answer; what cannot be understood is the lane's failure."""
    try:
        result = _result_decoder.decode(member)
    except (msgspec.DecodeError, RecursionError):
        return not_run(row_key, row, Outcome.FAILED, RowCode.PROVIDER_ERROR, healable=True)
    if result.type == "expired":
        return not_run(row_key, row, Outcome.EXPIRED, RowCode.BATCH_EXPIRED, healable=True, provider_code=result.type)
    if result.type == "canceled":
        return not_run(
            row_key, row, Outcome.CANCELLED, RowCode.BATCH_CANCELLED, healable=False, provider_code=result.type
        )
    if result.type != "errored":
        # A success without a message that can be read, or a word that is new.
        return not_run(row_key, row, Outcome.FAILED, RowCode.PROVIDER_ERROR, healable=True)
    error = _error_of(result.error)
    return refused(
        row_key,
        row,
        RowError(
            status_code=_STATUSES.get(error.type or "", 0),
            error_type=error.type,
            code=error.details.error_code if error.details else None,
            message=error.message,
        ),
    )


def _error_of(member: Raw) -> _Error:
    """Give the inner error; one that is nested only once is read too."""
    for decoder in (_nested_decoder, _flat_decoder):
        try:
            decoded = decoder.decode(member)
        except (msgspec.DecodeError, RecursionError):
            continue
        return decoded.error if isinstance(decoded, _Nested) else decoded
    return _Error()
