"""What of a checked body counts as text, as images and as tools."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from catalog.domain.records import Endpoint
from routing.domain.estimate.images import ImagePart, data_uri_size_px
from routing.domain.estimate.tokens import RowExtras
from routing.domain.jsonl.contents import IMAGE_PARTS
from routing.domain.jsonl.faults import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedBody:
    """The JSON string literals to weigh, the messages that get framing, and what else costs tokens, if anything."""

    literals: tuple[bytes, ...]
    message_count: int
    extras: RowExtras | None


def counted_body(body: Mapping[str, Any], endpoint: Endpoint) -> CountedBody:
    """Collect what the estimator counts in a body that passed the checks."""
    if endpoint is Endpoint.EMBEDDINGS:
        return _embedding(body["input"])
    texts: list[str] = []
    images: list[ImagePart] = []
    name = "messages" if endpoint is Endpoint.CHAT_COMPLETIONS else "input"
    turns = body[name] if isinstance(body[name], list) else [{"content": body[name]}]
    for turn in turns:
        _collect_turn(turn, texts, images)
    message_count = len(turns)
    if isinstance(body.get("instructions"), str):
        texts.append(body["instructions"])
        message_count += 1
    held = tuple(schemas(body))
    texts.extend(held)
    tools = tuple(body.get("tools") or ()) + tuple(body.get("functions") or ())
    key = orjson.dumps(tools) if tools else b""
    extras = None
    if tools or images or held:
        extras = RowExtras(tools=tools, tools_key=key, images=tuple(images), has_schema=bool(held))
    literals = tuple(orjson.dumps(text) for text in texts)
    return CountedBody(literals=literals, message_count=message_count, extras=extras)


def _embedding(value: Json) -> CountedBody:
    inputs = [value] if isinstance(value, str) else value
    if isinstance(inputs[0], str):
        return CountedBody(literals=tuple(orjson.dumps(text) for text in inputs), message_count=0, extras=None)
    listed = len(inputs) if isinstance(inputs[0], int) else sum(map(len, inputs))
    return CountedBody(literals=(), message_count=0, extras=RowExtras(listed_tokens=listed))


def _collect_turn(turn: Mapping[str, Any], texts: list[str], images: list[ImagePart]) -> None:
    for name in ("content", "output"):
        content = turn.get(name)
        if isinstance(content, str):
            texts.append(content)
        elif isinstance(content, list):
            for part in content:
                _collect_part(part, texts, images)
    texts.extend(value for name in ("refusal", "name", "arguments") if isinstance(value := turn.get(name), str))
    calls = [call.get("function", call.get("custom")) for call in turn.get("tool_calls") or ()]
    if isinstance(turn.get("function_call"), dict):
        calls.append(turn["function_call"])
    for call in calls:
        texts.extend(value for name in ("name", "arguments", "input") if isinstance(value := call.get(name), str))


def _collect_part(part: Mapping[str, Any], texts: list[str], images: list[ImagePart]) -> None:
    if part["type"] not in IMAGE_PARTS:
        texts.append(part.get("text", part.get("refusal", "")))
        return
    holder = part if part["type"] == "input_image" else part["image_url"]
    url = holder["image_url"] if part["type"] == "input_image" else holder["url"]
    images.append(image_part(url, holder.get("detail")))


def image_part(url: str, detail: str | None) -> ImagePart:
    """Give an image as the estimator sees it; only a data URI tells its size, and nothing is ever fetched."""
    width_px, height_px = data_uri_size_px(url) if url.startswith("data:") else (0, 0)
    if not (width_px and height_px):
        width_px = height_px = 0
    return ImagePart(is_low_detail=detail == "low", width_px=width_px, height_px=height_px)


def schemas(body: Mapping[str, Any]) -> Iterator[str]:
    """Give the JSON schema of the answer, chat or responses shape, as the JSON it is."""
    wanted = body.get("response_format")
    if isinstance(wanted, dict) and wanted.get("type") == "json_schema":
        yield json.dumps(wanted.get("json_schema"), ensure_ascii=False)
    shape = body.get("text")
    if (
        isinstance(shape, dict)
        and isinstance(shape.get("format"), dict)
        and shape["format"].get("type") == "json_schema"
    ):
        yield json.dumps(shape["format"], ensure_ascii=False)
