"""A group that would overfill its best lane is shared with the next one that has room; no row is lost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from routing.domain.offering import QuoteSettings
from routing.domain.quoting import make_quote_plan
from routing.domain.scoring import Candidate, WorkflowProfile
from routing.domain.splitting import split_group
from tests.routing.domain.sample import (
    AT,
    DIRECT,
    SONNET,
    SONNET_HEALTH,
    SONNET_SLUG,
    card,
    catalog,
    jsonl,
    lane,
    model,
    row,
)


def candidate(lane_id: str, limit: int, in_flight: int = 0, minimum_rows: int = 1) -> Candidate:
    return Candidate(
        lane=lane(lane_id, "m", card(1, 1), enqueued_tokens_limit=limit, minimum_rows=minimum_rows),
        health=replace(DIRECT, enqueued_tokens=in_flight),
        eligible=True,
    )


def shares(eligible: list[Candidate], tokens: list[int], *, fan_out: bool = True) -> list[tuple[str, int, int]]:
    parts = split_group(eligible, np.array(tokens, dtype=np.int64), fan_out=fan_out, fill_percent=90)
    return [(part.candidate.lane.lane_id, part.start, part.stop) for part in parts]


def test_a_group_that_fits_stays_on_the_best_lane() -> None:
    # 400 in flight + 500 = 900 = 90 % of 1,000: not over
    assert shares([candidate("a", 1_000, 400), candidate("b", 0)], [250, 250]) == [("a", 0, 2)]


def test_a_group_that_does_not_fit_fills_the_best_lane_to_its_mark() -> None:
    # room = 900 - 400 = 500: two rows of 250, the third goes on
    assert shares([candidate("a", 1_000, 400), candidate("b", 0)], [250, 250, 1]) == [("a", 0, 2), ("b", 2, 3)]


def test_the_rest_skips_a_lane_without_room_or_below_its_minimum() -> None:
    lanes = [candidate("a", 1_000), candidate("full", 100), candidate("big", 0, 0, 5), candidate("d", 1_000)]
    assert shares(lanes, [500, 400, 300]) == [("a", 0, 2), ("d", 2, 3)]


def test_without_room_anywhere_the_best_lane_takes_all() -> None:
    assert shares([candidate("a", 1_000, 950), candidate("b", 0)], [500]) == [("a", 0, 1)]
    assert shares([candidate("a", 1_000), candidate("b", 100)], [800, 800]) == [("a", 0, 2)]
    assert shares([candidate("a", 1_000, 0, 2), candidate("b", 0)], [800, 800]) == [("a", 0, 2)]


def test_a_workflow_may_forbid_it() -> None:
    assert shares([candidate("a", 10), candidate("b", 0)], [5, 6], fan_out=False) == [("a", 0, 2)]


@given(
    st.lists(st.integers(0, 1_000), min_size=1, max_size=40),
    st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 5_000), st.integers(0, 20)), min_size=1, max_size=4),
)
def test_every_row_is_in_exactly_one_share(tokens: list[int], lanes: list[tuple[int, int, int]]) -> None:
    eligible = [candidate(str(index), *figures) for index, figures in enumerate(lanes)]
    parts = shares(eligible, tokens)
    assert [row for _, start, stop in parts for row in range(start, stop)] == list(range(len(tokens)))
    assert 1 <= len(parts) <= 2
    assert all(start < stop for _, start, stop in parts)


def test_a_fanned_out_group_charges_the_primarys_rates_and_one_more_fee() -> None:
    first = replace(SONNET.lanes[0], enqueued_tokens_limit=60)
    second = replace(SONNET.lanes[1], rate_card=card(9_000_000, 9_000_000))
    mixed = catalog(model(SONNET_SLUG, first, second), health=SONNET_HEALTH)
    body = jsonl(*(row(str(index), model=SONNET_SLUG) for index in range(6)))
    plan = make_quote_plan(body, mixed, WorkflowProfile(), QuoteSettings(), AT)
    group = plan.groups[0]
    assert [item.lane_id for item in group.lanes] == ["anthropic-direct", "anthropic-bedrock-us-east-1"]
    assert {item.sell.input_rate_micro_usd_per_mtok for item in group.lanes} == {1_500_000}
    assert sum(item.usage_charge_micro_usd for item in group.lanes) == group.charge.usage_charge_micro_usd
    assert plan.estimate.fee_micro_usd == 40_000
    per_row = plan.placement.input_tokens.tolist()[0]
    kept = 54 // per_row
    assert plan.placement.rows_of_lane(0).tolist() == list(range(kept))
    assert plan.placement.rows_of_lane(1).tolist() == list(range(kept, 6))
    assert f"{6 - kept} rows go to anthropic-bedrock-us-east-1" in group.explanation.text
