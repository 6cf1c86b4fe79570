"""What each lane makes of what rows ask: kept, mapped, dropped and said, or refused with its first row."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.domain.records import Endpoint
from routing.domain.parameters.judgement import LaneJudgement, first_refusal, judge
from routing.domain.parameters.lanes import Family, Sampling, claude_traits, family_of, offers
from routing.domain.parameters.needs import NeedsReader, each_alone, gather_needs
from routing.domain.parameters.schemas import can_be_kept, closed
from routing.domain.parameters.table import Need, Treatment, claude_rule

OLD = "claude-3-5-haiku-20241022"
NEW = "claude-opus-5"
ON_BEDROCK = "anthropic.claude-3-5-sonnet-20241022-v2:0"
ASK = [{"role": "user", "content": "Name a river in Spain."}]
PNG = "data:image/png;base64,iVBORw0KGgo="
TIGHT = {"type": "object", "properties": {"river": {"type": "string"}}, "required": ["river"]}
LOOSE = {"type": "object", "properties": {"age": {"type": "integer", "minimum": 0}}}
WEATHER = {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}


def raw(body: dict[str, Any]) -> dict[str, msgspec.Raw]:
    return msgspec.json.decode(msgspec.json.encode(body), type=dict[str, msgspec.Raw])


def body(messages: list[Any] | None = None, **parameters: Any) -> dict[str, msgspec.Raw]:
    return raw({"model": "m", "messages": messages or ASK, "max_tokens": 9, **parameters})


def judged(*bodies: dict[str, msgspec.Raw], family: Family = Family.ANTHROPIC, model_id: str = OLD) -> LaneJudgement:
    return judge(family, model_id, gather_needs(each_alone(bodies)))


def refused(model_id: str = OLD, family: Family = Family.ANTHROPIC, /, **parameters: Any) -> list[str]:
    return [each.parameter for each in judged(body(**parameters), family=family, model_id=model_id).refused]


def dropped(family: Family = Family.ANTHROPIC, /, **parameters: Any) -> list[str]:
    return [each.parameter for each in judged(body(**parameters), family=family).dropped]


def said(content: Any, **message: Any) -> list[Any]:
    return [{"role": "user", "content": content, **message}]


def schema(schema: dict[str, Any], *, strict: bool = False) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": strict, "schema": schema}}


def test_a_plain_row_asks_nothing() -> None:
    system = {"role": "system", "content": "Be brief."}
    assert NeedsReader().needs_of(body([system, *ASK], max_completion_tokens=9)) == frozenset()


@pytest.mark.parametrize(
    "parameters",
    [
        {"temperature": 1},
        {"temperature": None},
        {"top_p": 1.0},
        {"n": 1},
        {"stop": []},
        {"stop": None},
        {"logprobs": False},
        {"top_logprobs": 0},
        {"logit_bias": {}},
        {"presence_penalty": 0},
        {"frequency_penalty": 0.0},
        {"response_format": {"type": "text"}},
        {"tools": []},
        {"tool_choice": "auto"},
        {"parallel_tool_calls": True},
        {"modalities": ["text"]},
        {"store": False},
        {"stream": False},
        {"verbosity": "medium"},
        {"something_new": None},
    ],
    ids=str,
)
def test_a_value_that_changes_nothing_asks_nothing(parameters: dict[str, Any]) -> None:
    assert NeedsReader().needs_of(body(**parameters)) == frozenset()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n", 2),
        ("temperature", 1.2),
        ("logprobs", True),
        ("top_logprobs", 3),
        ("logit_bias", {"50256": -100}),
        ("presence_penalty", 0.5),
        ("frequency_penalty", -0.5),
        ("response_format", {"type": "json_object"}),
        ("response_format", {"type": "grammar"}),
        ("response_format", schema({"type": "array", "items": {"type": "string"}})),
        ("functions", [WEATHER]),
        ("function_call", "auto"),
        ("stop", ["\n"]),
        ("stop", ""),
        ("stop", 5),
        ("tool_choice", "required"),
        ("tools", [{"type": "custom", "custom": {"name": "x"}}]),
        ("tools", [{"type": "function", "function": {"name": "a b"}}]),
        ("tools", [{"type": "function", "function": {"name": "a", "parameters": {"type": "string"}}}]),
        ("verbosity", "low"),
        ("reasoning_effort", "minimal"),
        ("modalities", ["text", "audio"]),
        ("audio", {"voice": "alloy"}),
        ("top_k", 5),
        ("something_new", 1),
    ],
    ids=str,
)
def test_what_would_change_the_answer_is_refused_by_name(name: str, value: Any) -> None:
    assert refused(**{name: value}) == [f"body.{name}"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seed", 7),
        ("metadata", {"a": "b"}),
        ("store", True),
        ("stream_options", {"include_usage": True}),
        ("service_tier", "flex"),
        ("prediction", {"type": "content", "content": "x"}),
        ("prompt_cache_key", "k"),
        ("safety_identifier", "u"),
        ("user", "x" * 257),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_cannot_change_the_answer_is_dropped_and_said(name: str, value: Any) -> None:
    assert (refused(**{name: value}), dropped(**{name: value})) == ([], [f"body.{name}"])


@pytest.mark.parametrize("family", [Family.OPENAI, Family.AZURE])
def test_openai_s_own_endpoints_take_everything(family: Family) -> None:
    everything = body(n=3, seed=1, logit_bias={"1": 1}, something_new=True, temperature=2)
    assert judged(everything, family=family, model_id="gpt-4o") == LaneJudgement()


def test_a_judgement_counts_rows_and_names_the_first() -> None:
    rows = [body(), body(seed=1), body(n=2, seed=2), body(n=3)]
    judgement = judged(*rows)
    assert [(each.parameter, each.row_count, each.first_position) for each in judgement.refused] == [("body.n", 2, 2)]
    assert [(each.parameter, each.row_count) for each in judgement.dropped] == [("body.seed", 2)]
    assert judgement.refused[0].reason == "body.n above 1 is not possible on this lane"


def test_the_refusal_of_the_earliest_row_comes_first() -> None:
    judgement = judged(body(n=2), body(logprobs=True))
    assert [each.parameter for each in judgement.refused] == ["body.n", "body.logprobs"]


@pytest.mark.parametrize(
    ("model_id", "sampling", "structured"),
    [
        ("claude-3-5-haiku-20241022", Sampling.BOTH, False),
        ("claude-3-haiku-20240307", Sampling.BOTH, False),
        ("anthropic.claude-3-5-sonnet-20241022-v2:0", Sampling.BOTH, False),
        ("claude-opus-4-20250514", Sampling.BOTH, False),
        ("claude-opus-4-1-20250805", Sampling.EITHER, False),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", Sampling.EITHER, True),
        ("claude-opus-4-6-20260205", Sampling.EITHER, True),
        ("claude-opus-4-7-20260416", Sampling.NEITHER, True),
        ("claude-sonnet-5", Sampling.NEITHER, True),
        ("global.anthropic.claude-opus-5", Sampling.NEITHER, True),
        ("claude-fable-5-1", Sampling.NEITHER, True),
        ("claude-of-tomorrow", Sampling.NEITHER, True),
    ],
)
def test_a_model_s_generation_tells_what_it_takes(model_id: str, sampling: Sampling, structured: object) -> None:
    traits = claude_traits(model_id)
    assert (traits.sampling, traits.structured_outputs) == (sampling, structured)


def test_sampling_is_refused_where_the_model_does_not_take_it() -> None:
    assert refused(OLD, temperature=0.2, top_p=0.9) == []
    assert refused("claude-haiku-4-5-20251001", temperature=0.2) == []
    assert refused("claude-haiku-4-5-20251001", temperature=0.2, top_p=0.9) == ["body.top_p"]
    assert refused("claude-haiku-4-5-20251001", temperature=0.2, top_p=1) == []
    assert refused(NEW, temperature=0) == ["body.temperature"]


def test_a_schema_is_kept_as_a_format_or_as_a_tool_and_that_is_said() -> None:
    (by_tool,) = judged(body(response_format=schema(TIGHT))).mapped
    (by_format,) = judged(body(response_format=schema(TIGHT)), model_id=NEW).mapped
    assert (by_tool.parameter, by_format.parameter) == ("body.response_format", "body.response_format")
    assert "tool" in by_tool.how
    assert "format" in by_format.how


def test_a_strict_schema_needs_a_model_that_can_be_held_to_it() -> None:
    assert refused(OLD, response_format=schema(TIGHT, strict=True)) == ["body.response_format"]
    assert refused(NEW, response_format=schema(TIGHT, strict=True)) == []
    assert refused(NEW, response_format=schema(LOOSE, strict=True)) == ["body.response_format"]
    assert refused(NEW, response_format=schema(LOOSE)) == []


def test_a_schema_by_tool_cannot_stand_beside_tools() -> None:
    tools = [{"type": "function", "function": WEATHER}]
    assert refused(OLD, response_format=schema(TIGHT), tools=tools) == ["body.response_format"]
    assert refused(NEW, response_format=schema(TIGHT), tools=tools) == []
    assert refused(NEW, response_format=schema(LOOSE), tools=tools) == ["body.response_format"]


def test_strict_tools_need_a_model_that_can_be_held_to_them() -> None:
    tools = [{"type": "function", "function": {**WEATHER, "strict": True}}]
    assert refused(OLD, tools=tools) == ["body.tools"]
    assert refused(NEW, tools=tools) == []
    loose = [{"type": "function", "function": {**WEATHER, "parameters": LOOSE, "strict": True}}]
    assert refused(NEW, tools=loose) == ["body.tools"]


def test_effort_is_mapped_where_the_lane_has_it() -> None:
    assert refused(NEW, reasoning_effort="xhigh") == []
    assert refused("claude-opus-4-6", reasoning_effort="high") == []
    assert refused("claude-opus-4-6", reasoning_effort="xhigh") == ["body.reasoning_effort"]
    assert refused(NEW, Family.BEDROCK_CLAUDE, reasoning_effort="low") == ["body.reasoning_effort"]


@pytest.mark.parametrize(
    ("messages", "parameter"),
    [
        ([{"role": "system", "content": "Be brief."}], "body.messages"),
        ([*ASK, {"role": "assistant", "content": "The"}], "body.messages"),
        ([*ASK, {"role": "function", "name": "f", "content": "x"}], "body.messages"),
        (said(""), "body.messages"),
        (said(" \n"), "body.messages"),
        (said([{"type": "text", "text": " "}]), "body.messages"),
        (said("Hi.", name="Ana"), "body.messages.name"),
        (said("Hi.", mood="glad"), "body.messages.mood"),
        (said([{"type": "image_url", "image_url": {"url": "http://x.test/a.png"}}]), "body.messages.image_url"),
        (
            said([{"type": "image_url", "image_url": {"url": "data:image/bmp;base64,AA=="}}]),
            "body.messages.image_url",
        ),
        (said([{"type": "video", "text": "x"}]), "body.messages.content"),
        (
            [{"role": "system", "content": [{"type": "image_url", "image_url": {"url": PNG}}]}, *ASK],
            "body.messages.image_url",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_messages_that_claude_cannot_carry_are_refused(messages: list[Any], parameter: str) -> None:
    assert [each.parameter for each in judged(body(messages)).refused] == [parameter]


@pytest.mark.parametrize("arguments", ["[]", "{", "5"])
def test_a_call_s_arguments_must_be_an_object(arguments: str) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    turns = [
        *ASK,
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "x"},
    ]
    assert [each.parameter for each in judged(body(turns)).refused] == ["body.messages.tool_calls"]


def test_calls_and_their_results_ask_nothing() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    turns = [
        *ASK,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "name": "f", "content": ""},
    ]
    assert judged(body(turns)) == LaneJudgement()


def test_instructions_after_the_first_turn_are_moved_and_that_is_said() -> None:
    late = [*ASK, {"role": "developer", "content": "Be brief."}]
    judgement = judged(body(late))
    assert judgement.refused == ()
    assert [each.parameter for each in judgement.mapped] == ["body.messages"]


def test_a_linked_image_is_not_for_bedrock() -> None:
    linked = body(said([{"type": "image_url", "image_url": {"url": "https://x.test/a.png"}}]))
    assert judged(linked).refused == ()
    (refusal,) = judged(linked, family=Family.BEDROCK_CLAUDE, model_id=ON_BEDROCK).refused
    assert refusal.parameter == "body.messages.image_url"


def test_details_and_cache_marks_are_dropped_and_said() -> None:
    parts = [
        {"type": "text", "text": "Look.", "cache_control": {"type": "ephemeral"}},
        {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}},
    ]
    assert [each.parameter for each in judged(body(said(parts))).dropped] == [
        "body.messages.cache_control",
        "body.messages.image_url.detail",
    ]


def test_the_user_is_told_to_anthropic_and_dropped_on_bedrock() -> None:
    assert dropped(Family.ANTHROPIC, user="u-1") == []
    assert dropped(Family.BEDROCK_CLAUDE, user="u-1") == ["body.user"]


def test_escaped_roles_are_read_as_what_they_say() -> None:
    messages = msgspec.Raw(rb'[{"role":"\u0073ystem","content":"Be brief."},{"role":"user","content":"Hi."}]')
    assert NeedsReader().needs_of({"messages": messages}) == frozenset()


def test_a_name_that_cannot_be_shown_is_made_fit() -> None:
    (refusal,) = judged(body(ASK, **{"a\u202eb" + "x" * 99: 1})).refused
    assert refusal.parameter == "body.a\ufffdb" + "x" * 61


def test_families_follow_provider_and_model() -> None:
    assert family_of("openai", "gpt-4o") is Family.OPENAI
    assert family_of("azure", "gpt-4o") is Family.AZURE
    assert family_of("anthropic", OLD) is Family.ANTHROPIC
    assert family_of("bedrock", "us.anthropic.claude-opus-5") is Family.BEDROCK_CLAUDE
    assert family_of("bedrock", "amazon.nova-lite-v1:0") is None
    assert family_of("groq", "x") is None


def test_only_openai_s_endpoints_offer_responses_and_embeddings() -> None:
    assert all(offers(family, Endpoint.CHAT_COMPLETIONS) for family in Family)
    assert [family for family in Family if offers(family, Endpoint.RESPONSES)] == [Family.OPENAI, Family.AZURE]
    assert [family for family in Family if offers(family, Endpoint.EMBEDDINGS)] == [Family.OPENAI, Family.AZURE]


@pytest.mark.parametrize(
    ("wanted", "kept"),
    [
        (TIGHT, True),
        ({**TIGHT, "additionalProperties": False}, True),
        ({**TIGHT, "additionalProperties": True}, False),
        (LOOSE, False),
        ({"type": "object", "properties": {"a": {"type": "array", "items": TIGHT, "minItems": 1}}}, True),
        ({"type": "object", "properties": {"a": {"type": "array", "items": TIGHT, "minItems": 2}}}, False),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": TIGHT}}, True),
        ({"type": "object", "properties": {"a": {"$ref": "#"}}}, False),
        ({"type": "object", "properties": {"a": {"$ref": "https://x.test/a"}}}, False),
        ({"type": "object", "properties": {"a": {"anyOf": [TIGHT, {"type": "null"}]}}}, True),
        ({"type": "object", "allOf": [TIGHT]}, False),
        ({"type": "object", "properties": []}, False),
        ({"type": "array", "items": TIGHT}, False),
        (None, False),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_schema_can_be_kept_when_it_is_closed_and_plain(wanted: Any, kept: object) -> None:
    assert can_be_kept(wanted) is kept


def test_a_recursion_through_a_definition_cannot_be_kept() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
    assert not can_be_kept({"type": "object", "properties": {"a": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}})


def test_closing_reaches_every_object_and_changes_nothing_else() -> None:
    wanted = {"type": "object", "properties": {"a": {"type": "array", "items": TIGHT}}, "$defs": {"b": TIGHT}}
    shut = {**TIGHT, "additionalProperties": False}
    assert closed(wanted) == {
        "type": "object",
        "properties": {"a": {"type": "array", "items": shut}},
        "$defs": {"b": shut},
        "additionalProperties": False,
    }


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["seed", "metadata", "store", "x", "y"]), JSON, max_size=4))
def test_every_name_that_is_given_is_kept_dropped_or_refused(parameters: dict[str, Any]) -> None:
    needs = NeedsReader().needs_of(body(**parameters))
    told = {need.parameter for need in needs}
    assert told <= parameters.keys()
    unknown = {name for name in ("x", "y") if parameters.get(name) is not None}
    assert {need.parameter for need in needs if need.form == "unknown"} == unknown
    assert (first_refusal(Family.ANTHROPIC, OLD, needs) is not None) == bool(unknown)


@given(st.sampled_from(list(Family)), st.sampled_from([OLD, NEW, ON_BEDROCK]))
def test_what_the_table_does_not_know_is_refused(family: Family, model_id: str) -> None:
    rule = claude_rule(Need("of_tomorrow", "any"), claude_traits(model_id), family)
    assert rule.treatment is Treatment.REFUSE
