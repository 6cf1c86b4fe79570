"""What the stand-in Claude counts and says, by values worked out by hand."""

import json
import struct
from base64 import b64encode
from typing import Any

import pytest

from simulators.bedrock.wire import served_model
from simulators.claude import tokens
from simulators.claude.answering import Answer, Door, Question, Wish, answer
from simulators.claude.caching import CacheUse, cache_use
from tests.simulators.claude import MODEL, ask

DOOR = Door(message_prefix="msg_", tool_prefix="toolu_", usage_extra={}, served_model=str)
CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = {"name": "weather", "description": "Tells the weather.", "input_schema": CITY}


def say(params: dict[str, Any], **wish: Any) -> Answer:
    question = Question(
        params=params, model=MODEL, served_model=MODEL, window_tokens=None, max_tokens=params["max_tokens"]
    )
    return answer(question, Wish(**wish), CacheUse(), DOOR)


def message(params: dict[str, Any], **wish: Any) -> Any:
    return say(params, **wish).message


def count(*contents: Any, **params: Any) -> int:
    messages = [{"role": "user", "content": content} for content in contents]
    return tokens.input_tokens({"messages": messages, **params})


def test_framing_is_four_a_message_and_three_a_request() -> None:
    assert count() == 3
    assert count("Hello world") == 3 + 4 + 2
    assert count("Hello world", "Hello world", system="Hello world") == 3 + 3 * (4 + 2)
    blocks = [{"type": "text", "text": "Hello world"}, {"type": "text", "text": "Hello world"}]
    assert count(blocks, system=blocks) == 3 + 2 * (4 + 4)


def test_text_counts_in_cl100k_and_not_in_the_newer_vocabulary() -> None:
    assert count("नमस्ते") == 3 + 4 + 6


def test_tools_add_their_text_and_the_published_hidden_prompt() -> None:
    assert tokens.count(json.dumps(WEATHER)) == 38
    assert count("Hello world", tools=[WEATHER]) == 9 + 346 + 38
    assert count("Hello world", tools=[WEATHER, WEATHER]) == 9 + 346 + 2 * 38
    assert count("Hello world", tools=[WEATHER], tool_choice={"type": "any"}) == 9 + 313 + 38


def test_tool_calls_and_results_count() -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Lugo"}}
    assert tokens.block_tokens(call) == 1 + tokens.count('{"city": "Lugo"}') == 8
    assert tokens.block_tokens({"type": "tool_result", "content": "Hello world"}) == 2
    parts = [{"type": "text", "text": "Hello world"}, {"type": "text", "text": "Hello world"}]
    assert tokens.block_tokens({"type": "tool_result", "content": parts}) == 4


def test_other_blocks_count() -> None:
    plain = {"type": "text", "media_type": "text/plain", "data": "Hello world"}
    assert tokens.block_tokens({"type": "document", "source": plain}) == 2
    assert tokens.block_tokens({"type": "document", "source": {"type": "base64", "data": "AAAA"}}) == 1_500
    assert tokens.block_tokens({"type": "thinking", "thinking": "Hello world"}) == 2
    assert tokens.block_tokens({"type": "odd"}) == tokens.count('{"type": "odd"}')


@pytest.mark.parametrize(
    ("width", "height", "expected"),
    [(200, 200, 54), (1_000, 1_000, 1_334), (1_092, 1_092, 1_590), (3_000, 3_000, 1_600), (3_136, 784, 820), (1, 1, 1)],
)
def test_images_count_by_their_area(width: int, height: int, expected: int) -> None:
    header = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", width, height)
    source = {"type": "base64", "media_type": "image/png", "data": b64encode(header).decode()}
    assert tokens.block_tokens({"type": "image", "source": source}) == expected


def test_an_image_of_unknown_size_counts_as_the_largest() -> None:
    source = {"type": "url", "url": "https://example.com/a.png"}
    assert tokens.block_tokens({"type": "image", "source": source}) == 1_600


def test_a_schema_counts_as_its_json() -> None:
    config = {"format": {"type": "json_schema", "schema": CITY}}
    assert count("Hello world", output_config=config) == 9 + tokens.count(json.dumps(CITY))


def test_usage_counts_the_text_that_is_there() -> None:
    for natural_tokens in (1, 17, 100):
        said = message(ask(), natural_tokens=natural_tokens)
        text = said["content"][0]["text"]
        assert said["usage"]["output_tokens"] == tokens.count(text) == natural_tokens
        assert said["stop_reason"] == "end_turn"


def test_an_answer_ends_at_its_limit() -> None:
    said = message(ask(max_tokens=9), natural_tokens=10)
    assert (said["stop_reason"], said["usage"]["output_tokens"]) == ("max_tokens", 9)


def test_an_answer_ends_before_a_stop_sequence() -> None:
    whole = message(ask())["content"][0]["text"]
    first, second = whole.split(". ")[:2]
    said = message(ask(stop_sequences=["nowhere", second[:8], ". "]))
    assert (said["stop_reason"], said["stop_sequence"]) == ("stop_sequence", ". ")
    assert said["content"] == [{"type": "text", "text": first}]
    assert said["usage"]["output_tokens"] == tokens.count(first)


def test_an_answer_that_stops_at_once_has_no_content() -> None:
    whole = message(ask())["content"][0]["text"]
    said = message(ask(stop_sequences=[whole[:3]]))
    assert (said["content"], said["usage"]["output_tokens"]) == ([], 0)


def test_a_schema_is_followed() -> None:
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "kind": {"enum": ["river", "lake"]},
            "length": {"type": "integer"},
            "depth": {"type": "number"},
            "salty": {"type": "boolean"},
            "none": {"type": "null"},
            "seen": {"type": "string", "format": "date"},
            "fixed": {"const": 7},
            "towns": {"type": "array", "items": {"$ref": "#/$defs/town"}},
            "either": {"anyOf": [{"type": "integer"}, {"type": "integer"}]},
            "maybe": {"type": ["string", "null"]},
        },
        "$defs": {"town": {"type": "object", "properties": {"name": {"type": "string"}}}},
    }
    config = {"format": {"type": "json_schema", "schema": schema}}
    said = message(ask(output_config=config))
    found = json.loads(said["content"][0]["text"])
    assert list(found) == list(schema["properties"])
    assert found["kind"] in {"river", "lake"}
    assert (found["none"], found["fixed"], found["seen"]) == (None, 7, "2026-01-31")
    kinds = (type(found[name]) for name in ("name", "length", "depth", "salty", "either", "maybe"))
    assert list(kinds) == [str, int, float, bool, int, str]
    assert all(list(town) == ["name"] for town in found["towns"])
    assert message(ask(output_config=config)) == said
    short = message(ask(output_config=config, max_tokens=5))
    assert (short["stop_reason"], short["usage"]["output_tokens"]) == ("max_tokens", 5)
    assert said["content"][0]["text"].startswith(short["content"][0]["text"])


@pytest.mark.parametrize(
    ("choice", "wish", "called"),
    [
        ({"type": "any"}, {}, "weather"),
        ({"type": "tool", "name": "tides"}, {}, "tides"),
        ({"type": "auto"}, {"calls_tool": True}, "weather"),
        ({"type": "auto"}, {}, None),
        ({"type": "none"}, {"calls_tool": True}, None),
    ],
)
def test_a_tool_is_called_when_it_must_be(choice: dict[str, Any], wish: dict[str, Any], called: str | None) -> None:
    tools = [WEATHER, {**WEATHER, "name": "tides"}]
    said = message(ask(tools=tools, tool_choice=choice), **wish)
    (block,) = said["content"]
    if called is None:
        assert (block["type"], said["stop_reason"]) == ("text", "end_turn")
        return
    assert (block["type"], block["name"], said["stop_reason"]) == ("tool_use", called, "tool_use")
    assert list(block["input"]) == ["city"]
    expected_tokens = tokens.count(called) + tokens.count(json.dumps(block["input"], separators=(",", ":")))
    assert said["usage"]["output_tokens"] == expected_tokens


def test_a_tool_call_that_does_not_fit_ends_at_its_limit() -> None:
    said = message(ask(tools=[WEATHER], tool_choice={"type": "any"}, max_tokens=2))
    assert (said["stop_reason"], said["usage"]["output_tokens"]) == ("max_tokens", 2)


def test_thoughts_stand_before_the_answer_and_inside_the_output() -> None:
    said = message(ask(max_tokens=2_000, thinking={"type": "enabled", "budget_tokens": 1_024}), natural_tokens=10)
    thought, text = said["content"]
    thinking_tokens = tokens.count(thought["thinking"])
    assert (thought["type"], text["type"]) == ("thinking", "text")
    assert said["usage"]["output_tokens_details"] == {"thinking_tokens": thinking_tokens}
    assert said["usage"]["output_tokens"] == thinking_tokens + 10


def test_an_answer_depends_on_what_is_asked_and_not_on_the_limit() -> None:
    long, short = message(ask(), natural_tokens=20), message(ask(max_tokens=5), natural_tokens=20)
    assert long["id"] == short["id"]
    assert long["content"][0]["text"].startswith(short["content"][0]["text"])
    assert message(ask(system="Be brief."), natural_tokens=20)["id"] != long["id"]


def cached(text: str, ttl: str = "5m") -> dict[str, Any]:
    return {"type": "text", "text": text, "cache_control": {"type": "ephemeral", "ttl": ttl}}


def test_the_cache_is_written_up_to_the_last_breakpoint_by_lifetime() -> None:
    params = ask([cached("river " * 100), {"type": "text", "text": "Why?"}], system=[cached("lake " * 200, "1h")])
    sizes = [segment.token_count for segment in tokens.segments(params)]
    use = cache_use(params, 100, lambda _digest: False)
    assert (use.written_1h_tokens, use.written_5m_tokens, use.read_tokens) == (sizes[0], sizes[1], 0)
    again = cache_use(params, 100, use.digests.__contains__)
    assert (again.read_tokens, again.written_5m_tokens, again.written_1h_tokens) == (sizes[0] + sizes[1], 0, 0)


def test_the_longest_cached_prefix_is_read_and_the_rest_written() -> None:
    first = ask([cached("river " * 100)], system=[cached("lake " * 200, "1h")])
    use = cache_use(first, 100, lambda _digest: False)
    second = ask([cached("sea " * 100)], system=[cached("lake " * 200, "1h")])
    sizes = [segment.token_count for segment in tokens.segments(second)]
    other = cache_use(second, 100, use.digests.__contains__)
    assert (other.read_tokens, other.written_5m_tokens, other.written_1h_tokens) == (sizes[0], sizes[1], 0)


def test_a_short_prefix_is_not_cached() -> None:
    params = ask([cached("river " * 100)])
    assert cache_use(params, 1_024, lambda _digest: True) == CacheUse()


def test_a_marker_on_the_whole_request_caches_all_of_it() -> None:
    params = ask("river " * 100, cache_control={"type": "ephemeral"})
    assert cache_use(params, 50, lambda _digest: False).written_5m_tokens == tokens.input_tokens(params) - 3


@pytest.mark.parametrize(
    ("model_id", "expected"),
    [
        ("anthropic.claude-haiku-4-5-20251001-v1:0", "claude-haiku-4-5-20251001"),
        ("us.anthropic.claude-opus-5", "claude-opus-5"),
        (
            "arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-3-haiku-20240307-v1:0:48k",
            "claude-3-haiku-20240307",
        ),
    ],
)
def test_bedrock_answers_name_the_model_without_region_and_revision(model_id: str, expected: str) -> None:
    assert served_model(model_id) == expected
