"""Naming by hand: what a bill in cents hides, two causes at one place, equal amounts, and signs that are turned."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from billing.reconciliation.domain.naming import name_differences
from billing.reconciliation.domain.sides import BreakKind, Known, KnownRates, Place, Sides

MODEL = "gpt-4o-mini-2024-07-18"
# Pico-USD a token: 0.075 USD per million, and 0.15 for synchronous calls.
RATE, LIST_RATE = 75_000, 150_000
CENT = 10**10
KNOWN = {(MODEL, "input_uncached"): KnownRates(batch=frozenset({RATE}), standard=frozenset({LIST_RATE}))}


def billed(tokens: int | None, pico_usd: int, lines: int = 1) -> dict[str, Any]:
    return {"invoiced_quantity": tokens, "invoiced_pico_usd": pico_usd, "invoiced_line_count": lines}


def ours(tokens: int) -> dict[str, Any]:
    return {"ours_quantity": tokens, "ours_pico_usd": tokens * RATE, "ours_job_count": 1}


def sides(day: int = 1, model: str = MODEL, **more: Any) -> Sides:
    place = Place(day=date(2026, 10, day), model=model, tier="batch", token_class="input_uncached", project="")
    return Sides(place=place, **more)


def names(*compared: Sides, unit: int = 1) -> list[str]:
    named = name_differences(compared, Known(rates=KNOWN, minor_unit_pico_usd=unit))
    return [each.kind.value for each in sorted(named, key=lambda each: each.sides.place)]


# What a bill in whole cents prints, cut: 0.0925925 USD as 0.09, and so on.
IN_CENTS = {
    "printing alone": ([sides(**billed(1_234_567, 9 * CENT), **ours(1_234_567))], ["rounding"]),
    "another day": (
        [sides(1, **ours(10_000_001)), sides(2, **billed(10_000_001, 75 * CENT))],
        ["time_boundary", "time_boundary"],
    ),
    "another name": (
        [sides(1, **ours(10_000_001)), sides(1, "gpt-4o-mini-latest", **billed(10_000_001, 75 * CENT))],
        ["model_alias", "model_alias"],
    ),
    # 36,000,001 tokens at 0.15 per million are 5.40000015.
    "another tier": ([sides(**billed(36_000_001, 540 * CENT), **ours(36_000_001))], ["tier"]),
    # 11,000,001 tokens are 0.825000075.
    "more tokens": ([sides(**billed(11_000_001, 82 * CENT), **ours(10_000_000))], ["quantity"]),
    # Two lines of 0.075, each printed as 0.07.
    "a line twice": (
        [sides(**billed(2_000_000, 14 * CENT, 2), **ours(1_000_000), duplicate_line_pico_usd=7 * CENT)],
        ["duplicate_invoice_line"],
    ),
    # 20,000,001 of 30,000,000 tokens were billed: the others are those that failed.
    "not billed, for it failed": (
        [sides(**billed(20_000_001, 150 * CENT), **ours(30_000_000), failed_pico_usd=9_999_999 * RATE)],
        ["unbilled_failed"],
    ),
    # Ten dollars more than anything says.
    "a riddle": ([sides(**billed(10_000_001, 1_075 * CENT), **ours(10_000_001))], ["unexplained"]),
    # No tokens on the bill: nothing is known to agree.
    "a day without tokens": (
        [sides(1, **ours(10_000_001)), sides(2, **billed(None, 75 * CENT))],
        ["missing_invoice", "missing_receipt"],
    ),
}


@pytest.mark.parametrize("said", IN_CENTS)
def test_a_cause_is_named_although_the_bill_prints_cents(said: str) -> None:
    compared, expected = IN_CENTS[said]
    assert names(*compared, unit=CENT) == expected


EXACT = {
    # Fewer tokens, at a rate that nobody knows: either alone would have a name.
    "two causes": ([sides(**billed(90_000, 90_000 * 80_000), **ours(100_000))], ["unexplained"]),
    "a line twice and a riddle": (
        [sides(**billed(None, 2 * 84_000 * RATE + 1, 2), **ours(84_000), duplicate_line_pico_usd=84_000 * RATE)],
        ["unexplained"],
    ),
    # Both are as dear as ours; one is the same family.
    "equal amounts": (
        [
            sides(1, **ours(44_000)),
            sides(1, "claude-haiku-latest", **billed(44_000, 44_000 * RATE)),
            sides(1, "gpt-4o-mini-latest", **billed(44_000, 44_000 * RATE)),
        ],
        ["missing_receipt", "model_alias", "model_alias"],
    ),
    "money back, alone": ([sides(**billed(None, -5_000))], ["credit_or_commitment"]),
    "money back, beside what is right": (
        [sides(**billed(None, 44_000 * RATE - 5_000, 2), **ours(44_000), has_such_line=True)],
        ["credit_or_commitment"],
    ),
    "the sign turned": ([sides(**billed(44_000, -44_000 * RATE), **ours(44_000))], ["unexplained"]),
    "tokens for nothing": ([sides(**billed(50_000, 0), **ours(68_000))], ["unexplained"]),
    "the same tokens for nothing": ([sides(**billed(68_000, 0), **ours(68_000))], ["unexplained"]),
    "a line of nothing": ([sides(**billed(0, 0))], []),
    "one token in 10^15": (
        [sides(**billed(10**15 + 1, (10**15 + 1) * RATE), **ours(10**15))],
        ["quantity"],
    ),
}


@pytest.mark.parametrize("said", EXACT)
def test_what_is_explained_exactly_has_its_name_and_nothing_else_has_one(said: str) -> None:
    compared, expected = EXACT[said]
    assert names(*compared) == expected
    assert BreakKind.UNEXPLAINED.value not in expected or len(expected) == 1
