"""A workflow's constraints take lanes out, one by one and by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from catalog.domain.records import Lane, SlaSnapshot
from ground.errors import InvalidRequest
from routing.domain.constraints import LaneConstraints
from routing.domain.moving import RowsToPlace, next_lane
from routing.domain.offering import QuoteSettings
from routing.domain.quoting import make_quote_plan
from routing.domain.scoring import GroupDemand, WorkflowProfile, rank_lanes
from tests.routing.domain.sample import AT, BEDROCK, DIRECT, card, catalog, jsonl, lane, model, row

DEMAND = GroupDemand(row_count=10, input_tokens=10_000, output_tokens=2_000)
NEAR = lane("near-one", "m", card(1_000_000, 4_000_000), provider="near", region="eu")
FAR = lane("far-one", "m", card(2_000_000, 3_000_000), provider="far", region="us")
SLA = SlaSnapshot(taken_at=AT, version=1, lanes={("m", "near-one"): DIRECT, ("m", "far-one"): BEDROCK})


def under(**constraints: Any) -> WorkflowProfile:
    return WorkflowProfile(name="mine", version=1, constraints=LaneConstraints(**constraints))


def outcome(*lanes: Lane, **constraints: Any) -> tuple[list[str], dict[str, str | None]]:
    ranking = rank_lanes(lanes, SLA, under(**constraints), DEMAND, 20_000)
    return (
        [item.lane.lane_id for item in ranking.eligible],
        {item.lane.lane_id: item.constraint for item in ranking.rejected},
    )


@pytest.mark.parametrize(
    ("constraints", "left_out"),
    [
        ({"regions": ("eu", "jp")}, {"far-one": "regions"}),
        ({"providers_allowed": ("far",)}, {"near-one": "providers_allowed"}),
        ({"providers_denied": ("near",)}, {"near-one": "providers_denied"}),
        ({"max_input_rate_micro_usd_per_mtok": 1_999_999}, {"far-one": "max_input_rate_micro_usd_per_mtok"}),
        ({"max_input_rate_micro_usd_per_mtok": 2_000_000}, {}),
        ({"max_output_rate_micro_usd_per_mtok": 3_999_999}, {"near-one": "max_output_rate_micro_usd_per_mtok"}),
        ({"finish_by_minutes": 111}, {"far-one": "finish_by_minutes"}),
        ({"finish_by_minutes": 112}, {}),
        (
            {"providers_allowed": ("near",), "providers_denied": ("near",)},
            dict.fromkeys(("near-one",), "providers_denied") | {"far-one": "providers_allowed"},
        ),
    ],
)
def test_each_constraint_takes_out_what_it_says(constraints: dict[str, Any], left_out: dict[str, str]) -> None:
    eligible, rejected = outcome(NEAR, FAR, **constraints)
    assert rejected == left_out
    assert set(eligible) == {"near-one", "far-one"} - set(left_out)


def test_a_constraint_does_not_change_a_score() -> None:
    free = rank_lanes([NEAR, FAR], SLA, under(), DEMAND, 20_000)
    bound = rank_lanes([NEAR, FAR], SLA, under(regions=("us",)), DEMAND, 20_000)
    assert bound.eligible[0].score_micro_usd == free.eligible[1].score_micro_usd


def test_what_the_lane_is_itself_is_said_before_the_constraint() -> None:
    assert outcome(replace(NEAR, rate_card=None), regions=("us",)) == ([], {"near-one": None})


def test_a_refusal_names_every_lane_and_the_constraint_that_took_it_out() -> None:
    mine = catalog(model("m", NEAR, FAR), health=dict(SLA.lanes))
    with pytest.raises(InvalidRequest) as refused:
        make_quote_plan(jsonl(row(model="m")), mine, under(regions=("us",), finish_by_minutes=100), QuoteSettings(), AT)
    assert (refused.value.code, refused.value.param) == ("lane_unavailable", "workflow")
    assert {each["lane_id"]: each["constraint"] for each in refused.value.extra["rejected_lanes"]} == {
        "near-one": "regions",
        "far-one": "finish_by_minutes",
    }
    assert refused.value.message == (
        "No lane can take the rows of model m under the workflow 'mine': far-one: its p95 completion is 112 min, the"
        " workflow allows 100; near-one: its region eu is not one the workflow allows (us)."
    )


def test_a_refusal_names_the_lanes_of_every_model_that_none_can_take() -> None:
    others = [
        model("n", lane("far-one", "n", card(2_000_000, 3_000_000), region="us")),
        model("o", lane("near-two", "o", card(1_000_000, 4_000_000), region="eu")),
    ]
    mine = catalog(model("m", NEAR), *others, health=dict(SLA.lanes))
    file = jsonl(row("a", model="m"), row("b", model="n"), row("c", model="o"))
    with pytest.raises(InvalidRequest) as refused:
        make_quote_plan(file, mine, under(regions=("us",)), QuoteSettings(), AT)
    assert refused.value.extra["model"] == "m"
    assert [(each["model"], each["lane_id"]) for each in refused.value.extra["rejected_lanes"]] == [
        ("m", "near-one"),
        ("o", "near-two"),
    ]
    sentence = (
        "No lane can take the rows of model {} under the workflow 'mine': {}: its region eu is not one the workflow"
        " allows (us)."
    )
    assert refused.value.message == f"{sentence.format('m', 'near-one')} {sentence.format('o', 'near-two')}"


def test_rows_move_only_where_the_workflow_lets_them_whatever_that_costs_the_house() -> None:
    mine = catalog(model("m", NEAR, FAR), health=dict(SLA.lanes))
    rows = RowsToPlace(
        model_slug="m",
        model_snapshot=NEAR.model_snapshot,
        tried_lane_ids=("near-one",),
        row_count=1,
        input_tokens=10,
        minutes_left=1_000,
    )
    both = frozenset({"near", "far"})
    dear = under(max_input_rate_micro_usd_per_mtok=1, finish_by_minutes=1)
    moved = next_lane(mine, rows, providers=both, workflow=dear, at=AT)
    assert moved is not None
    assert moved.lane_id == "far-one"
    assert next_lane(mine, rows, providers=both, workflow=under(regions=("eu",)), at=AT) is None
