"""The message that the model gives for a request: the same request always gets the same one."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import orjson

from simulators import prose
from simulators.claude.caching import CacheUse
from simulators.claude.refusals import RefusedError
from simulators.claude.schemas import instance_of
from simulators.claude.tokens import count, input_tokens

Json = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a fault or a marker wants of an answer beyond its request."""

    natural_tokens: int | None = None
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    thinking_tokens: int = 0
    refused: bool = False
    calls_tool: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """How one seller of the model dresses its answers; `served_model` gives the name that an answer carries."""

    message_prefix: str
    tool_prefix: str
    usage_extra: Json
    served_model: Callable[[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A request that was found valid, and the model that answers it."""

    params: Json
    model: str
    served_model: str
    window_tokens: int | None
    max_tokens: int

    @property
    def seed(self) -> int:
        """What the answer depends on: the model and what is asked."""
        return prose.seed_of(self.model.encode(), content_digest(self.params))


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A message, and how many tokens it counts in all and as output."""

    message: Json
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Speech:
    """What the model says, after thinking of `thinking_tokens`."""

    blocks: tuple[Json, ...]
    output_tokens: int
    stop_reason: str
    thinking_tokens: int = 0
    stop_sequence: str | None = field(default=None)


def content_digest(params: Json) -> bytes:
    """What a request asks, whatever its parameters."""
    asked = {name: params.get(name) for name in ("system", "messages", "tools")}
    return hashlib.sha256(orjson.dumps(asked)).digest()


def answer(question: Question, wish: Wish, cached: CacheUse, door: Door) -> Answer:
    """The message for a request.

    Raises:
        RefusedError: the prompt and its answer do not fit the context window.
    """
    total_tokens = input_tokens(question.params)
    window_tokens = question.window_tokens
    if window_tokens is not None and total_tokens + question.max_tokens > window_tokens:
        raise too_long(total_tokens, window_tokens)
    speech = _speech(question, wish, door)
    read_tokens = cached.read_tokens or min(wish.cached_tokens, total_tokens)
    written_5m_tokens = cached.written_5m_tokens or min(wish.cache_write_tokens, total_tokens - read_tokens)
    message = {
        "id": _public_id(question.seed, door.message_prefix),
        "type": "message",
        "role": "assistant",
        "model": question.served_model,
        "content": list(speech.blocks),
        "stop_reason": speech.stop_reason,
        "stop_sequence": speech.stop_sequence,
        "usage": {
            "input_tokens": total_tokens - read_tokens - written_5m_tokens - cached.written_1h_tokens,
            "cache_creation_input_tokens": written_5m_tokens + cached.written_1h_tokens,
            "cache_read_input_tokens": read_tokens,
            "cache_creation": {
                "ephemeral_5m_input_tokens": written_5m_tokens,
                "ephemeral_1h_input_tokens": cached.written_1h_tokens,
            },
            "output_tokens": speech.output_tokens,
            **(
                {"output_tokens_details": {"thinking_tokens": speech.thinking_tokens}} if speech.thinking_tokens else {}
            ),
            **door.usage_extra,
        },
    }
    if speech.stop_reason == "refusal":
        message["stop_details"] = {"type": "refusal", "category": None, "explanation": None}
    return Answer(message=message, input_tokens=total_tokens, output_tokens=speech.output_tokens)


def too_long(prompt_tokens: int, window_tokens: int) -> RefusedError:
    """The refusal of a prompt that does not fit the model's window."""
    return RefusedError(f"prompt is too long: {prompt_tokens} tokens > {window_tokens} maximum")


def _speech(question: Question, wish: Wish, door: Door) -> _Speech:
    thinking_tokens = min(_thinking_tokens(question, wish), question.max_tokens)
    room_tokens = question.max_tokens - thinking_tokens
    tool = _called_tool(question.params, wish)
    if tool is not None:
        spoken = _tool_call(question.seed, tool, room_tokens, door)
    else:
        spoken = _text(question, wish, room_tokens)
    blocks = spoken.blocks
    if thinking_tokens and _thinks(question.params):
        thought = "".join(prose.pieces(question.seed + 1, thinking_tokens))
        signature = _public_id(question.seed, "signature_")
        blocks = ({"type": "thinking", "thinking": thought, "signature": signature}, *blocks)
    return replace(
        spoken,
        blocks=blocks,
        output_tokens=thinking_tokens + spoken.output_tokens,
        thinking_tokens=thinking_tokens,
        stop_reason="refusal" if wish.refused else spoken.stop_reason,
    )


def _text(question: Question, wish: Wish, room_tokens: int) -> _Speech:
    seed, params = question.seed, question.params
    output_config = params.get("output_config")
    answer_format = output_config.get("format") if isinstance(output_config, dict) else None
    if isinstance(answer_format, dict):
        text = orjson.dumps(instance_of(answer_format["schema"], seed)).decode()
        stop_reason = "max_tokens" if count(text) > room_tokens else "end_turn"
        text = _fitting(text, room_tokens)
    else:
        natural_tokens = prose.natural_tokens(seed) if wish.natural_tokens is None else wish.natural_tokens
        text = "".join(prose.pieces(seed, min(natural_tokens, room_tokens)))
        stop_reason = "max_tokens" if natural_tokens > room_tokens else "end_turn"
    stop_sequence = _first_stop(text, params)
    if stop_sequence is not None:
        text, stop_reason = text[: text.index(stop_sequence)], "stop_sequence"
    return _Speech(
        blocks=({"type": "text", "text": text},) if text else (),
        output_tokens=count(text),
        stop_reason=stop_reason,
        stop_sequence=stop_sequence,
    )


def _tool_call(seed: int, tool: Json, room_tokens: int, door: Door) -> _Speech:
    schema = tool.get("input_schema")
    given = instance_of(schema, seed) if isinstance(schema, dict) else {}
    wanted_tokens = count(str(tool["name"])) + count(orjson.dumps(given).decode())
    call = {"type": "tool_use", "id": _public_id(seed, door.tool_prefix), "name": tool["name"], "input": given}
    return _Speech(
        blocks=(call,),
        output_tokens=min(wanted_tokens, room_tokens),
        stop_reason="tool_use" if wanted_tokens <= room_tokens else "max_tokens",
    )


def _called_tool(params: Json, wish: Wish) -> Json | None:
    """The tool that the answer calls: the one that must be, or the first if any must be or a marker wants it."""
    tools, choice = params.get("tools"), params.get("tool_choice")
    if not isinstance(tools, list) or not tools:
        return None
    kind = choice.get("type") if isinstance(choice, dict) else "auto"
    if kind == "tool" and isinstance(choice, dict):
        return next((tool for tool in tools if tool.get("name") == choice.get("name")), None)
    return tools[0] if kind == "any" or (wish.calls_tool and kind == "auto") else None


def _thinks(params: Json) -> bool:
    thinking = params.get("thinking")
    return isinstance(thinking, dict) and thinking.get("type") in {"enabled", "adaptive"}


def _thinking_tokens(question: Question, wish: Wish) -> int:
    if wish.thinking_tokens or not _thinks(question.params):
        return wish.thinking_tokens
    return 16 + question.seed % 64


def _first_stop(text: str, params: Json) -> str | None:
    """The stop sequence that comes first in `text`."""
    given = params.get("stop_sequences")
    found = [each for each in given if each in text] if isinstance(given, list) else []
    return min(found, key=text.index) if found else None


def _fitting(text: str, room_tokens: int) -> str:
    """The longest beginning of `text` that has at most `room_tokens` tokens."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(text[:middle]) <= room_tokens else (low, middle - 1)
    return text[:low]


def _public_id(seed: int, prefix: str) -> str:
    return prefix + hashlib.sha256(seed.to_bytes(8, "big") + prefix.encode()).hexdigest()[:24]
