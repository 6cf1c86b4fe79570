"""Everything a quote claims is worked out again from its answer alone, with fractions and nothing of ours."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from tests.api.world import Api, row

MICRO = 1_000_000


def half_even(micro_usd: Fraction) -> int:
    return round(micro_usd)


def exact(tokens: int, rate_micro_usd_per_mtok: int) -> Fraction:
    return Fraction(tokens * rate_micro_usd_per_mtok, MICRO)


def usage(group: dict[str, Any], lane: dict[str, Any], prefix: str = "") -> tuple[Fraction, Fraction]:
    """Give what a group's tokens of one kind of figure come to at a lane's rates: input and output."""
    return (
        exact(group[f"{prefix}input_tokens"], lane["input_rate_micro_usd_per_mtok"]),
        exact(group[f"{prefix}output_tokens"], lane["output_rate_micro_usd_per_mtok"]),
    )


def check_scores(quote: dict[str, Any], group: dict[str, Any]) -> None:
    scoring = quote["scoring"]
    eligible = [each for each in group["candidates"] if each["eligible"]]
    for candidate in eligible:
        charge = sum(map(half_even, usage(group, candidate))) + scoring["fee_micro_usd"]
        latency = candidate["p95_completion_minutes"] * scoring["penalty_micro_usd_per_minute"]
        errors = candidate["error_ppm"] * scoring["penalty_micro_usd_per_percent"] // 10_000
        assert candidate["charge_micro_usd"] == charge
        assert candidate["latency_penalty_micro_usd"] == latency
        assert candidate["error_penalty_micro_usd"] == errors
        assert candidate["score_micro_usd"] == charge + latency + errors
    order = sorted(eligible, key=lambda each: (each["score_micro_usd"], each["charge_micro_usd"], each["lane_id"]))
    assert group["chosen_lane_ids"][0] == order[0]["lane_id"]
    assert group["runner_up_lane_id"] == (order[1]["lane_id"] if len(order) > 1 else None)
    if len(order) > 1:
        assert group["margin_micro_usd"] == order[1]["score_micro_usd"] - order[0]["score_micro_usd"]
    for rejected in group["candidates"]:
        if not rejected["eligible"]:
            assert rejected["reason"]
            assert rejected["reason_text"]
            assert rejected["score_micro_usd"] is None


def worked_out(quote: dict[str, Any]) -> dict[str, int]:
    """Give the quote's estimate from its explanation, rates, fee and margin."""
    totals = dict.fromkeys(("usage_charge", "low", "high", "ceiling", "reservation"), 0)
    margin = 1 + Fraction(quote["scoring"]["margin_basis_points"], 10_000)
    for group in quote["explanation"]:
        (lane,) = (each for each in group["candidates"] if each["lane_id"] == group["chosen_lane_ids"][0])
        ceiling = sum(map(math.ceil, usage(group, lane, "ceiling_")))
        wanted = max(sum(usage(group, lane, "high_")), margin * sum(usage(group, lane)))
        totals["usage_charge"] += sum(map(half_even, usage(group, lane)))
        totals["low"] += sum(map(half_even, usage(group, lane, "low_")))
        totals["high"] += min(ceiling, sum(map(half_even, usage(group, lane, "high_"))))
        totals["ceiling"] += ceiling
        totals["reservation"] += min(ceiling, math.ceil(wanted))
    fee = quote["scoring"]["fee_micro_usd"] * sum(len(group["chosen_lane_ids"]) for group in quote["explanation"])
    return {
        "input_tokens": sum(group["input_tokens"] for group in quote["explanation"]),
        "output_tokens": sum(group["output_tokens"] for group in quote["explanation"]),
        "usage_charge_micro_usd": totals["usage_charge"],
        "fee_micro_usd": fee,
        "total_micro_usd": totals["usage_charge"] + fee,
        "low_micro_usd": totals["low"] + fee,
        "high_micro_usd": totals["high"] + fee,
        "ceiling_micro_usd": totals["ceiling"] + fee,
        "reservation_micro_usd": totals["reservation"] + fee,
        "sync_charge_micro_usd": sum(
            half_even(exact(lane["input_tokens"], lane["list_input_rate_micro_usd_per_mtok"]))
            + half_even(exact(lane["output_tokens"], lane["list_output_rate_micro_usd_per_mtok"]))
            for lane in quote["lanes"]
        ),
    }


def test_every_score_and_the_whole_estimate_follow_from_the_answer_alone(api: Api) -> None:
    quote = api.quote(
        *(row(f"mini-{number}", f"What is {number} squared?") for number in range(7)),
        *(
            row(f"full-{number}", "A longer question. " * number, model="gpt-4o", max_tokens=None)
            for number in range(3)
        ),
        row("haiku", model="claude-3-5-haiku", max_tokens=1_000),
    )
    assert len(quote["explanation"]) == 3
    for group in quote["explanation"]:
        check_scores(quote, group)
    assert worked_out(quote) == quote["estimate"]


def test_so_they_do_under_a_workflow_of_the_customers_own(api: Api) -> None:
    penalties = {"penalty_micro_usd_per_minute": 333, "penalty_micro_usd_per_percent": 7_777}
    api.post("/v1/workflows", {"name": "odd", **penalties})
    body = b"".join(
        b'{"custom_id":"%d","method":"POST","url":"/v1/chat/completions",'
        b'"body":{"model":"gpt-4o","messages":[{"role":"user","content":"hello"}]}}\n' % number
        for number in range(5)
    )
    quote = api.post("/v1/quotes/model?workflow=odd", body, "application/jsonl").json()
    for group in quote["explanation"]:
        check_scores(quote, group)
    assert worked_out(quote) == quote["estimate"]


def test_the_text_is_short_and_its_figures_stand_in_the_answer(api: Api) -> None:
    (group,) = api.quote(row("a"))["explanation"]
    assert len(group["text"]) < 600
    (chosen,) = (each for each in group["candidates"] if each["lane_id"] == group["chosen_lane_ids"][0])
    for name in ("charge", "latency_penalty", "error_penalty", "score"):
        micro_usd = chosen[f"{name}_micro_usd"]
        assert f"${micro_usd // MICRO}.{micro_usd % MICRO:06}" in group["text"]
