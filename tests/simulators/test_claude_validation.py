"""What the stand-in Claude refuses of a request, and what it takes."""

from base64 import b64encode
from typing import Any

import pytest

from simulators.anthropic.versions import RULES
from simulators.claude.parameters import require_valid
from simulators.claude.refusals import RefusedError
from simulators.claude.settings import ModelSettings
from tests.simulators.claude import MODEL, ask

PNG = b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 16).decode()
WEATHER = {"name": "weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}
CLOSED = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Lugo"}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Rain"}


def judge(params: dict[str, Any], version: str = "2023-06-01", **settings: Any) -> str:
    """The refusal, or an empty text."""
    try:
        require_valid(params, str(params.get("model")), RULES[version], ModelSettings(**settings))
    except RefusedError as refused:
        return refused.message
    return ""


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def image(data: str = PNG, **source: Any) -> list[dict[str, Any]]:
    return [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data, **source}}]


def schema_format(schema: Any) -> dict[str, Any]:
    return {"format": {"type": "json_schema", "schema": schema}}


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"max_tokens": 1},
        {"messages": [user("a"), user("b"), assistant("c"), assistant("d"), user("e")]},
        {"messages": [assistant("Hello"), user("Hi")]},
        {"messages": [user("a"), assistant("The answer is")]},
        {"messages": [user("a"), assistant("")]},
        {"messages": [user("a"), assistant([CALL])]},
        {"messages": [user(image())]},
        {"messages": [user([{"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}])]},
        {"system": "Be brief."},
        {"system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]},
        {"cache_control": {"type": "ephemeral", "ttl": "1h"}},
        {"temperature": 0.3, "top_k": 5},
        {"top_p": 1},
        {"stop_sequences": ["END", "\n\nHuman:"]},
        {"metadata": {"user_id": "u-1"}},
        {"metadata": {}},
        {"service_tier": "auto"},
        {"stream": False},
        {"tools": [WEATHER]},
        {"tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 3}]},
        {"tools": [WEATHER], "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        {"tools": [WEATHER], "tool_choice": {"type": "tool", "name": "weather"}},
        {"tools": [WEATHER], "messages": [user("a"), assistant([CALL]), user([RESULT])]},
        {"tools": [WEATHER], "messages": [user("a"), assistant("b"), assistant([CALL]), user([RESULT]), user("c")]},
        {"thinking": {"type": "enabled", "budget_tokens": 1_024}, "max_tokens": 1_025},
        {"thinking": {"type": "adaptive"}, "temperature": 1},
        {"output_config": {"effort": "low"}},
        {"output_config": schema_format(CLOSED)},
        {"output_config": schema_format({"$ref": "#/$defs/a", "$defs": {"a": CLOSED}})},
    ],
)
def test_a_good_request_is_taken(params: dict[str, Any]) -> None:
    assert judge(ask() | params) == ""


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"max_tokens": 0}, "max_tokens: Input should be greater than or equal to 1"),
        ({"max_tokens": None}, "max_tokens: Input should be a valid integer"),
        ({"max_tokens": True}, "max_tokens: Input should be a valid integer"),
        ({"n": 2}, "n: Extra inputs are not permitted"),
        ({"response_format": {}}, "response_format: Extra inputs are not permitted"),
        ({"messages": "Hi"}, "messages: Input should be a valid list"),
        ({"messages": []}, "messages: at least one message is required"),
        ({"messages": ["Hi"]}, "messages.0: Input should be a valid dictionary"),
        ({"messages": [{"role": "system", "content": "a"}]}, 'messages: Unexpected role "system"'),
        ({"messages": [{"role": "tool", "content": "a"}]}, "messages.0.role: Input should be 'user' or 'assistant'"),
        ({"messages": [{"role": "user"}]}, "messages.0.content: Field required"),
        ({"messages": [{"content": "a"}]}, "messages.0.role: Field required"),
        ({"messages": [user(None)]}, "messages.0.content: Input should be a valid string or list"),
        ({"messages": [user("")]}, "messages.0: all messages must have non-empty content"),
        ({"messages": [user([])]}, "messages.0: all messages must have non-empty content"),
        ({"messages": [{**user("a"), "name": "Ann"}]}, "messages.0.name: Extra inputs are not permitted"),
        ({"messages": [user([{"type": "text", "text": " "}])]}, "messages: text content blocks must contain"),
        ({"messages": [user([{"type": "text"}])]}, "messages.0.content.0.text.text: Field required"),
        ({"messages": [user([{"type": "image_url"}])]}, "messages.0.content.0: Input tag 'image_url' found"),
        ({"messages": [user("a"), assistant(image())]}, "messages.1.content.0: Input tag 'image' found"),
        ({"messages": [user("a"), assistant("b ")]}, "messages: final assistant content cannot end with trailing"),
        ({"messages": [user("a"), assistant([CALL]), user("b")]}, "messages.2: `tool_use` ids were found without"),
        ({"messages": [user("a"), user([RESULT])]}, "messages.0: unexpected `tool_use_id` found"),
        (
            {"messages": [user([{**RESULT, "tool_use_id": "a b"}])]},
            "messages.0.content.0.tool_result.tool_use_id: String",
        ),
        ({"messages": [user(image("!!"))]}, "messages.0.content.0.image.source.base64.data: invalid base64"),
        ({"messages": [user(image(b64encode(b"plain").decode()))]}, "Could not process image"),
        ({"messages": [user(image(media_type="image/jpeg"))]}, "messages.0.content.0.image.source.base64.data: Image"),
        ({"messages": [user(image(media_type="image/bmp"))]}, "messages.0.content.0.image.source.base64.media_type: "),
        (
            {"messages": [user(image(b64encode(b"\0" * 5_242_881).decode()))]},
            "messages.0.content.0.image.source.base64.data: image exceeds",
        ),
        (
            {"messages": [user([{"type": "image", "source": {"type": "url", "url": "data:x"}}])]},
            "messages.0.content.0.image.source.url.url: Only HTTPS",
        ),
        ({"system": 7}, "system: Input should be a valid list"),
        ({"system": [{"type": "image"}]}, "system.0: Input tag 'image' found"),
        ({"cache_control": {"type": "ephemeral", "ttl": "2h"}}, "cache_control.ttl: Input should be '5m' or '1h'"),
        ({"temperature": 1.5}, "temperature: range: 0..1"),
        ({"top_p": -0.1}, "top_p: range: 0..1"),
        ({"top_k": -1}, "top_k: Input should be greater than or equal to 0"),
        ({"temperature": "hot"}, "temperature: Input should be a valid number"),
        ({"temperature": 1, "top_p": 1}, "`temperature` and `top_p` cannot both be specified"),
        ({"stop_sequences": "END"}, "stop_sequences: Input should be a valid list"),
        ({"stop_sequences": [1]}, "stop_sequences.0: Input should be a valid string"),
        ({"stop_sequences": ["\n"]}, "stop_sequences: each stop sequence must contain non-whitespace"),
        ({"metadata": {"job": "a"}}, "metadata.job: Extra inputs are not permitted"),
        ({"metadata": {"user_id": "u" * 257}}, "metadata.user_id: String should have at most 256 characters"),
        ({"stream": True}, "stream: streaming is not supported in a batch"),
        ({"speed": "fast"}, "speed: fast mode is not supported in a batch"),
        ({"service_tier": "flex"}, "service_tier: Input should be 'auto' or 'standard_only'"),
        ({"tools": ["weather"]}, "tools.0: Input should be a valid dictionary"),
        ({"tools": [{"type": "function", "function": WEATHER}]}, "tools.0.name: Field required"),
        ({"tools": [{"name": "a b", "input_schema": {}}]}, "tools.0.custom.name: String should match pattern"),
        ({"tools": [{"name": "a"}]}, "tools.0.custom.input_schema: Field required"),
        ({"tools": [{"name": "a", "input_schema": {}}]}, "tools.0.custom.input_schema.type: Input should be 'object'"),
        ({"tools": [{**WEATHER, "parameters": {}}]}, "tools.0.custom.parameters: Extra inputs are not permitted"),
        ({"tools": [{**WEATHER, "strict": True}]}, "tools.0.custom.input_schema: For 'object' type"),
        ({"tools": [WEATHER, WEATHER]}, "tools: Tool names must be unique."),
        ({"tool_choice": {"type": "auto"}}, "tool_choice: tool_choice may only be specified while providing tools."),
        ({"tools": [WEATHER], "tool_choice": "auto"}, "tool_choice: Input should be a valid dictionary"),
        ({"tools": [WEATHER], "tool_choice": {"type": "required"}}, "tool_choice.type: Input should be 'auto', 'any'"),
        ({"tools": [WEATHER], "tool_choice": {"type": "tool"}}, "tool_choice.tool.name: Field required"),
        ({"tools": [WEATHER], "tool_choice": {"type": "tool", "name": "rain"}}, "Tool 'rain' not found"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1_023}}, "thinking.enabled.budget_tokens: Input should be"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1_024}}, "`max_tokens` must be greater than"),
        ({"thinking": {"type": "adaptive"}, "temperature": 0.5}, "`temperature` may only be set to 1"),
        (
            {"thinking": {"type": "adaptive"}, "tools": [WEATHER], "tool_choice": {"type": "any"}},
            "Thinking may not be enabled when tool_choice forces tool use.",
        ),
        ({"output_config": {"effort": "none"}}, "output_config.effort: Input should be 'low', 'medium'"),
        (
            {"output_config": {"format": {"type": "json_object"}}},
            "output_config.format.type: Input should be 'json_schema'",
        ),
        ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format.schema: Field required"),
        ({"output_config": schema_format({"type": "object"})}, "output_config.format.schema: For 'object' type"),
        (
            {"output_config": schema_format({"type": "integer", "minimum": 1})},
            "output_config.format.schema: For 'integer'",
        ),
        (
            {"output_config": schema_format({"type": "array", "minItems": 2})},
            "output_config.format.schema: For 'array'",
        ),
        (
            {"output_config": schema_format({"anyOf": [{"type": "string", "maxLength": 2}]})},
            "output_config.format.schema: For 'string'",
        ),
        ({"output_config": schema_format({"$ref": "#/$defs/none"})}, "output_config.format.schema: Unresolvable"),
        ({"output_config": schema_format({"$ref": "https://example.com"})}, "output_config.format.schema: External"),
        (
            {
                "output_config": schema_format(
                    {"$ref": "#/$defs/a", "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}}}
                )
            },
            "output_config.format.schema: Recursive schemas are not supported",
        ),
    ],
)
def test_a_bad_request_is_refused_by_its_first_mistake(params: dict[str, Any], message: str) -> None:
    assert judge(ask() | params).startswith(message)


@pytest.mark.parametrize("name", ["model", "max_tokens", "messages"])
def test_what_is_required_must_be_there(name: str) -> None:
    asked = ask()
    del asked[name]
    assert judge(asked) == f"{name}: Field required"


def test_a_request_has_at_most_four_cache_breakpoints() -> None:
    block = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
    assert judge(ask([block] * 4)) == ""
    assert judge(ask([block] * 5)).startswith("A maximum of 4 blocks with cache_control may be provided. Found 5.")


def test_models_differ_in_what_they_take() -> None:
    both = ask(temperature=1, top_p=1)
    assert judge({**both, "model": "claude-3-5-haiku-20241022"}) == ""
    assert judge(ask(top_k=1), no_sampling_models=("claude-haiku-*",)) == "`top_k` is not supported for this model."
    prefilled = ask(messages=[user("a"), assistant("b")])
    assert judge(prefilled, no_prefill_models=("*",)).startswith(
        "This model does not support assistant message prefill"
    )
    assert judge(ask(max_tokens=9), max_output_tokens={MODEL: 8}).startswith("max_tokens: 9 > 8")
    assert judge(ask(), unknown_models=(MODEL,)) == f"model: {MODEL}"


@pytest.mark.parametrize("name", ["temperature", "top_p", "top_k"])
def test_the_newer_version_has_no_sampling_parameters(name: str) -> None:
    assert judge(ask(**{name: 1}), "2026-10-21") == f"{name}: Extra inputs are not permitted"
