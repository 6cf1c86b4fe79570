"""The cases from real life that a quote alone decides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from ground.errors import RowErrors
from routing.domain.offering import QuoteSettings
from routing.domain.plan import QuotePlan
from routing.domain.quoting import make_quote_plan
from routing.domain.scoring import WorkflowProfile
from tests.routing.domain.sample import AT, HOUSE

FOLDER = Path(__file__).resolve().parents[2] / "cases" / "quote"
CASES = {case["id"]: case for case in map(json.loads, (FOLDER / "expect.jsonl").read_text("utf-8").splitlines())}


def body_of(case: dict[str, Any]) -> bytes:
    held = (FOLDER / case["input"]).read_bytes()
    return held if case["probe"] == "quote" else generated(json.loads(held))


def generated(recipe: dict[str, Any]) -> bytes:
    lines = []
    for number in range(1, recipe["rows"] + 1):
        row = json.loads(json.dumps(recipe["row"]).replace("{i}", str(number)))
        repeated = row["body"].get("input")
        if isinstance(repeated, dict):
            row["body"]["input"] = [repeated["repeat"]] * repeated["times"]
        override = recipe.get("override", {}).get(str(number))
        if override:
            row["body"]["messages"][0]["content"] = "x" * override["text_bytes"]
        lines.append(orjson.dumps(row))
    return b"\n".join(lines)


def quote(body: bytes) -> QuotePlan | RowErrors:
    try:
        return make_quote_plan(body, HOUSE, WorkflowProfile(), QuoteSettings(), AT)
    except RowErrors as error:
        return error


def fits(wanted: dict[str, Any], got: QuotePlan | RowErrors) -> bool:
    if wanted.get("outcome") == "any_of":
        return any(fits(choice, got) for choice in wanted["any_of"])
    if wanted.get("outcome") == "accepted":
        return isinstance(got, QuotePlan) and got.row_count == wanted["rows"] and got.model_count == wanted["models"]
    if not isinstance(got, RowErrors):
        return False
    listed = [error.line for error in got.errors if error.line is not None]
    return bool(got.code == wanted["code"]) and listed == wanted.get("lines", listed) and names_them(wanted, got)


def names_them(wanted: dict[str, Any], got: RowErrors) -> bool:
    """Whether the rows, the fields and the values that the case names are named in the refusal."""
    params = {*wanted.get("params", []), *([wanted["param"]] if "param" in wanted else [])}
    return (
        set(wanted.get("custom_ids", [])) <= {error.custom_id for error in got.errors}
        and params <= {error.param for error in got.errors}
        and all(any(name in error.message for error in got.errors) for name in wanted.get("names", []))
    )


def acceptable(case: dict[str, Any]) -> list[dict[str, Any]]:
    """The outcome of the case and the other right ones, each filled up from the first."""
    base = {**case, "outcome": "rejected"} if case["outcome"] == "http" else case
    others = [
        other if isinstance(other, dict) else {"code": other.split()[-1]}
        for other in case.get("also_ok", [])
        if isinstance(other, dict) or other.startswith("4xx ")
    ]
    return [base, *({**base, **other} for other in others)]


@pytest.mark.parametrize("case_id", sorted(CASES))
def test_a_case_from_real_life_comes_out_right(case_id: str) -> None:
    case = CASES[case_id]
    got = quote(body_of(case))
    assert any(fits(wanted, got) for wanted in acceptable(case)), got


def test_nothing_of_the_prompt_is_in_an_answer() -> None:
    for case in CASES.values():
        got = quote(body_of(case))
        if isinstance(got, RowErrors):
            assert not any(word in error.message for error in got.errors for word in ("Name one river", "emoji", 'hi"'))


def test_an_image_costs_tokens_and_its_detail_decides() -> None:
    got = quote(body_of(CASES["084"]))
    assert isinstance(got, QuotePlan)
    low, high = CASES["084"]["input_tokens_between"]
    assert low <= got.estimate.input_tokens <= high
    # gpt-4o-mini, low detail: 2,833 for the image, 4 + 3 of framing, "Describe." is 1 by its byte pairs
    assert got.estimate.input_tokens == 2_833 + 7 + 1


def test_both_embedding_limits_are_stated() -> None:
    got = quote(body_of(CASES["090"]).replace(b"gpt-4o-mini", b"text-embedding-3-small"))
    assert isinstance(got, RowErrors)
    assert got.code == "too_many_inputs"
    assert "8192 tokens a text" in got.message
    assert "300000 tokens a request" in got.message
