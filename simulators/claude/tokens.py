"""What a request counts: text by an independent vocabulary, framing, images and tools by what is published.

Claude's vocabulary is not public: cl100k stands in for it. Framing is 3 a request and 4 a message. Images count width x
height / 750 after the long side is brought to 1,568 pixels, at most 1,600; tools add 346 hidden tokens, or 313 if one
must be called.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from simulators.claude.contents import blocks_of
from simulators.images import image_size
from simulators.tokenizer import count_text

Json = Mapping[str, object]

VOCABULARY = "cl100k_base"
_TOKENS_PER_REQUEST = 3
_TOKENS_PER_MESSAGE = 4
_TOOLS_TOKENS = 346
_FORCED_TOOLS_TOKENS = 313
_DOCUMENT_TOKENS = 1_500
_MAX_IMAGE_TOKENS = 1_600
_MAX_IMAGE_SIDE_PIXELS = 1_568
_PIXELS_PER_TOKEN = 750


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A piece of the prompt in the order the model reads it: tools, system, messages, answer schema."""

    token_count: int
    content: object
    cached_for: str | None


def count(text: str) -> int:
    """How many tokens `text` has."""
    return count_text(VOCABULARY, text)


def input_tokens(params: Json) -> int:
    """Input tokens of a request, cached or not."""
    return _TOKENS_PER_REQUEST + sum(segment.token_count for segment in segments(params))


def segments(params: Json) -> Iterator[Segment]:
    """The pieces of the prompt with their tokens; `cached_for` is the lifetime asked for at a cache breakpoint."""
    hidden_tokens = _FORCED_TOOLS_TOKENS if _is_forced(params) else _TOOLS_TOKENS
    for tool in _mappings(params.get("tools")):
        described = {name: tool[name] for name in ("name", "description", "input_schema") if name in tool}
        yield _segment(tool, hidden_tokens + count(_json_text(described)))
        hidden_tokens = 0
    system = params.get("system")
    if isinstance(system, str):
        yield Segment(token_count=_TOKENS_PER_MESSAGE + count(system), content=system, cached_for=None)
    framing_tokens = _TOKENS_PER_MESSAGE
    for block in _mappings(system):
        yield _segment(block, framing_tokens + block_tokens(block))
        framing_tokens = 0
    for message in _mappings(params.get("messages")):
        framing_tokens = _TOKENS_PER_MESSAGE
        for block in blocks_of(message):
            yield _segment(block, framing_tokens + block_tokens(block))
            framing_tokens = 0
    answer_format = _mapping(_mapping(params.get("output_config")).get("format"))
    if answer_format:
        schema = answer_format.get("schema")
        yield Segment(token_count=count(_json_text(schema)), content=schema, cached_for=None)


def block_tokens(block: Json) -> int:
    """Tokens of one content block."""
    counter = _COUNTERS.get(_text(block.get("type")))
    return count(_json_text(block)) if counter is None else counter(block)


def image_tokens(source: Json) -> int:
    """Tokens of an image by its area; one whose size is not known counts as the largest."""
    size = image_size(f"data:{source.get('media_type')};base64,{_text(source.get('data'))}")
    if size is None:
        return _MAX_IMAGE_TOKENS
    width, height = size
    scale = min(1.0, _MAX_IMAGE_SIDE_PIXELS / max(width, height))
    return min(_MAX_IMAGE_TOKENS, math.ceil(width * scale * height * scale / _PIXELS_PER_TOKEN))


def user_text(params: Json) -> str:
    """Everything the user says in a request."""
    said: list[str] = []
    for message in _mappings(params.get("messages")):
        if message.get("role") == "user":
            said += [_text(block.get("text")) for block in blocks_of(message)]
    return "\n".join(said)


def _segment(block: Json, token_count: int) -> Segment:
    control = block.get("cache_control")
    content = {name: value for name, value in block.items() if name != "cache_control"}
    cached_for = str(control.get("ttl", "5m")) if isinstance(control, dict) else None
    return Segment(token_count=token_count, content=content, cached_for=cached_for)


def _is_forced(params: Json) -> bool:
    return _mapping(params.get("tool_choice")).get("type") in {"any", "tool"}


def _mappings(value: object) -> list[Json]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _mapping(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _json_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _document_tokens(block: Json) -> int:
    source = _mapping(block.get("source"))
    return count(_text(source.get("data"))) if source.get("type") == "text" else _DOCUMENT_TOKENS


def _call_tokens(block: Json) -> int:
    return count(_text(block.get("name"))) + count(_json_text(block.get("input")))


def _result_tokens(block: Json) -> int:
    content = block.get("content")
    return count(content) if isinstance(content, str) else sum(map(block_tokens, _mappings(content)))


_COUNTERS: Mapping[str, Callable[[Json], int]] = {
    "text": lambda block: count(_text(block.get("text"))),
    "image": lambda block: image_tokens(_mapping(block.get("source"))),
    "document": _document_tokens,
    "tool_use": _call_tokens,
    "tool_result": _result_tokens,
    "thinking": lambda block: count(_text(block.get("thinking"))),
}
