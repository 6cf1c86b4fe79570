"""Chat rows become Messages requests that mean the same."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from catalog.domain.records import Endpoint
from ground.errors import ProviderError
from routing.domain.parameters.lanes import Family
from routing.providers.anthropic.requests import ANSWER_TOOL, RequestMaker
from routing.providers.base import Fault
from tests.routing.providers.chat_rows import (
    AFTER_A_CALL,
    ASK,
    CALL,
    NEW,
    PNG,
    SCHEMA,
    WEATHER,
    answer_schema,
    raw,
    request,
    row,
)


def user(content: Any) -> list[Any]:
    return [{"role": "user", "content": content}]


def refusal(body: dict[str, msgspec.Raw], **options: Any) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        request(body, **options)
    return caught.value


def test_a_plain_row_is_its_messages_and_a_limit() -> None:
    assert request(row(max_tokens=12)) == {"max_tokens": 12, "messages": ASK}


@pytest.mark.parametrize(
    ("parameters", "model_limit_tokens", "limit_tokens"),
    [
        ({"max_tokens": 12}, 8_192, 12),
        ({"max_completion_tokens": 12}, None, 12),
        ({"max_tokens": 99_999}, 8_192, 8_192),
        ({"max_tokens": None}, 8_192, 8_192),
        ({}, 64_000, 64_000),
    ],
)
def test_the_limit_is_the_row_s_within_the_model_s(
    parameters: dict[str, Any], model_limit_tokens: int | None, limit_tokens: int
) -> None:
    assert request(row(**parameters), max_output_tokens=model_limit_tokens)["max_tokens"] == limit_tokens


def test_without_any_limit_a_row_is_refused() -> None:
    error = refusal(row(), max_output_tokens=None)
    assert (error.code, error.permanent, error.ambiguous) == (Fault.REFUSED, True, False)


def test_instructions_are_joined_at_the_top() -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": [{"type": "text", "text": "Be kind."}, {"type": "text", "text": " "}]},
        {"role": "system", "content": ""},
        *ASK,
        {"role": "system", "content": "Speak Spanish."},
    ]
    made = request(row(messages))
    assert made["system"] == "Be brief.\n\nBe kind.\n\nSpeak Spanish."
    assert made["messages"] == ASK


def test_neighbours_of_one_role_are_one_turn() -> None:
    made = request(row([*user("One."), *user([{"type": "text", "text": "Two."}]), *user("Three.")]))
    texts = [{"type": "text", "text": text} for text in ("One.", "Two.", "Three.")]
    assert made["messages"] == [{"role": "user", "content": texts}]


def test_calls_and_their_results_keep_their_ids_and_inputs() -> None:
    made = request(row(AFTER_A_CALL, tools=[WEATHER]))
    _, call, result = made["messages"]
    assert call["content"] == [{"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Bilbao"}}]
    assert result["role"] == "user"
    assert result["content"] == [
        {"type": "tool_result", "tool_use_id": "call_1", "content": "Rain."},
        {"type": "text", "text": "And tomorrow?"},
    ]


def test_an_id_in_another_alphabet_is_the_same_on_both_sides() -> None:
    turns = [
        *ASK,
        {"role": "assistant", "content": "Wait.", "tool_calls": [{**CALL, "id": "call:1/é"}]},
        {"role": "tool", "tool_call_id": "call:1/é", "content": "Rain."},
    ]
    _, call, result = request(row(turns))["messages"]
    assert call["content"][0] == {"type": "text", "text": "Wait."}
    assert call["content"][1]["id"] == result["content"][0]["tool_use_id"]
    assert call["content"][1]["id"].replace("_", "").isalnum()


def test_a_call_without_arguments_has_an_empty_input() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "now", "arguments": ""}}
    made = request(row([*ASK, {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "call_1"}]))
    assert made["messages"][1]["content"][0]["input"] == {}


def test_a_refusal_said_before_stays_in_the_conversation() -> None:
    turns = [*ASK, {"role": "assistant", "content": None, "refusal": "No."}, *user("Please.")]
    assert request(row(turns))["messages"][1]["content"] == [{"type": "text", "text": "No."}]


def test_images_come_as_data_or_as_links() -> None:
    parts = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "image_url", "image_url": {"url": "https://x.test/a.jpg"}},
    ]
    blocks = request(row(user(parts)))["messages"][0]["content"]
    assert blocks == [
        {"type": "text", "text": "What is this?"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        {"type": "image", "source": {"type": "url", "url": "https://x.test/a.jpg"}},
    ]


@pytest.mark.parametrize(("stop", "sequences"), [("END", ["END"]), (["a", "b"], ["a", "b"])])
def test_stops_are_sequences(stop: Any, sequences: list[str]) -> None:
    assert request(row(stop=stop))["stop_sequences"] == sequences


def test_sampling_keeps_its_text_and_defaults_are_left_out() -> None:
    body = {**row(), "temperature": msgspec.Raw(b"0.10"), "top_p": msgspec.Raw(b"1")}
    maker = RequestMaker(Family.ANTHROPIC)
    made = maker.make(
        endpoint=Endpoint.CHAT_COMPLETIONS, model_id="claude-3-5-haiku-20241022", body=body, max_output_tokens=9
    )
    assert b'"temperature":0.10' in msgspec.json.encode(made)
    assert "top_p" not in made


def test_the_user_is_told_to_anthropic_alone() -> None:
    assert request(row(user="u-1"))["metadata"] == {"user_id": "u-1"}
    assert "metadata" not in request(row(user="u-1"), family=Family.BEDROCK_CLAUDE)
    assert "metadata" not in request(row(user="u" * 257))


@pytest.mark.parametrize(
    ("parameters", "choice"),
    [
        ({}, None),
        ({"tool_choice": "auto"}, None),
        ({"tool_choice": "required"}, {"type": "any"}),
        ({"tool_choice": "none"}, {"type": "none"}),
        ({"tool_choice": {"type": "function", "function": {"name": "weather"}}}, {"type": "tool", "name": "weather"}),
        ({"parallel_tool_calls": False}, {"type": "auto", "disable_parallel_tool_use": True}),
        ({"parallel_tool_calls": False, "tool_choice": "none"}, {"type": "none"}),
    ],
)
def test_functions_are_tools_and_their_choice_is_kept(parameters: dict[str, Any], choice: Any) -> None:
    made = request(row(tools=[WEATHER], **parameters))
    function = WEATHER["function"]
    assert made["tools"] == [
        {"name": "weather", "input_schema": function["parameters"], "description": function["description"]}
    ]
    assert made.get("tool_choice") == choice


def test_a_strict_function_is_closed() -> None:
    tool = {**WEATHER, "function": {**WEATHER["function"], "strict": True}}
    (made,) = request(row(tools=[tool]), NEW)["tools"]
    assert (made["strict"], made["input_schema"]["additionalProperties"]) == (True, False)


def test_a_schema_is_the_format_where_the_model_can_be_held_to_it() -> None:
    made = request(row(response_format=answer_schema(), reasoning_effort="low"), NEW)
    assert made["output_config"] == {
        "effort": "low",
        "format": {"type": "json_schema", "schema": {**SCHEMA, "additionalProperties": False}},
    }
    assert "tools" not in made


def test_a_schema_is_a_tool_that_must_be_called_elsewhere() -> None:
    made = request(row(response_format=answer_schema()))
    assert made["tools"] == [{"name": ANSWER_TOOL, "input_schema": SCHEMA, "description": "A river."}]
    assert made["tool_choice"] == {"type": "tool", "name": ANSWER_TOOL, "disable_parallel_tool_use": True}


@pytest.mark.parametrize(
    "body",
    [
        row(n=2),
        row(something_new=1),
        row(tools=[{**WEATHER, "function": {"name": ANSWER_TOOL}}]),
        row([*ASK, {"role": "tool", "content": "No id."}]),
        row(user(7)),
        row(user=["u"]),
        row(response_format=[]),
        raw({"model": "m", "messages": "Hi."}),
    ],
    ids=["n", "unknown", "reserved", "no-id", "content", "user", "format", "messages"],
)
def test_what_claude_cannot_carry_is_refused_and_not_shown(body: dict[str, msgspec.Raw]) -> None:
    error = refusal(body)
    assert (error.code, error.permanent) == (Fault.REFUSED, True)
    assert "river" not in error.message


def test_other_endpoints_are_refused() -> None:
    with pytest.raises(ProviderError):
        RequestMaker(Family.ANTHROPIC).make(
            endpoint=Endpoint.RESPONSES, model_id=NEW, body=raw({"input": "Hi."}), max_output_tokens=9
        )
