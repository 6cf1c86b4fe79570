"""Claude's messages as OpenAI's chat completions, and its refusals as the port's failures. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Raw

from routing.providers.anthropic.requests import ANSWER_TOOL
from routing.providers.anthropic.usage import chat_usage, read_usage
from routing.providers.base import Outcome, RowCode, RowResult, TokenUsage
from routing.providers.lines import one_line
from routing.providers.redaction import redact

SUCCESS_STATUS = 200
_MESSAGE_LENGTH = 2_000
_WORD_LENGTH = 100
_NO_TOKENS = TokenUsage()
_EMPTY_INPUT = Raw(b"{}")
_NULL = Raw(b"null")

_FINISHES = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
_CONTEXT_WORDS = frozenset({"context_length_exceeded", "model_context_window_exceeded"})
_FILTER_WORDS = frozenset({"content_filter", "content_policy_violation"})
_MODEL_WORDS = frozenset({"model_not_found", "not_found_error"})
# The provider has no code for these; its sentences are the only sign.
_CONTEXT_SENTENCE = re.compile(r"prompt is too long|exceeds? (?:the )?context (?:limit|window)", re.IGNORECASE)
_FILTER_SENTENCE = re.compile(r"content filtering policy", re.IGNORECASE)
# A status that tells of the lane's load or of our account there, not of the row.
_LANE_STATUSES = frozenset({401, 402, 403, 404, 408, 409, 424, 425, 429})


class Block(msgspec.Struct, frozen=True):
    """One block of a message's content."""

    type: str
    text: str = ""
    name: str = ""
    input: Raw = _EMPTY_INPUT


class Message(msgspec.Struct, frozen=True):
    """A message as Claude's sellers give it, as far as a chat completion holds it."""

    content: Sequence[Block]
    stop_reason: str | None = None
    model: str = ""
    usage: Raw = _NULL


@dataclass(frozen=True, slots=True, kw_only=True)
class RowError:
    """A refusal of one row: the status that belongs to it, the provider's type and code, and its sentence."""

    status_code: int
    error_type: str | None
    code: str | None
    message: object


def succeeded(row_key: str, row: int, message: Message, *, answer_prefix: str, created_at_seconds: int) -> RowResult:
    """Give the result of an answered row: a chat completion with our ids; thinking stays out of it, as at OpenAI."""
    read = read_usage(message.usage)
    answer_id = f"{answer_prefix}{row}"
    said, calls = _said(message, answer_id)
    finish = _FINISHES.get(message.stop_reason or "", "stop")
    if finish == "tool_calls" and not calls:
        finish = "stop"
    spoken: dict[str, Any] = {"role": "assistant", "content": said if said or not calls else None, "refusal": None}
    if calls:
        spoken["tool_calls"] = calls
    body = {
        "id": f"chatcmpl-{answer_id}",
        "object": "chat.completion",
        "created": created_at_seconds,
        "model": message.model,
        "choices": [{"index": 0, "message": spoken, "logprobs": None, "finish_reason": finish}],
        "usage": chat_usage(read.usage),
    }
    return RowResult(
        row_key=row_key,
        row=row,
        outcome=Outcome.SUCCEEDED,
        code=None,
        healable=False,
        status_code=SUCCESS_STATUS,
        body=one_line(msgspec.json.encode(body)),
        usage=read.usage,
        usage_problem=read.problem,
    )


def refused(row_key: str, row: int, error: RowError) -> RowResult:
    """Give the result of a row that was refused; a status that is none stands for the lane's failure."""
    error_type, code = _word(error.error_type), _word(error.code)
    sentence = error.message if isinstance(error.message, str) else ""
    meaning, healable = _meaning(error.status_code, (code, error_type), sentence)
    if not 400 <= error.status_code < 600:  # noqa: PLR2004  # the classes of errors
        return not_run(row_key, row, Outcome.FAILED, meaning, healable=healable, provider_code=code or error_type)
    message = redact(sentence, maximum_length=_MESSAGE_LENGTH) or "Refused."
    envelope = {"message": message, "type": error_type, "param": None, "code": code}
    return RowResult(
        row_key=row_key,
        row=row,
        outcome=Outcome.FAILED,
        code=meaning,
        healable=healable,
        status_code=error.status_code,
        body=one_line(msgspec.json.encode({"error": envelope})),
        usage=_NO_TOKENS,
        provider_code=code or error_type,
    )


def not_run(
    row_key: str, row: int, outcome: Outcome, code: RowCode, *, healable: bool, provider_code: str | None = None
) -> RowResult:
    """Give the result of a row without an answer."""
    return RowResult(
        row_key=row_key,
        row=row,
        outcome=outcome,
        code=code,
        healable=healable,
        status_code=None,
        body=None,
        usage=_NO_TOKENS,
        provider_code=provider_code,
    )


def _said(message: Message, answer_id: str) -> tuple[str, list[dict[str, Any]]]:
    """Give the text and the calls; the input of the tool that stands for a schema is the text."""
    texts: list[str] = []
    calls: list[dict[str, Any]] = []
    for block in message.content:
        if block.type == "text":
            texts.append(block.text)
        elif block.type == "tool_use" and block.name == ANSWER_TOOL:
            texts = [bytes(block.input).decode()]
        elif block.type == "tool_use":
            function = {"name": block.name, "arguments": bytes(block.input).decode()}
            calls.append({"id": f"call_{answer_id}_{len(calls)}", "type": "function", "function": function})
    return "".join(texts), calls


def _meaning(status_code: int, words: tuple[str | None, str | None], sentence: str) -> tuple[RowCode, bool]:
    """Say what a refusal means, and whether another lane may heal it."""
    if _CONTEXT_WORDS & {*words} or _CONTEXT_SENTENCE.search(sentence):
        return RowCode.CONTEXT_LENGTH_EXCEEDED, False
    if _FILTER_WORDS & {*words} or _FILTER_SENTENCE.search(sentence):
        return RowCode.CONTENT_FILTERED, False
    if _MODEL_WORDS & {*words}:
        return RowCode.MODEL_GONE, True
    rows_fault = 400 <= status_code < 500 and status_code not in _LANE_STATUSES  # noqa: PLR2004  # class of refusals
    return RowCode.PROVIDER_ERROR, not rows_fault


def _word(value: str | None) -> str | None:
    """Give a provider's code or type: a short printable string, or None."""
    return redact(value, maximum_length=_WORD_LENGTH) if value and value.isprintable() else None
