"""Bedrock's records: one row out, one output line in. Pure.

An output line is ``{recordId, modelInput, modelOutput}``, or with ``error: {errorCode, errorMessage}`` in the place of
``modelOutput``; ``modelInput`` repeats the whole request and is passed over.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from catalog.domain.records import Endpoint
from routing.providers.anthropic.answers import Message, RowError, not_run, refused, succeeded
from routing.providers.anthropic.requests import RequestMaker
from routing.providers.anthropic.wire import foreign
from routing.providers.base import (
    BrokenLine,
    LineProblem,
    Outcome,
    ResultItem,
    RowCode,
    RowResult,
    row_of_key,
)
from routing.providers.lines import one_line

_API_VERSION = "bedrock-2023-05-31"


class _AnsweredLine(msgspec.Struct, frozen=True):
    recordId: str  # noqa: N815 -- the provider's name
    modelOutput: Message  # noqa: N815 -- the same


class _Line(msgspec.Struct, frozen=True):
    recordId: Any = None  # noqa: N815 -- the provider's name
    error: Raw = Raw(b"null")


class _Error(msgspec.Struct, frozen=True):
    errorCode: int = 0  # noqa: N815 -- the provider's name
    errorMessage: Any = None  # noqa: N815 -- the same


_answered_decoder = msgspec.json.Decoder(_AnsweredLine)
_line_decoder = msgspec.json.Decoder(_Line)
_error_decoder = msgspec.json.Decoder(_Error)


def encode_row(
    maker: RequestMaker,
    *,
    row_key: str,
    endpoint: Endpoint,
    model_id: str,
    body: Mapping[str, Raw],
    max_output_tokens: int | None,
) -> bytes:
    """Give one record of the input, LF included; the model is the job's.

    Raises:
        ProviderError: ``refused``, permanent: Claude cannot carry the row.
    """
    request = maker.make(endpoint=endpoint, model_id=model_id, body=body, max_output_tokens=max_output_tokens)
    document = msgspec.json.encode({"anthropic_version": _API_VERSION, **request})
    return f'{{"recordId":"{row_key}","modelInput":'.encode() + one_line(document) + b"}\n"


def read_line(
    text: bytes, *, token: str, answer_prefix: str, result_ref: str, line: int, created_at_seconds: int
) -> ResultItem:
    """Read one line of the output, without its LF.

    Args:
        text: The line.
        token: The job's token; a record id made with another one is foreign.
        answer_prefix: With the row number behind it our id of the answer.
        result_ref: The output object, for a line that cannot be read.
        line: Its number in the output, from 1.
        created_at_seconds: What a completion says of its time: when the job ended, for Claude does not say.
    """
    problem = LineProblem.NOT_JSON
    try:
        text.decode()
        # Nearly every line is an answer: decoded in one pass. Every other goes the exact way.
        answered = _answered_decoder.decode(text)
    except UnicodeDecodeError:
        problem = LineProblem.NOT_UTF8
    except (msgspec.DecodeError, RecursionError):
        try:
            parsed = _line_decoder.decode(text)
        except (msgspec.DecodeError, RecursionError):
            pass
        else:
            if isinstance(parsed.recordId, str):
                row = row_of_key(token, parsed.recordId)
                return foreign(parsed.recordId) if row is None else _failed(parsed.recordId, row, parsed.error)
            problem = LineProblem.NO_KEY
    else:
        row = row_of_key(token, answered.recordId)
        if row is None:
            return foreign(answered.recordId)
        return succeeded(
            answered.recordId,
            row,
            answered.modelOutput,
            answer_prefix=answer_prefix,
            created_at_seconds=created_at_seconds,
        )
    return BrokenLine(result_ref=result_ref, line=line, size_bytes=len(text), problem=problem)


def _failed(row_key: str, row: int, member: Raw) -> RowResult:
    """Read a record without an answer; what cannot be understood is the lane's failure."""
    try:
        error = _error_decoder.decode(member)
    except (msgspec.DecodeError, RecursionError):
        return not_run(row_key, row, Outcome.FAILED, RowCode.PROVIDER_ERROR, healable=True)
    word = f"error_{error.errorCode}"
    return refused(
        row_key, row, RowError(status_code=error.errorCode, error_type=None, code=word, message=error.errorMessage)
    )
