"""Lanes are chosen by integers that can be added up by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.domain.records import Lane, LaneHealth, Rotation, SlaSnapshot
from ground.errors import InvalidRequest
from routing.domain.explaining import explain
from routing.domain.offering import QuoteSettings
from routing.domain.quoting import make_quote_plan
from routing.domain.scoring import GroupDemand, Ranking, WorkflowProfile, rank_lanes
from routing.domain.splitting import Share
from tests.routing.domain.sample import (
    AT,
    BEDROCK,
    DIRECT,
    HOUSE,
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

DEFAULT = WorkflowProfile()
DEMAND = GroupDemand(row_count=10, input_tokens=10_000, output_tokens=2_000)


def snapshot(*lanes: Lane, **health: LaneHealth) -> SlaSnapshot:
    return SlaSnapshot(
        taken_at=AT,
        version=1,
        lanes={(item.model_slug, item.lane_id): health.get(item.lane_id, DIRECT) for item in lanes},
    )


@given(st.integers(1, 1_000_000), st.integers(0, 10**10), st.integers(0, 10**10))
def test_the_published_example_goes_to_the_direct_lane_at_every_token_count(rows: int, given_in: int, out: int) -> None:
    demand = GroupDemand(row_count=rows, input_tokens=given_in, output_tokens=out)
    ranking = rank_lanes(SONNET.lanes, HOUSE.sla, DEFAULT, demand, 20_000)
    assert [item.lane.lane_id for item in ranking.eligible] == ["anthropic-direct", "anthropic-bedrock-us-east-1"]
    # the rates are equal: (112 - 47) min x 500 + (11,000 - 3,000) ppm x 5,000 / 10,000 = 32,500 + 4,000
    assert ranking.margin_micro_usd == 36_500


def test_the_terms_are_as_worked_out_by_hand() -> None:
    best = rank_lanes(SONNET.lanes, HOUSE.sla, DEFAULT, DEMAND, 20_000).eligible[0]
    # 10,000 x 1.5 + 2,000 x 7.5 micro-USD + fee = 15,000 + 15,000 + 20,000
    assert best.charge_micro_usd == 50_000
    assert best.latency_penalty_micro_usd == 47 * 500
    assert best.error_penalty_micro_usd == 3_000 * 5_000 // 10_000
    assert best.score_micro_usd == 50_000 + 23_500 + 1_500


def test_equal_scores_go_by_charge_and_then_by_lane_id() -> None:
    cheap = lane("c", "m", card(1_000_000, 0))
    same = [lane("b", "m", card(1_000_000, 0)), lane("a", "m", card(1_000_000, 0)), cheap]
    ranking = rank_lanes(same, snapshot(*same), DEFAULT, DEMAND, 0)
    assert [item.lane.lane_id for item in ranking.eligible] == ["a", "b", "c"]
    dearer = replace(same[1], rate_card=card(1_050_000, 0))
    # 10,000 tokens x 0.05 = 500 micro-USD dearer, one minute faster at 500 a minute: equal scores
    faster = snapshot(dearer, cheap, a=replace(DIRECT, p95_completion_minutes=46))
    tied = rank_lanes([dearer, cheap], faster, DEFAULT, DEMAND, 0).eligible
    assert tied[0].score_micro_usd == tied[1].score_micro_usd
    assert [item.lane.lane_id for item in tied] == ["c", "a"]


def test_rejected_lanes_say_why() -> None:
    lanes = [
        lane("a-out", "m", card(1, 1), rotation=Rotation.OUT, rotation_reason="no_adapter"),
        lane("b-broken", "m", card(1, 1), rotation=Rotation.OUT, rotation_reason="the provider is down"),
        lane("c-drain", "m", card(1, 1), rotation=Rotation.DRAIN),
        lane("d-free", "m", None),
        lane("e-big", "m", card(1, 1), minimum_rows=100),
    ]
    ranking = rank_lanes(lanes, snapshot(), DEFAULT, DEMAND, 20_000)
    assert not ranking.eligible
    assert [(item.reason, item.score_micro_usd) for item in ranking.rejected] == [
        ("no_adapter", 0),
        ("out_of_rotation", 0),
        ("drain", 0),
        ("no_rate", 0),
        ("below_minimum_rows", 0),
    ]
    assert "no_adapter" in str(ranking.rejected[0].reason_text)
    # an operator's own words are for the staff
    assert ranking.rejected[1].reason_text == "out of rotation"
    assert "100 rows" in str(ranking.rejected[4].reason_text)


def test_a_lane_without_data_gets_the_stated_prior() -> None:
    only = lane("a", "m", card(0, 0))
    ranking = rank_lanes([only], SlaSnapshot(taken_at=AT, version=1), DEFAULT, DEMAND, 0)
    # 30 min x 500 + 10,000 ppm x 5,000 / 10,000
    assert ranking.eligible[0].score_micro_usd == 15_000 + 5_000
    assert "a stated prior because it has not been measured" in said(ranking)


def test_a_workflow_that_minds_neither_waiting_nor_failing_takes_the_cheapest() -> None:
    dear, cheap = SONNET.lanes[0], replace(SONNET.lanes[1], rate_card=card(1_400_000, 7_500_000))
    careless = WorkflowProfile(name="careless", penalty_micro_usd_per_minute=0, penalty_micro_usd_per_percent=0)
    ranking = rank_lanes([dear, cheap], HOUSE.sla, careless, DEMAND, 20_000)
    assert ranking.eligible[0].lane is cheap


def said(ranking: Ranking) -> str:
    return explain("m", ranking, [Share(candidate=ranking.eligible[0], start=0, stop=10)], 90)


def test_the_sentence_says_the_winners_terms_and_who_came_next() -> None:
    assert said(rank_lanes(SONNET.lanes, HOUSE.sla, DEFAULT, DEMAND, 20_000)) == (
        "anthropic-direct has the lowest score of 2 lanes: $0.075000 = $0.050000 charge with its fee"
        " + $0.023500 for 47 min (p95) + $0.001500 for 0.3 % errors."
        " Next is anthropic-bedrock-us-east-1, $0.036500 behind."
    )


def test_the_sentence_says_that_a_tie_was_decided_by_the_order() -> None:
    same = [lane("b", "m", card(1, 1)), lane("a", "m", card(1, 1))]
    assert "Next is b, with an equal score: the stable order decided." in said(
        rank_lanes(same, snapshot(*same), DEFAULT, DEMAND, 0)
    )


def test_the_sentence_names_three_lanes_that_were_left_out_and_counts_the_others() -> None:
    out = [lane(f"x{number}", "m", card(1, 1), rotation=Rotation.DRAIN) for number in range(5)]
    text = said(rank_lanes([lane("a", "m", card(1, 1)), *out], snapshot(), DEFAULT, DEMAND, 0))
    assert text.startswith("a is the only lane that can take these rows. Its score: ")
    assert text.endswith(" Left out: x0 (draining); x1 (draining); x2 (draining); and 2 more.")


def test_a_group_below_every_lanes_minimum_is_refused_with_the_minimum() -> None:
    big = model(SONNET_SLUG, *(replace(item, minimum_rows=100) for item in SONNET.lanes))
    with pytest.raises(InvalidRequest, match="takes 100 rows or more") as refused:
        make_quote_plan(jsonl(row(model=SONNET_SLUG)), catalog(big, health=SONNET_HEALTH), DEFAULT, QuoteSettings(), AT)
    assert refused.value.code == "lane_minimum"


def test_a_group_without_any_lane_in_rotation_is_refused() -> None:
    out = model("gpt-4o", lane("x", "gpt-4o", card(1, 1), rotation=Rotation.OUT, rotation_reason="outage"))
    with pytest.raises(InvalidRequest, match="x: out of rotation\\.") as refused:
        make_quote_plan(jsonl(row(model="gpt-4o")), catalog(out), DEFAULT, QuoteSettings(), AT)
    assert refused.value.code == "lane_unavailable"


def test_a_lane_with_a_minimum_is_passed_over_for_one_without() -> None:
    other = replace(SONNET.lanes[0], minimum_rows=100)
    mixed = catalog(model(SONNET_SLUG, other, SONNET.lanes[1]), health=SONNET_HEALTH)
    plan = make_quote_plan(jsonl(row(model=SONNET_SLUG)), mixed, DEFAULT, QuoteSettings(), AT)
    assert plan.groups[0].primary_lane_id == "anthropic-bedrock-us-east-1"
    assert plan.groups[0].lanes[0].health == BEDROCK
    assert [item.reason for item in plan.groups[0].explanation.candidates] == [None, "below_minimum_rows"]
