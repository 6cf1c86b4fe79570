"""Rate arithmetic without a database; every right value worked by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.domain.document import CardsEntry, PublishedRates
from catalog.domain.rates import RateFigure, complete_figures, half_even, rates_of
from catalog.domain.records import TokenKind


def _rates(published: dict[TokenKind, int], discount_basis_points: int = 0) -> dict[str, int]:
    figures = complete_figures(published, discount_basis_points=discount_basis_points)
    return {figure.kind.value: figure.rate_micro_usd_per_mtok for figure in figures}


@pytest.mark.parametrize(
    ("numerator", "denominator", "whole"),
    [(5, 10, 0), (15, 10, 2), (25, 10, 2), (26, 10, 3), (24, 10, 2), (0, 7, 0), (7, 7, 1)],
)
def test_a_half_rounds_to_the_even_neighbour(numerator: int, denominator: int, whole: int) -> None:
    assert half_even(numerator, denominator) == whole


def test_missing_rates_are_derived_from_the_input_rate() -> None:
    assert _rates({TokenKind.INPUT: 1_500_000, TokenKind.OUTPUT: 7_500_000}) == {
        "input": 1_500_000,
        "cached_input": 1_500_000,
        "cache_write_5m": 1_875_000,
        "cache_write_1h": 3_000_000,
        "output": 7_500_000,
    }


def test_a_derived_cache_write_rounds_half_even() -> None:
    # 1.25 x 75_002 = 93_752.5 and 1.25 x 75_006 = 93_757.5
    assert _rates({TokenKind.INPUT: 75_002, TokenKind.OUTPUT: 0})["cache_write_5m"] == 93_752
    assert _rates({TokenKind.INPUT: 75_006, TokenKind.OUTPUT: 0})["cache_write_5m"] == 93_758


def test_a_discount_is_taken_from_the_published_rate_and_rounded_once() -> None:
    # 10 % off: 3_000_001 x 0.9 = 2_700_000.9; the cache write from 3_750_001 (1.25 x 3_000_001 = 3_750_001.25).
    rates = _rates({TokenKind.INPUT: 3_000_001, TokenKind.OUTPUT: 15_000_000}, discount_basis_points=1_000)
    assert rates["input"] == 2_700_001
    assert rates["cache_write_5m"] == 3_375_001
    assert rates["output"] == 13_500_000


def test_without_input_or_output_there_is_no_card() -> None:
    assert complete_figures({TokenKind.INPUT: 1}) == ()
    assert complete_figures({TokenKind.OUTPUT: 1}) == ()
    assert rates_of(()) is None


def test_what_was_not_published_is_marked() -> None:
    rates = rates_of(complete_figures({TokenKind.INPUT: 4, TokenKind.OUTPUT: 8, TokenKind.CACHED_INPUT: 2}))
    assert rates is not None
    assert rates.derived == {TokenKind.CACHE_WRITE_5M, TokenKind.CACHE_WRITE_1H}


def test_an_unpublished_list_rate_is_twice_the_batch_rate_and_marked_whole() -> None:
    cards = CardsEntry(provider_batch=PublishedRates(input=400_000, cached_input=40_000, output=2_000_000)).figures()
    listed = rates_of(cards["list"])
    assert listed is not None
    assert (listed.input_rate_micro_usd_per_mtok, listed.output_rate_micro_usd_per_mtok) == (800_000, 4_000_000)
    assert listed.cached_input_rate_micro_usd_per_mtok == 80_000
    assert listed.derived == set(TokenKind)


def test_the_sell_card_is_the_provider_card_unless_it_is_given() -> None:
    batch = PublishedRates(input=100, output=200)
    assert (
        CardsEntry(provider_batch=batch).figures()["sell"]
        == CardsEntry(provider_batch=batch).figures()["provider_batch"]
    )
    sold = CardsEntry(provider_batch=batch, sell=PublishedRates(input=110, output=220)).figures()
    assert next(figure.rate_micro_usd_per_mtok for figure in sold["sell"]) == 110
    assert next(figure.rate_micro_usd_per_mtok for figure in sold["provider_batch"]) == 100


def test_a_card_with_a_tier_is_not_quoted_below_it() -> None:
    figures = complete_figures({TokenKind.INPUT: 4, TokenKind.OUTPUT: 8})
    tier = RateFigure(
        kind=TokenKind.INPUT,
        published_rate_micro_usd_per_mtok=8,
        discount_basis_points=0,
        rate_micro_usd_per_mtok=8,
        is_derived=False,
        context_from_tokens=200_000,
    )
    assert rates_of(figures) is not None
    assert rates_of((*figures, tier)) is None


@given(
    rate=st.integers(min_value=0, max_value=10**12),
    discount_basis_points=st.integers(min_value=0, max_value=10_000),
)
def test_a_discounted_rate_is_within_half_a_micro_usd(rate: int, discount_basis_points: int) -> None:
    effective = _rates({TokenKind.INPUT: rate, TokenKind.OUTPUT: 0}, discount_basis_points)["input"]
    assert abs(effective * 10_000 - rate * (10_000 - discount_basis_points)) <= 5_000
