from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.providers.base import TokenUsage, UsageProblem
from routing.providers.openai.usage import MAXIMUM_TOKENS, read_raw_usage, read_usage


def read(member: object) -> tuple[TokenUsage, UsageProblem | None]:
    found = read_usage(member, has_output=True)
    return found.usage, found.problem


def test_cached_and_written_tokens_are_inside_the_prompt() -> None:
    member = {
        "prompt_tokens": 1_000,
        "completion_tokens": 100,
        "prompt_tokens_details": {"cached_tokens": 800, "cache_write_tokens": 50},
    }
    assert read(member) == (
        TokenUsage(
            input_tokens=150,
            cached_input_tokens=800,
            cache_write_5m_tokens=50,
            output_tokens=100,
        ),
        None,
    )


def test_reasoning_tokens_are_inside_the_completion() -> None:
    member = {
        "prompt_tokens": 100,
        "completion_tokens": 1_000,
        "completion_tokens_details": {"reasoning_tokens": 900},
    }
    assert read(member) == (TokenUsage(input_tokens=100, output_tokens=1_000, reasoning_tokens=900), None)


def test_the_names_of_responses_are_read_too() -> None:
    member = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens": 6,
        "output_tokens_details": {"reasoning_tokens": 2},
    }
    usage = TokenUsage(input_tokens=6, cached_input_tokens=4, output_tokens=6, reasoning_tokens=2)
    assert read(member) == (usage, None)


@pytest.mark.parametrize("details", [None, {}, {"cached_tokens": None}], ids=str)
def test_details_that_are_not_given_count_as_zero(details: object) -> None:
    member = {"prompt_tokens": 5, "completion_tokens": 1, "prompt_tokens_details": details}
    assert read(member) == (TokenUsage(input_tokens=5, output_tokens=1), None)


def test_an_absent_usage_is_absent() -> None:
    assert read(None) == (TokenUsage(), UsageProblem.ABSENT)


@pytest.mark.parametrize(
    "member",
    [
        {},
        [],
        "7",
        {"prompt_tokens": 5},
        {"completion_tokens": 5},
        {"prompt_tokens": -1, "completion_tokens": 5},
        {"prompt_tokens": 5, "completion_tokens": -1},
        {"prompt_tokens": 5.0, "completion_tokens": 1},
        {"prompt_tokens": "5", "completion_tokens": 1},
        {"prompt_tokens": True, "completion_tokens": 1},
        {"prompt_tokens": MAXIMUM_TOKENS + 1, "completion_tokens": 1},
        {"prompt_tokens": None, "completion_tokens": None},
    ],
    ids=str,
)
def test_counts_that_are_none_count_nothing_and_are_told(member: object) -> None:
    assert read(member) == (TokenUsage(), UsageProblem.MALFORMED)


def test_a_detail_that_is_no_count_is_zero_and_told() -> None:
    member = {"prompt_tokens": 5, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": -3}}
    assert read(member) == (TokenUsage(input_tokens=5, output_tokens=1), UsageProblem.MALFORMED)


def test_details_larger_than_their_whole_are_cut_and_told() -> None:
    member = {
        "prompt_tokens": 5,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    usage = TokenUsage(
        input_tokens=0, cached_input_tokens=4, cache_write_5m_tokens=1, output_tokens=2, reasoning_tokens=2
    )
    assert read(member) == (usage, UsageProblem.INCONSISTENT)


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_every_prompt_token_is_counted_exactly_once(prompt: int, cached: int, written: int, output: int) -> None:
    details = {"cached_tokens": cached, "cache_write_tokens": written}
    usage, _ = read({"prompt_tokens": prompt, "completion_tokens": output, "prompt_tokens_details": details})
    assert usage.input_tokens + usage.cached_input_tokens + usage.cache_write_5m_tokens == prompt
    assert min(usage.input_tokens, usage.cached_input_tokens, usage.cache_write_5m_tokens) >= 0
    assert usage.output_tokens == output


ODD_COUNTS = st.one_of(
    st.none(), st.integers(-5, 40), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=2), st.booleans()
)
DETAILS = st.one_of(
    st.none(), st.dictionaries(st.sampled_from(["cached_tokens", "cache_write_tokens", "reasoning_tokens"]), ODD_COUNTS)
)
MEMBERS = st.one_of(
    ODD_COUNTS,
    st.fixed_dictionaries(
        {},
        optional={
            "prompt_tokens": ODD_COUNTS,
            "completion_tokens": ODD_COUNTS,
            "input_tokens": ODD_COUNTS,
            "output_tokens": ODD_COUNTS,
            "prompt_tokens_details": DETAILS,
            "completion_tokens_details": DETAILS,
        },
    ),
)


@given(MEMBERS, st.booleans())
def test_the_fast_way_reads_what_the_exact_way_reads(member: Any, has_output: Any) -> None:
    raw = msgspec.Raw(msgspec.json.encode(member))
    assert read_raw_usage(raw, has_output=has_output) == read_usage(member, has_output=has_output)
