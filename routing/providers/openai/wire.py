"""OpenAI's batch lines: one row out, one result in. Pure.

A result line is ``{id, custom_id, response: {status_code, request_id, body} | null, error: {code, message} | null}``
in both result files. A refused row has ``error: null`` and its error in the body, so only the status and a completion
in the body make a success.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from catalog.domain.records import Endpoint
from routing.providers.base import (
    BrokenLine,
    ForeignLine,
    LineProblem,
    Outcome,
    ResultItem,
    RowCode,
    RowResult,
    TokenUsage,
    row_of_key,
)
from routing.providers.lines import one_line
from routing.providers.openai.usage import read_raw_usage
from routing.providers.redaction import redact

_SHOWN_KEY_LENGTH = 200
_MESSAGE_LENGTH = 2_000
_WORD_LENGTH = 100
_NO_TOKENS = TokenUsage()

_CONTEXT_CODES = frozenset({"context_length_exceeded", "string_above_max_length"})
_FILTER_CODES = frozenset({"content_filter", "content_policy_violation", "moderation_blocked"})
_MODEL_CODES = frozenset({"model_not_found", "model_deprecated"})
# A status that tells of the lane's load or of our account there, not of the row.
_LANE_STATUSES = frozenset({401, 402, 403, 404, 408, 409, 425, 429})
_REFUSED_STATUS = 400
_ANSWER_PREFIXES = {"chat.completion": "chatcmpl-", "response": "resp_"}


_NULL = msgspec.Raw(b"null")


class _Choice(msgspec.Struct, frozen=True):
    message: msgspec.Raw = _NULL


class _Line(msgspec.Struct, frozen=True):
    custom_id: Any = None
    response: msgspec.Raw = _NULL
    error: Any = None


class _Answered(msgspec.Struct, frozen=True):
    status_code: int
    body: dict[str, msgspec.Raw]


class _AnsweredLine(msgspec.Struct, frozen=True):
    custom_id: str
    response: _Answered


_answered_decoder = msgspec.json.Decoder(_AnsweredLine)
_line_decoder = msgspec.json.Decoder(_Line)
_members_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
_choices_decoder = msgspec.json.Decoder(list[_Choice])
_any_decoder = msgspec.json.Decoder()
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    """What a failed row means to us."""

    outcome: Outcome
    code: RowCode
    healable: bool


def encode_row(
    *,
    row_key: str,
    endpoint: Endpoint,
    model_id: str,
    body: Mapping[str, msgspec.Raw],
    max_output_tokens: int | None = None,  # noqa: ARG001 -- the port's; OpenAI's models know their own limit
) -> bytes:
    """Give one line of the input file, LF included, with the pin's ``model_id`` for whatever ``body`` names.

    Members keep their order and their number text; nothing that some reader takes for a line's end is left in it.
    """
    document = one_line(_encode({**body, "model": model_id}))
    head = (b'{"custom_id":"', row_key.encode(), b'","method":"POST","url":"', endpoint.encode(), b'","body":')
    return b"".join((*head, document, b"}\n"))


def read_line(text: bytes, *, token: str, answer_prefix: str, result_ref: str, line: int) -> ResultItem:
    """Read one line of an output or error file, without its LF.

    Args:
        text: The line.
        token: The job's token; a key made with another one is foreign.
        answer_prefix: With the row number behind it our id of the answer.
        result_ref: The file, for a line that cannot be read.
        line: Its number in that file, from 1.
    """
    problem = LineProblem.NOT_JSON
    try:
        text.decode()
        # Nearly every line is a well-formed answer: decoded in one pass. Every other goes the exact way.
        answered = _answered_decoder.decode(text)
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
                return _foreign(parsed.custom_id) if row is None else _read_exactly(parsed, row, answer_prefix)
            problem = LineProblem.NO_KEY
    else:
        row = row_of_key(token, answered.custom_id)
        if row is None:
            return _foreign(answered.custom_id)
        response = answered.response
        return _read_answer(answered.custom_id, row, response.status_code, response.body, answer_prefix)
    return BrokenLine(result_ref=result_ref, line=line, size_bytes=len(text), problem=problem)


def _foreign(row_key: str) -> ForeignLine:
    return ForeignLine(row_key=row_key[:_SHOWN_KEY_LENGTH])


def _read_exactly(parsed: _Line, row: int, answer_prefix: str) -> RowResult:
    """Read one row's result whatever the types of its members."""
    if _starts(parsed.response, b"n"):
        return _never_ran(parsed, row)
    response = _members(parsed.response)
    status = _value(response, "status_code")
    status_code = status if type(status) is int else 0
    return _read_answer(parsed.custom_id, row, status_code, _members(response.get("body", _NULL)), answer_prefix)


def _read_answer(
    row_key: str, row: int, status_code: int, body: dict[str, msgspec.Raw], answer_prefix: str
) -> RowResult:
    """Read one row that was answered; the key is ours."""
    if 200 <= status_code < 300:  # noqa: PLR2004  # the class of success
        if _holds_answer(body):
            return _succeeded(row_key, row, status_code, body, answer_prefix)
        return _without_answer(row_key, row, body)
    return _refused(row_key, row, status_code, body)


def _succeeded(row_key: str, row: int, status_code: int, body: dict[str, msgspec.Raw], answer_prefix: str) -> RowResult:
    read = read_raw_usage(body.get("usage"), has_output="data" not in body)
    if "id" in body:
        prefix = _ANSWER_PREFIXES.get(str(_value(body, "object")), "")
        body["id"] = msgspec.Raw(msgspec.json.encode(f"{prefix}{answer_prefix}{row}"))
    return RowResult(
        row_key=row_key,
        row=row,
        outcome=Outcome.SUCCEEDED,
        code=None,
        healable=False,
        status_code=status_code,
        body=one_line(msgspec.json.encode(body)),
        usage=read.usage,
        usage_problem=read.problem,
    )


def _never_ran(parsed: _Line, row: int) -> RowResult:
    """Read a line without a response: the window closed, we cancelled, or the provider gave up."""
    error = parsed.error if isinstance(parsed.error, dict) else {}
    word = _word(error.get("code"))
    if word == "batch_expired":
        failure = _Failure(outcome=Outcome.EXPIRED, code=RowCode.BATCH_EXPIRED, healable=True)
    elif word == "batch_cancelled":
        failure = _Failure(outcome=Outcome.CANCELLED, code=RowCode.BATCH_CANCELLED, healable=False)
    else:
        failure = _failure(_REFUSED_STATUS if word is not None and word.startswith("invalid_") else 0, word)
    return _failed(parsed.custom_id, row, failure, provider_code=word)


def _without_answer(row_key: str, row: int, body: dict[str, msgspec.Raw]) -> RowResult:
    """Read a success status without a completion: the lane's failure, possibly billed."""
    error = _value(body, "error")
    word = _word(error.get("code")) if isinstance(error, dict) else None
    read = read_raw_usage(body.get("usage"), has_output=True)
    return _failed(row_key, row, _failure(0, word), provider_code=word, usage=read.usage)


def _refused(row_key: str, row: int, status_code: int, body: dict[str, msgspec.Raw]) -> RowResult:
    """Read a row that was answered with an error status; 0 and other non-statuses are the lane's failure."""
    error = _value(body, "error")
    error = error if isinstance(error, dict) else {}
    word = _word(error.get("code")) or _word(error.get("type"))
    failure = _failure(status_code, word)
    if not 400 <= status_code < 600:  # noqa: PLR2004  # the classes of errors
        return _failed(row_key, row, failure, provider_code=word)
    message = error.get("message")
    envelope = {
        "message": redact(message, maximum_length=_MESSAGE_LENGTH) if isinstance(message, str) else "Refused.",
        "type": _word(error.get("type")),
        "param": _word(error.get("param")),
        "code": _word(error.get("code")),
    }
    return RowResult(
        row_key=row_key,
        row=row,
        outcome=failure.outcome,
        code=failure.code,
        healable=failure.healable,
        status_code=status_code,
        body=one_line(msgspec.json.encode({"error": envelope})),
        usage=read_raw_usage(body.get("usage"), has_output=True).usage,
        provider_code=word,
    )


def _failed(
    row_key: str, row: int, failure: _Failure, *, provider_code: str | None, usage: TokenUsage = _NO_TOKENS
) -> RowResult:
    return RowResult(
        row_key=row_key,
        row=row,
        outcome=failure.outcome,
        code=failure.code,
        healable=failure.healable,
        status_code=None,
        body=None,
        usage=usage,
        provider_code=provider_code,
    )


def _failure(status_code: int, word: str | None) -> _Failure:
    """Say what a failure means; ``status_code`` 0 stands for none."""
    if word in _CONTEXT_CODES:
        return _Failure(outcome=Outcome.FAILED, code=RowCode.CONTEXT_LENGTH_EXCEEDED, healable=False)
    if word in _FILTER_CODES:
        return _Failure(outcome=Outcome.FAILED, code=RowCode.CONTENT_FILTERED, healable=False)
    if word in _MODEL_CODES:
        return _Failure(outcome=Outcome.FAILED, code=RowCode.MODEL_GONE, healable=True)
    rows_fault = 400 <= status_code < 500 and status_code not in _LANE_STATUSES  # noqa: PLR2004  # class of refusals
    return _Failure(outcome=Outcome.FAILED, code=RowCode.PROVIDER_ERROR, healable=not rows_fault)


def _holds_answer(body: dict[str, msgspec.Raw]) -> bool:
    """Tell whether a body has what was asked for: a chat message, a response's output, embeddings."""
    if "choices" in body:
        try:
            choices = _choices_decoder.decode(body["choices"])
        except msgspec.DecodeError:
            return False
        return bool(choices) and all(_starts(each.message, b"{") for each in choices)
    if "output" in body:
        return _starts(body["output"], b"[") and _value(body, "status") not in {"failed", "cancelled"}
    return _starts(body.get("data", _NULL), b"[{")


def _starts(member: msgspec.Raw, opening: bytes) -> bool:
    """Tell whether raw JSON opens with these tokens; looks at its first bytes only, it may be large."""
    return bytes(memoryview(member)[:64]).translate(None, b" \t\r\n").startswith(opening)


def _members(document: msgspec.Raw) -> dict[str, msgspec.Raw]:
    """Give an object's members as raw JSON; none for what is no object."""
    try:
        return _members_decoder.decode(document)
    except msgspec.DecodeError:
        return {}


def _value(body: dict[str, msgspec.Raw], name: str) -> object:
    """Decode one small member; None where it is missing or cannot be read."""
    try:
        return _any_decoder.decode(body[name]) if name in body else None
    except (msgspec.DecodeError, RecursionError):
        return None


def _word(value: object) -> str | None:
    """Give a provider's code or type: a short printable string, or None."""
    return redact(value, maximum_length=_WORD_LENGTH) if isinstance(value, str) and value.isprintable() else None
