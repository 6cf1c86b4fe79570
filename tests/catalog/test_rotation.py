"""Rotating a lane: who, when, from, to, why."""

from __future__ import annotations

import pytest

from accounts.models import User
from catalog.domain.records import Rotation
from catalog.models import Lane, LaneRotation
from catalog.selectors import catalog_versions, current_catalog
from catalog.services.rotation import rotate_lane
from ground.errors import InvalidRequest, NotFound
from tests.harness.clock import Clock

KEY = ("gpt-4o", "openai-direct")


def test_a_rotation_is_logged_and_seen(operator: User, clock: Clock) -> None:
    assert rotate_lane(*KEY, Rotation.OUT, "  errors since noon ", operator)
    lane = current_catalog().lanes[KEY]
    assert (lane.rotation, lane.rotation_reason) == (Rotation.OUT, "errors since noon")
    entry = LaneRotation.objects.get()
    assert (entry.from_rotation, entry.to_rotation, entry.reason) == ("in", "out", "errors since noon")
    assert entry.changed_by == operator
    assert entry.changed_at == Lane.objects.get(pk=entry.lane_id).rotation_changed_at


def test_other_models_on_the_same_route_stay(operator: User) -> None:
    rotate_lane(*KEY, Rotation.OUT, "this model only", operator)
    assert current_catalog().lanes["gpt-4o-mini", "openai-direct"].rotation == Rotation.IN


def test_the_same_state_again_writes_nothing(operator: User) -> None:
    rotate_lane(*KEY, Rotation.DRAIN, "first reason", operator)
    versions = catalog_versions()
    assert not rotate_lane(*KEY, Rotation.DRAIN, "second reason", operator)
    assert catalog_versions() == versions
    assert LaneRotation.objects.get().reason == "first reason"


@pytest.mark.parametrize("reason", ["", "  ", "ab", " ab ", "x" * 201])
def test_a_reason_is_required(operator: User, reason: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        rotate_lane(*KEY, Rotation.OUT, reason, operator)
    assert caught.value.param == "reason"
    assert not LaneRotation.objects.exists()


def test_a_reason_of_200_characters_is_kept_whole(operator: User) -> None:
    rotate_lane(*KEY, Rotation.OUT, "x" * 200, operator)
    assert current_catalog().lanes[KEY].rotation_reason == "x" * 200


@pytest.mark.parametrize(
    "lane", [("gpt-4.1", "openai-azure-global"), ("amazon.nova-lite", "amazon-bedrock-us-east-1")], ids=str
)
def test_a_lane_without_adapter_stays_out(operator: User, lane: tuple[str, str]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        rotate_lane(*lane, Rotation.IN, "let us try", operator)
    assert caught.value.code == "no_adapter"


def test_a_retired_lane_stays_out(operator: User, clock: Clock) -> None:
    Lane.objects.filter(model__slug="gpt-4o").update(
        retires_at=clock.now(), rotation=Rotation.OUT.value, rotation_reason="gone"
    )
    with pytest.raises(InvalidRequest) as caught:
        rotate_lane(*KEY, Rotation.IN, "let us try", operator)
    assert caught.value.code == "retired"


def test_an_unknown_lane_is_not_found(operator: User) -> None:
    with pytest.raises(NotFound):
        rotate_lane("gpt-4o", "anthropic-direct", Rotation.OUT, "no such lane", operator)
