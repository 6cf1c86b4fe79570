"""Chat rows as customers write them, and what an adapter of Claude makes of one."""

from __future__ import annotations

from typing import Any

import msgspec

from catalog.domain.records import Endpoint
from routing.domain.parameters.lanes import Family
from routing.providers.anthropic.requests import RequestMaker

OLD = "claude-3-5-haiku-20241022"
NEW = "claude-opus-5"
ASK: list[Any] = [{"role": "user", "content": "Name a river in Spain."}]
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="  # one pixel
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"river": {"type": "string"}}, "required": ["river"]}
WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tell the weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
CALL: dict[str, Any] = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city": "Bilbao"}'},
}
AFTER_A_CALL: list[Any] = [
    *ASK,
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": "Rain."},
    {"role": "user", "content": "And tomorrow?"},
]


def raw(body: dict[str, Any]) -> dict[str, msgspec.Raw]:
    return msgspec.json.decode(msgspec.json.encode(body), type=dict[str, msgspec.Raw])


def row(messages: list[Any] | None = None, **parameters: Any) -> dict[str, msgspec.Raw]:
    return raw({"model": "a-name", "messages": messages or ASK, **parameters})


def answer_schema(schema: dict[str, Any] = SCHEMA) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "description": "A river.", "schema": schema}}


def request(
    body: dict[str, msgspec.Raw],
    model_id: str = OLD,
    family: Family = Family.ANTHROPIC,
    max_output_tokens: int | None = 8_192,
) -> dict[str, Any]:
    """The Messages request as the provider reads it."""
    made = RequestMaker(family).make(
        endpoint=Endpoint.CHAT_COMPLETIONS, model_id=model_id, body=body, max_output_tokens=max_output_tokens
    )
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(made))
    return decoded
