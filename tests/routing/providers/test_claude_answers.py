"""Claude's messages become chat completions; each token is counted once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.providers.anthropic.requests import ANSWER_TOOL
from routing.providers.anthropic.usage import chat_usage, read_usage
from routing.providers.base import Outcome, TokenUsage, UsageProblem
from tests.routing.providers.claude_by_hand import AT_SECONDS, USAGE, answered, body_of, read_row

TOOL_USE = {"type": "tool_use", "id": "toolu_01", "name": "weather", "input": {"city": "Bilbao"}}


def used(**members: Any) -> tuple[TokenUsage, UsageProblem | None]:
    read = read_usage(msgspec.Raw(msgspec.json.encode({**USAGE, **members})))
    return read.usage, read.problem


def choice(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = body_of(read_row(answered(**changes)))["choices"][0]
    return found


def test_a_message_is_a_completion_with_our_id() -> None:
    result = read_row(answered())
    assert (result.outcome, result.status_code, result.code, result.healable) == (Outcome.SUCCEEDED, 200, None, False)
    assert body_of(result) == {
        "id": "chatcmpl-ours-7",
        "object": "chat.completion",
        "created": AT_SECONDS,
        "model": "claude-haiku-4-5-20251001",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "The Ebro.", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 14,
            "completion_tokens": 8,
            "total_tokens": 22,
            "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0},
        },
    }


@pytest.mark.parametrize(
    ("stop_reason", "finish_reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
        ("tool_use", "stop"),
        ("of_tomorrow", "stop"),
        (None, "stop"),
    ],
)
def test_every_reason_to_stop_has_its_finish(stop_reason: str | None, finish_reason: str) -> None:
    assert choice(stop_reason=stop_reason)["finish_reason"] == finish_reason


def test_calls_have_ids_of_ours_and_their_input_as_text() -> None:
    found = choice(content=[TOOL_USE, {**TOOL_USE, "id": "toolu_02"}], stop_reason="tool_use")
    assert found["finish_reason"] == "tool_calls"
    assert found["message"]["content"] is None
    assert [call["id"] for call in found["message"]["tool_calls"]] == ["call_ours-7_0", "call_ours-7_1"]
    assert found["message"]["tool_calls"][0]["function"] == {"name": "weather", "arguments": '{"city":"Bilbao"}'}


def test_the_answer_s_tool_is_the_answer_s_text() -> None:
    found = choice(content=[{**TOOL_USE, "name": ANSWER_TOOL}], stop_reason="tool_use")
    assert found["message"] == {"role": "assistant", "content": '{"city":"Bilbao"}', "refusal": None}
    assert found["finish_reason"] == "stop"


def test_thinking_stays_out_and_texts_are_joined() -> None:
    blocks = [
        {"type": "thinking", "thinking": "Hm."},
        {"type": "text", "text": "The "},
        {"type": "text", "text": "Ebro."},
    ]
    assert choice(content=blocks)["message"]["content"] == "The Ebro."


def test_an_empty_answer_is_an_empty_text() -> None:
    assert choice(content=[])["message"]["content"] == ""


def test_cached_and_written_tokens_stand_beside_the_input() -> None:
    written = {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 10}
    usage, problem = used(cache_read_input_tokens=100, cache_creation_input_tokens=40, cache_creation=written)
    assert problem is None
    assert usage == TokenUsage(
        input_tokens=14,
        cached_input_tokens=100,
        cache_write_5m_tokens=30,
        cache_write_1h_tokens=10,
        output_tokens=8,
    )
    assert chat_usage(usage)["prompt_tokens"] == 154


def test_what_was_written_without_a_lifetime_lives_five_minutes() -> None:
    usage, problem = used(cache_creation_input_tokens=40)
    assert (usage.cache_write_5m_tokens, usage.cache_write_1h_tokens, problem) == (40, 0, None)


def test_a_split_without_a_total_is_taken() -> None:
    usage, problem = used(cache_creation={"ephemeral_1h_input_tokens": 5})
    assert (usage.cache_write_5m_tokens, usage.cache_write_1h_tokens, problem) == (0, 5, None)


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"cache_creation_input_tokens": 3, "cache_creation": {"ephemeral_1h_input_tokens": 5}}, "inconsistent"),
        ({"output_tokens_details": {"thinking_tokens": 9}}, "inconsistent"),
        ({"cache_read_input_tokens": "many"}, "malformed"),
        ({"cache_read_input_tokens": -1}, "malformed"),
        ({"input_tokens": None}, "malformed"),
        ({"output_tokens": 1.5}, "malformed"),
    ],
    ids=str,
)
def test_numbers_that_do_not_fit_are_told(members: dict[str, Any], problem: str) -> None:
    usage, found = used(**members)
    assert found is UsageProblem(problem)
    assert usage.reasoning_tokens <= usage.output_tokens


@pytest.mark.parametrize(("usage", "problem"), [(None, "absent"), (5, "malformed")])
def test_a_success_without_usage_is_told(usage: object, problem: str) -> None:
    result = read_row(answered(usage=usage))
    assert (result.outcome, result.usage, result.usage_problem) == (Outcome.SUCCEEDED, TokenUsage(), problem)


COUNT = st.integers(0, 10**9)


@given(COUNT, COUNT, COUNT, COUNT, COUNT)
def test_the_chat_usage_holds_every_token_once(
    input_tokens: int, cached: int, written_5m: int, written_1h: int, output_tokens: int
) -> None:
    usage, problem = used(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cache_read_input_tokens=cached,
        cache_creation_input_tokens=written_5m + written_1h,
        cache_creation={"ephemeral_5m_input_tokens": written_5m, "ephemeral_1h_input_tokens": written_1h},
    )
    assert problem is None
    assert chat_usage(usage)["total_tokens"] == input_tokens + cached + written_5m + written_1h + output_tokens
