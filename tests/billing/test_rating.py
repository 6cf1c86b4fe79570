"""From tokens to receipt lines; values worked out by hand."""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.domain.rating import (
    charged_tokens,
    payable_by_account,
    rate_batch,
    row_charge_pico_usd,
    row_charges_pico_usd,
)
from billing.domain.records import ChargedGroup, ChargedTokens, LineKind, ProviderCost, TokenCounts
from catalog.domain.records import Rates, TokenKind
from tests.billing.kit import fee, group, settlement, usage

HAIKU = Rates(
    input_rate_micro_usd_per_mtok=400_000,
    cached_input_rate_micro_usd_per_mtok=40_000,
    cache_write_5m_rate_micro_usd_per_mtok=500_000,
    cache_write_1h_rate_micro_usd_per_mtok=800_000,
    output_rate_micro_usd_per_mtok=2_000_000,
)


def flat(rate_in: int, rate_cached: int, rate_write: int, rate_out: int) -> Rates:
    return Rates(
        input_rate_micro_usd_per_mtok=rate_in,
        cached_input_rate_micro_usd_per_mtok=rate_cached,
        cache_write_5m_rate_micro_usd_per_mtok=rate_write,
        cache_write_1h_rate_micro_usd_per_mtok=rate_write,
        output_rate_micro_usd_per_mtok=rate_out,
    )


@pytest.mark.parametrize(
    ("tokens", "rates", "pico_usd"),
    [
        # 3 x 3 + 12,304 x 3.75 + 550 x 15 = 9 + 46,140 + 8,250 micro-USD: a cache write is billed once.
        (
            TokenCounts(input_tokens=3, cache_write_5m_tokens=12_304, output_tokens=550),
            flat(3_000_000, 300_000, 3_750_000, 15_000_000),
            54_399_000_000,
        ),
        # 86 x 2.5 + 1,920 x 1.25 + 300 x 10 = 215 + 2,400 + 3,000 micro-USD: the cached part at its own rate.
        (
            TokenCounts(input_tokens=86, cached_input_tokens=1_920, output_tokens=300),
            flat(2_500_000, 1_250_000, 0, 10_000_000),
            5_615_000_000,
        ),
        # Each kind once: 1 x 0.4 + 10 x 0.04 + 100 x 0.5 + 1,000 x 0.8 + 10,000 x 2 = 20,850.8 micro-USD.
        (
            TokenCounts(
                input_tokens=1,
                cached_input_tokens=10,
                cache_write_5m_tokens=100,
                cache_write_1h_tokens=1_000,
                output_tokens=10_000,
            ),
            HAIKU,
            20_850_800_000,
        ),
    ],
)
def test_a_row_is_charged_by_kind(tokens: TokenCounts, rates: Rates, pico_usd: int) -> None:
    assert row_charge_pico_usd(tokens, rates) == pico_usd


@given(st.lists(st.tuples(*[st.integers(0, 2**40)] * 5), max_size=5))
def test_many_rows_at_once_are_charged_as_one_by_one(rows: list[tuple[int, ...]]) -> None:
    names = [field.name for field in fields(TokenCounts)]
    tokens = np.array(rows, dtype=np.int64).reshape(-1, 5)
    expected = [row_charge_pico_usd(TokenCounts(**dict(zip(names, row, strict=True))), HAIKU) for row in rows]
    if all(charge < 2**63 for charge in expected):
        assert row_charges_pico_usd(tokens, HAIKU).tolist() == expected


def test_a_charge_that_no_column_holds_is_refused_and_never_wrapped() -> None:
    tokens = np.array([[2**62, 0, 0, 0, 0]])
    with pytest.raises(OverflowError):
        row_charges_pico_usd(tokens, HAIKU)
    assert row_charges_pico_usd(tokens, flat(1, 0, 0, 0)).tolist() == [2**62]


@pytest.mark.parametrize(
    ("row_count", "rate", "micro_usd"),
    [
        (10_000, 75_000, 750),  # each row alone is 0.075 micro-USD and would round to nothing
        (1_000_000, 50_000, 50_000),
        (20, 75_000, 2),  # 1.5: a tie, to the even neighbour
        (60, 75_000, 4),  # 4.5: a tie, to the even neighbour
    ],
)
def test_tiny_rows_are_rounded_once_together(row_count: int, rate: int, micro_usd: int) -> None:
    rated = rate_batch(settlement(1, "batch_1", group("a", (TokenKind.INPUT, rate, row_count))))
    assert rated.total_micro_usd == micro_usd
    assert rated.lines[0].exact_pico_usd == row_count * rate


def test_lines_are_keyed_by_group_kind_and_rate() -> None:
    both = group(
        "a", (TokenKind.OUTPUT, 7, 1), (TokenKind.INPUT, 9, 4), (TokenKind.INPUT, 3, 1), (TokenKind.INPUT, 9, 6)
    )
    rated = rate_batch(settlement(1, "batch_1", both, usage("b", 5)))
    assert [(line.group_key, line.kind, line.rate_micro_usd_per_mtok, line.tokens) for line in rated.lines] == [
        ("a", LineKind.INPUT, 3, 1),
        ("a", LineKind.INPUT, 9, 10),
        ("a", LineKind.OUTPUT, 7, 1),
        ("b", LineKind.INPUT, 1_000_000, 5),
    ]


def test_a_fee_is_a_line_of_its_own_and_a_zero_fee_none() -> None:
    rated = rate_batch(settlement(1, "batch_1", usage("a", 100), fees=[fee("a", 20_000), fee("a", 0, lane="second")]))
    assert [(line.kind, line.amount_micro_usd, line.tokens) for line in rated.lines] == [
        (LineKind.INPUT, 100, 100),
        (LineKind.CONTROL_PLANE_FEE, 20_000, None),
    ]
    assert rated.total_micro_usd == 20_100


def test_usage_above_the_ceiling_is_given_back_in_one_line() -> None:
    # The ceiling of 300 includes 20 of fees, so usage may be 280; it is 100 + 250.
    rated = rate_batch(
        settlement(1, "batch_1", usage("a", 100), usage("b", 250), fees=[fee("a", 20)], ceiling_micro_usd=300)
    )
    credit = rated.lines[-1]
    assert (credit.kind, credit.group_key, credit.amount_micro_usd) == (LineKind.CEILING_CREDIT, "b", -70)
    assert (rated.usage_micro_usd, rated.ceiling_credit_micro_usd, rated.total_micro_usd) == (350, 70, 300)
    assert rated.charge_of_group_micro_usd("b") == 180


def test_usage_at_its_ceiling_has_no_credit() -> None:
    rated = rate_batch(settlement(1, "batch_1", usage("a", 280), fees=[fee("a", 20)], ceiling_micro_usd=300))
    assert rated.ceiling_credit_micro_usd == 0


def test_a_fee_that_was_quoted_but_not_charged_does_not_raise_the_ceiling() -> None:
    rated = rate_batch(
        settlement(1, "batch_1", usage("a", 290), fees=[], ceiling_micro_usd=300, quoted_fee_micro_usd=20)
    )
    assert rated.total_micro_usd == 280


def test_provider_cost_is_summed_exactly_and_rounded_once_an_account() -> None:
    costs = [
        ProviderCost(provider="openai", provider_account="main", cost_pico_usd=700_000),
        ProviderCost(provider="anthropic", provider_account="main", cost_pico_usd=2_500_000),
        ProviderCost(provider="openai", provider_account="main", cost_pico_usd=700_000),
    ]
    assert payable_by_account(costs) == {("anthropic", "main"): 2, ("openai", "main"): 1}


counts = st.builds(
    TokenCounts,
    input_tokens=st.integers(0, 10**7),
    cached_input_tokens=st.integers(0, 10**7),
    cache_write_5m_tokens=st.integers(0, 10**7),
    cache_write_1h_tokens=st.integers(0, 10**7),
    output_tokens=st.integers(0, 10**7),
)


def _total(rows: list[TokenCounts]) -> TokenCounts:
    return TokenCounts(
        input_tokens=sum(row.input_tokens for row in rows),
        cached_input_tokens=sum(row.cached_input_tokens for row in rows),
        cache_write_5m_tokens=sum(row.cache_write_5m_tokens for row in rows),
        cache_write_1h_tokens=sum(row.cache_write_1h_tokens for row in rows),
        output_tokens=sum(row.output_tokens for row in rows),
    )


@given(rows=st.lists(counts, max_size=30), cuts=st.lists(st.integers(0, 30), max_size=4))
def test_rows_add_up_to_lines_however_they_are_cut_into_jobs(rows: list[TokenCounts], cuts: list[int]) -> None:
    whole = rate_batch(settlement(1, "batch_1", group_of(charged_tokens(_total(rows), HAIKU))))
    bounds = [0, *sorted(cuts), len(rows)]
    jobs = [charged_tokens(_total(rows[start:end]), HAIKU) for start, end in pairwise(bounds)]
    cut = rate_batch(settlement(1, "batch_1", group_of(sum(jobs, ()))))
    assert cut == whole
    assert sum(line.exact_pico_usd for line in whole.lines) == sum(row_charge_pico_usd(row, HAIKU) for row in rows)


def group_of(charged: tuple[ChargedTokens, ...]) -> ChargedGroup:
    return group("a", *((each.kind, each.rate_micro_usd_per_mtok, each.tokens) for each in charged))


@given(
    groups=st.lists(
        st.lists(st.tuples(st.sampled_from(TokenKind), st.integers(0, 10**9), st.integers(0, 10**9)), max_size=6),
        max_size=4,
    ),
    fees=st.lists(st.integers(0, 10**6), max_size=3),
    ceiling_micro_usd=st.integers(0, 10**13),
)
def test_lines_add_up_and_never_pass_the_ceiling(
    groups: list[list[tuple[TokenKind, int, int]]], fees: list[int], ceiling_micro_usd: int
) -> None:
    rated = rate_batch(
        settlement(
            1,
            "batch_1",
            *(group(str(number), *charged) for number, charged in enumerate(groups)),
            fees=[fee("0", each, lane=str(number)) for number, each in enumerate(fees)],
            ceiling_micro_usd=ceiling_micro_usd,
        )
    )
    assert sum(line.amount_micro_usd for line in rated.lines) == rated.total_micro_usd
    assert all(abs(line.amount_micro_usd * 1_000_000 - line.exact_pico_usd) <= 500_000 for line in rated.lines)
    assert rated.usage_micro_usd - rated.ceiling_credit_micro_usd <= max(ceiling_micro_usd - sum(fees), 0)
    assert rated.total_micro_usd >= 0
    by_group = {line.group_key for line in rated.lines}
    assert sum(map(rated.charge_of_group_micro_usd, by_group)) == rated.total_micro_usd
