"""Integers of money and their roundings; values worked out by hand."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.domain.money import line_pico_usd, micro_to_pico, round_pico_to_micro, round_up_pico_to_micro


@pytest.mark.parametrize(
    ("pico_usd", "micro_usd"),
    [
        (0, 0),
        (499_999, 0),
        (500_000, 0),
        (500_001, 1),
        (1_499_999, 1),
        (1_500_000, 2),
        (2_500_000, 2),
        (2_500_001, 3),
        (3_500_000, 4),
        (-500_000, 0),
        (-500_001, -1),
        (-1_500_000, -2),
        (-2_500_000, -2),
        (307_500_000, 308),
        (161_625_000, 162),
    ],
)
def test_a_tie_goes_to_the_even_neighbour(pico_usd: int, micro_usd: int) -> None:
    assert round_pico_to_micro(pico_usd) == micro_usd


@pytest.mark.parametrize(
    ("pico_usd", "micro_usd"), [(0, 0), (1, 1), (999_999, 1), (1_000_000, 1), (1_000_001, 2), (-1, 0), (-1_000_001, -1)]
)
def test_a_ceiling_is_never_short(pico_usd: int, micro_usd: int) -> None:
    assert round_up_pico_to_micro(pico_usd) == micro_usd


def test_tokens_times_rate_are_pico_usd() -> None:
    # 2,155 tokens at 0.075 USD per million are 0.000161625 USD.
    assert line_pico_usd(2_155, 75_000) == 161_625_000


@given(st.integers(-(10**24), 10**24))
def test_rounding_is_the_decimal_rule(pico_usd: int) -> None:
    exact = Decimal(pico_usd).scaleb(-6)
    assert round_pico_to_micro(pico_usd) == int(exact.quantize(Decimal(1), ROUND_HALF_EVEN))
    assert round_up_pico_to_micro(pico_usd) == int(exact.quantize(Decimal(1), ROUND_CEILING))


@given(st.integers(-(10**18), 10**18))
def test_whole_micro_usd_survive_both_ways(micro_usd: int) -> None:
    assert round_pico_to_micro(micro_to_pico(micro_usd)) == micro_usd
    assert round_up_pico_to_micro(micro_to_pico(micro_usd)) == micro_usd
