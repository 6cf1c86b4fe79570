"""The answer to one row: the same request always gets the same text, counts and ids."""

import base64
import hashlib
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import sqrt

import orjson

from simulators import prose
from simulators.openai import tokens
from simulators.openai.refusals import context_length_refusal, count_within, output_limit, require_input
from simulators.tokenizer import count_text

Json = Mapping[str, object]

_VECTOR_SIZES = {"text-embedding-3-large": 3072}
_VECTOR_SIZE = 1536
_PROMPT_LIMIT_TOKENS = 16
_MAX_CHOICES = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one answer; cached ones are part of the input, reasoning ones part of the output."""

    input_tokens: int
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a fault or a marker wants of an answer beyond its request."""

    natural_tokens: int | None = None
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    filtered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A successful body and what it counts."""

    body: Json
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    text: str
    output_tokens: int
    reasoning_tokens: int
    finish_reason: str


def input_tokens_of(endpoint: str, model: str, body: Json) -> int:
    """Input tokens that a row counts against limits and in its usage."""
    if endpoint == "/v1/chat/completions":
        return tokens.chat_input_tokens(model, body)
    if endpoint == "/v1/responses":
        return tokens.responses_input_tokens(model, body)
    return tokens.plain_input_tokens(model, body.get("input" if endpoint == "/v1/embeddings" else "prompt"))


def content_digest(body: Json) -> bytes:
    """What a row asks, whatever its id and parameters."""
    asked = {name: body.get(name) for name in ("model", "messages", "input", "instructions", "prompt")}
    return hashlib.sha256(orjson.dumps(asked)).digest()


def answer_row(
    endpoint: str, body: Json, *, served_model: str, window_tokens: int | None, created: int, wish: Wish
) -> Answer:
    """The body that the model gives for a row; `created` is in Unix seconds.

    Raises:
        RefusedError: the request does not fit the endpoint or the context window.
    """
    model = str(body.get("model"))
    require_input(endpoint, body)
    input_tokens = input_tokens_of(endpoint, model, body)
    limit_tokens = output_limit(body)
    if window_tokens is not None and input_tokens + (limit_tokens or 0) > window_tokens:
        raise context_length_refusal(window_tokens, input_tokens)
    usage = Usage(input_tokens=input_tokens, cached_tokens=min(wish.cached_tokens, input_tokens))
    if endpoint == "/v1/embeddings":
        return _embeddings(body, served_model, replace(usage, cached_tokens=0))
    seed = prose.seed_of(model.encode(), content_digest(body))
    ask = _Ask(body=body, served_model=served_model, created=created, seed=seed, usage=usage, wish=wish)
    if endpoint == "/v1/responses":
        return _response(ask, limit_tokens)
    if endpoint == "/v1/completions":
        return _completion(ask, limit_tokens or _PROMPT_LIMIT_TOKENS)
    return _chat(ask, limit_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ask:
    body: Json
    served_model: str
    created: int
    seed: int
    usage: Usage
    wish: Wish

    def public_id(self, prefix: str) -> str:
        return prefix + hashlib.sha256(self.seed.to_bytes(8, "big") + prefix.encode()).hexdigest()[:29]


def _piece(ask: _Ask, seed: int, limit_tokens: int | None) -> _Piece:
    natural = prose.natural_tokens(seed) if ask.wish.natural_tokens is None else ask.wish.natural_tokens
    wanted = natural + ask.wish.reasoning_tokens
    allowed = wanted if limit_tokens is None else min(wanted, limit_tokens)
    reasoning_tokens = min(ask.wish.reasoning_tokens, allowed)
    text = "".join(prose.pieces(seed, allowed - reasoning_tokens))
    spoken_tokens = count_text(tokens.vocabulary_of(str(ask.body.get("model"))), text)
    reason = "content_filter" if ask.wish.filtered else "length" if allowed < wanted else "stop"
    return _Piece(
        text=text,
        output_tokens=spoken_tokens + reasoning_tokens,
        reasoning_tokens=reasoning_tokens,
        finish_reason=reason,
    )


def _choice_pieces(ask: _Ask, limit_tokens: int | None) -> list[_Piece]:
    count = count_within(ask.body, "n", _MAX_CHOICES) or 1
    return [_piece(ask, ask.seed + index, limit_tokens) for index in range(count)]


def _with_output(usage: Usage, pieces: list[_Piece]) -> Usage:
    return replace(
        usage,
        output_tokens=sum(piece.output_tokens for piece in pieces),
        reasoning_tokens=sum(piece.reasoning_tokens for piece in pieces),
    )


def _chat_usage(usage: Usage) -> Json:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning_tokens,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def _chat(ask: _Ask, limit_tokens: int | None) -> Answer:
    pieces = _choice_pieces(ask, limit_tokens)
    usage = _with_output(ask.usage, pieces)
    choices: list[Json] = [
        {
            "index": index,
            "message": {"role": "assistant", "content": piece.text, "refusal": None, "annotations": []},
            "logprobs": None,
            "finish_reason": piece.finish_reason,
        }
        for index, piece in enumerate(pieces)
    ]
    body = {
        "id": ask.public_id("chatcmpl-"),
        "object": "chat.completion",
        "created": ask.created,
        "model": ask.served_model,
        "choices": choices,
        "usage": _chat_usage(usage),
        "service_tier": "default",
        "system_fingerprint": "fp_5b7c2e9d41",
    }
    return Answer(body=body, usage=usage)


def _completion(ask: _Ask, limit_tokens: int) -> Answer:
    pieces = _choice_pieces(ask, limit_tokens)
    usage = _with_output(ask.usage, pieces)
    body = {
        "id": ask.public_id("cmpl-"),
        "object": "text_completion",
        "created": ask.created,
        "model": ask.served_model,
        "choices": [
            {"text": piece.text, "index": index, "logprobs": None, "finish_reason": piece.finish_reason}
            for index, piece in enumerate(pieces)
        ],
        "usage": _chat_usage(usage),
    }
    return Answer(body=body, usage=usage)


def _response(ask: _Ask, limit_tokens: int | None) -> Answer:
    piece = _piece(ask, ask.seed, limit_tokens)
    usage = _with_output(ask.usage, [piece])
    reason = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(piece.finish_reason)
    status = "completed" if reason is None else "incomplete"
    message = {
        "id": ask.public_id("msg_"),
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": [{"type": "output_text", "text": piece.text, "annotations": [], "logprobs": []}],
    }
    given = ask.body.get
    body = {
        "id": ask.public_id("resp_"),
        "object": "response",
        "created_at": ask.created,
        "status": status,
        "error": None,
        "incomplete_details": None if reason is None else {"reason": reason},
        "instructions": given("instructions"),
        "max_output_tokens": limit_tokens,
        "model": ask.served_model,
        "output": [message],
        "parallel_tool_calls": given("parallel_tool_calls", True),
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": given("store", True),
        "temperature": given("temperature", 1.0),
        "text": given("text", {"format": {"type": "text"}}),
        "tool_choice": given("tool_choice", "auto"),
        "tools": given("tools", []),
        "top_p": given("top_p", 1.0),
        "truncation": "disabled",
        "usage": {
            "input_tokens": usage.input_tokens,
            "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
            "output_tokens": usage.output_tokens,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
            "total_tokens": usage.input_tokens + usage.output_tokens,
        },
        "metadata": given("metadata", {}),
    }
    return Answer(body=body, usage=usage)


def _embeddings(body: Json, served_model: str, usage: Usage) -> Answer:
    model = str(body.get("model"))
    given = body.get("input")
    inputs = given if isinstance(given, list) and not all(isinstance(each, int) for each in given) else [given]
    natural_size = _VECTOR_SIZES.get(model, _VECTOR_SIZE)
    size = count_within(body, "dimensions", natural_size) or natural_size
    as_base64 = body.get("encoding_format") == "base64"
    data = []
    for index, each in enumerate(inputs):
        vector = _vector(prose.seed_of(model.encode(), orjson.dumps(each)), size)
        embedding = base64.b64encode(vector.tobytes()).decode() if as_base64 else vector.tolist()
        data.append({"object": "embedding", "index": index, "embedding": embedding})
    counts = {"prompt_tokens": usage.input_tokens, "total_tokens": usage.input_tokens}
    return Answer(body={"object": "list", "data": data, "model": served_model, "usage": counts}, usage=usage)


def _vector(seed: int, size: int) -> "array[float]":
    """A unit vector of 32-bit floats."""
    noise = array("h", hashlib.shake_128(seed.to_bytes(8, "big")).digest(2 * size))
    length = sqrt(sum(each * each for each in noise)) or 1.0
    return array("f", [each / length for each in noise])
