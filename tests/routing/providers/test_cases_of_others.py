"""Inputs that broke systems like ours, as far as reading a provider's lines goes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from routing.providers.base import Outcome, RowResult, TokenUsage
from routing.providers.openai.wire import read_line
from tests.routing.providers.lines_by_hand import TOKEN

CASES = Path(__file__).parents[2] / "cases" / "providers"


def case(name: str) -> Any:
    return msgspec.json.decode((CASES / name).read_bytes())


def results(lines: list[dict[str, Any]]) -> dict[str, RowResult]:
    """Read lines whose custom ids are given row keys of ours, by their own ids."""
    read = {}
    for row, line in enumerate(lines):
        text = msgspec.json.encode({**line, "custom_id": f"{TOKEN}r{row}"})
        item = read_line(text, token=TOKEN, answer_prefix="", result_ref="file-1", line=row + 1)
        assert isinstance(item, RowResult)
        read[line["custom_id"]] = item
    return read


def test_failures_in_the_error_file_come_with_their_reason() -> None:
    lane = case("099-error-file-merged.json")["lanes"][0]
    read = results(lane["output"] + lane["error"])
    assert {key: row.outcome for key, row in read.items()} == {
        "a": Outcome.SUCCEEDED,
        "b": Outcome.FAILED,
        "c": Outcome.FAILED,
    }
    assert (read["b"].healable, read["c"].healable) == (False, True)
    assert b"bad temperature" in (read["b"].body or b"")


def test_a_4xx_with_a_null_error_is_a_failure_also_in_the_output_file() -> None:
    read = results(case("105-four-xx-with-null-error.json")["lanes"][0]["output"])
    assert [row.outcome for row in read.values()] == [Outcome.SUCCEEDED, Outcome.FAILED]
    assert read["b"].usage == TokenUsage()


def test_cached_tokens_are_taken_out_of_the_input() -> None:
    read = results(case("126-openai-cached-tokens.json")["rows"])
    assert read["a"].usage == TokenUsage(input_tokens=200, cached_input_tokens=800, output_tokens=100)


def test_reasoning_tokens_are_not_added_to_the_output() -> None:
    read = results(case("129-reasoning-inside-completion.json")["rows"])
    assert read["a"].usage == TokenUsage(input_tokens=100, output_tokens=1_000, reasoning_tokens=900)
