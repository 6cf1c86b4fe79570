"""Where rows go when their lane cannot do them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from catalog.domain.records import Catalog, Lane, Rotation
from routing.domain.moving import RowsToPlace, next_lane
from routing.domain.scoring import WorkflowProfile
from tests.routing.domain.sample import AT, HOUSE, SONNET, SONNET_SLUG


def chosen(
    catalog: Catalog = HOUSE,
    *,
    tried: tuple[str, ...] = (),
    minutes_left: int = 1_440,
    rows: int = 200,
    providers: tuple[str, ...] = ("anthropic", "bedrock"),
) -> str | None:
    wanted = RowsToPlace(
        model_slug=SONNET_SLUG,
        model_snapshot=SONNET.lanes[0].model_snapshot,
        tried_lane_ids=tried,
        row_count=rows,
        input_tokens=10_000,
        minutes_left=minutes_left,
    )
    lane = next_lane(catalog, wanted, providers=providers, workflow=WorkflowProfile(), at=AT)
    return lane.lane_id if lane else None


def with_lane(lane_id: str, **changes: object) -> Catalog:
    lanes: list[Lane] = [
        replace(lane, **changes) if lane.lane_id == lane_id else lane  # type: ignore[arg-type]
        for lane in SONNET.lanes
    ]
    return replace(HOUSE, models={**HOUSE.models, SONNET_SLUG: replace(SONNET, lanes=tuple(lanes))})


def test_rows_go_to_the_best_lane_they_have_not_been_on() -> None:
    assert chosen() == "anthropic-direct"
    assert chosen(tried=("anthropic-direct",)) == "anthropic-bedrock-us-east-1"
    assert chosen(tried=("anthropic-direct", "anthropic-bedrock-us-east-1")) is None


@pytest.mark.parametrize(("minutes_left", "lane_id"), [(20, "anthropic-direct"), (19, None)])
def test_a_lane_whose_median_is_longer_than_the_time_left_is_no_help(minutes_left: int, lane_id: str | None) -> None:
    # The sample's medians are 20 and 60 minutes.
    assert chosen(minutes_left=minutes_left) == lane_id


@pytest.mark.parametrize("rotation", [Rotation.DRAIN, Rotation.OUT])
def test_a_lane_out_of_rotation_takes_nothing(rotation: Rotation) -> None:
    assert chosen(with_lane("anthropic-direct", rotation=rotation)) == "anthropic-bedrock-us-east-1"


def test_a_lane_takes_no_fewer_rows_than_its_minimum() -> None:
    catalog = with_lane("anthropic-bedrock-us-east-1", minimum_rows=100)
    assert chosen(catalog, tried=("anthropic-direct",), rows=100) == "anthropic-bedrock-us-east-1"
    assert chosen(catalog, tried=("anthropic-direct",), rows=99) is None


def test_another_snapshot_is_no_substitute() -> None:
    assert chosen(with_lane("anthropic-bedrock-us-east-1", model_snapshot="other"), tried=("anthropic-direct",)) is None


def test_a_retired_lane_takes_nothing() -> None:
    catalog = with_lane("anthropic-direct", retires_at=AT)
    assert chosen(catalog) == "anthropic-bedrock-us-east-1"
    assert chosen(with_lane("anthropic-direct", retires_at=AT + timedelta(seconds=1))) == "anthropic-direct"


def test_a_model_that_is_retired_everywhere_has_no_lane() -> None:
    models = {**HOUSE.models, SONNET_SLUG: replace(SONNET, retires_at=AT)}
    assert chosen(replace(HOUSE, models=models)) is None


def test_a_lane_that_no_account_runs_takes_nothing() -> None:
    other = with_lane("anthropic-direct", provider="elsewhere")
    assert chosen(other) == "anthropic-bedrock-us-east-1"
    assert chosen(other, providers=("anthropic", "elsewhere")) == "anthropic-direct"
