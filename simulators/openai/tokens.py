"""What a request counts, by the independent tokenizer `bpe-openai` and OpenAI's published framing rules."""

import json
import math
from collections.abc import Mapping

from simulators.images import image_size
from simulators.tokenizer import count_text

Json = Mapping[str, object]

_OLD_VOCABULARY = ("gpt-4-", "gpt-3.5", "gpt-35", "text-embedding-", "davinci-002", "babbage-002")
_TOKENS_PER_MESSAGE = 4
_TOKENS_PER_REQUEST = 3
_TOKENS_PER_FUNCTION = {"o200k_base": 7, "cl100k_base": 10}
_TOKENS_AFTER_TOOLS = 12
_IMAGE_BASE_TOKENS = 85
_IMAGE_TILE_TOKENS = 170
_IMAGE_TILE_PIXELS = 512
_UNKNOWN_IMAGE = (1024, 1024)


def vocabulary_of(model: str) -> str:
    """The name of the model's vocabulary: o200k for gpt-4o and later, cl100k for what came before."""
    base = model.removeprefix("ft:")
    return "cl100k_base" if base == "gpt-4" or base.startswith(_OLD_VOCABULARY) else "o200k_base"


def chat_input_tokens(model: str, body: Json) -> int:
    """Input tokens of a chat completions request: text, framing, tools, response schema and images."""
    vocabulary = vocabulary_of(model)
    messages = _mappings(body.get("messages"))
    count = _TOKENS_PER_REQUEST
    for message in messages:
        count += _TOKENS_PER_MESSAGE + _content_tokens(vocabulary, message.get("content"))
        for call in _mappings(message.get("tool_calls")):
            function = _mapping(call.get("function"))
            count += count_text(vocabulary, _text(function.get("name")))
            count += count_text(vocabulary, _text(function.get("arguments")))
    response_format = _mapping(body.get("response_format"))
    if response_format.get("type") == "json_schema":
        count += count_text(vocabulary, _json_text(response_format.get("json_schema")))
    functions = [_mapping(tool.get("function")) for tool in _mappings(body.get("tools"))]
    return count + tool_tokens(vocabulary, functions)


def responses_input_tokens(model: str, body: Json) -> int:
    """Input tokens of a Responses request, framed like chat: instructions and each input item are messages."""
    vocabulary = vocabulary_of(model)
    given = body.get("input")
    count = _TOKENS_PER_REQUEST
    if isinstance(body.get("instructions"), str):
        count += _TOKENS_PER_MESSAGE + count_text(vocabulary, _text(body.get("instructions")))
    if isinstance(given, str):
        count += _TOKENS_PER_MESSAGE + count_text(vocabulary, given)
    for item in _mappings(given):
        count += _TOKENS_PER_MESSAGE + _content_tokens(vocabulary, item.get("content"))
        for name in ("name", "arguments", "output"):
            count += count_text(vocabulary, _text(item.get(name)))
    text_format = _mapping(_mapping(body.get("text")).get("format"))
    if text_format.get("type") == "json_schema":
        count += count_text(vocabulary, _json_text(text_format.get("schema")))
    return count + tool_tokens(vocabulary, _mappings(body.get("tools")))


def plain_input_tokens(model: str, given: object) -> int:
    """Input tokens of an embedding input or a prompt: texts, or tokens already; no framing."""
    if isinstance(given, str):
        return count_text(vocabulary_of(model), given)
    if isinstance(given, int):
        return 1
    return sum(plain_input_tokens(model, each) for each in given) if isinstance(given, list) else 0


def tool_tokens(vocabulary: str, functions: list[Json]) -> int:
    """Tokens of function tools by the published counting rule."""
    if not functions:
        return 0
    count = _TOKENS_AFTER_TOOLS
    for function in functions:
        described = f"{_text(function.get('name'))}:{_text(function.get('description')).rstrip('.')}"
        count += _TOKENS_PER_FUNCTION[vocabulary] + count_text(vocabulary, described)
        properties = _mapping(_mapping(function.get("parameters")).get("properties"))
        count += 3 if properties else 0
        for key, declared in properties.items():
            schema = _mapping(declared)
            count += 3
            choices = schema.get("enum")
            if isinstance(choices, list):
                count += 3 * len(choices) - 3 + sum(count_text(vocabulary, str(each)) for each in choices)
            described = f"{key}:{schema.get('type', '')}:{_text(schema.get('description')).rstrip('.')}"
            count += count_text(vocabulary, described)
    return count


def image_tokens(url: str, detail: str) -> int:
    """Tokens of an image by the tile rule: 85, and 170 for each 512-pixel tile unless the detail is low.

    The longer side is brought under 2048 pixels, then the shorter to 768. An image behind a link counts as 1024 x 1024.
    """
    if detail == "low":
        return _IMAGE_BASE_TOKENS
    width, height = image_size(url) or _UNKNOWN_IMAGE
    scale = min(1.0, 2048 / max(width, height))
    scale = min(scale, 768 / min(width, height))
    tiles = math.ceil(width * scale / _IMAGE_TILE_PIXELS) * math.ceil(height * scale / _IMAGE_TILE_PIXELS)
    return _IMAGE_BASE_TOKENS + _IMAGE_TILE_TOKENS * tiles


def user_text(body: Json) -> str:
    """Everything the user says in a request, whatever its endpoint."""
    said: list[str] = []
    for name in ("messages", "input", "prompt"):
        given = body.get(name)
        said += [given] if isinstance(given, str) else []
        for item in given if isinstance(given, list) else ():
            said += [item] if isinstance(item, str) else []
            if isinstance(item, dict) and item.get("role") == "user":
                content = item.get("content")
                said += [content] if isinstance(content, str) else []
                said += [_text(part.get("text")) for part in _mappings(content)]
    return "\n".join(said)


def _content_tokens(vocabulary: str, content: object) -> int:
    if isinstance(content, str):
        return count_text(vocabulary, content)
    count = 0
    for part in _mappings(content):
        kind = part.get("type")
        if kind == "image_url":
            image = _mapping(part.get("image_url"))
            count += image_tokens(_text(image.get("url")), _text(image.get("detail")))
        elif kind == "input_image":
            count += image_tokens(_text(part.get("image_url")), _text(part.get("detail")))
        else:
            count += count_text(vocabulary, _text(part.get("text")))
    return count


def _mappings(value: object) -> list[Json]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _mapping(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _json_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
