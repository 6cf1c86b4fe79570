"""Telling of batches that have ended: each once, dear ones at once, low-cost ones gathered."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection, transaction

from catalog.domain.records import Rotation
from ground import clock
from routing.domain.scoring import WebhookMode, WorkflowProfile
from routing.models import Batch, SubLane
from routing.services.closing import cancel_batch
from routing.services.notices import gather_notices, tell_of
from tests.harness.world import do_due_steps, make_tenant
from tests.routing.engine.kit import STEPS, Engine, all_at_once, chat_file, questions
from tests.routing.engine.lanes import FIRST, SECOND, add_lane, rotate
from webhooks.models import Event


def events() -> list[tuple[str, dict[str, Any]]]:
    """Every event's type and payload, oldest first."""
    return [(event.type, json.loads(bytes(event.payload))) for event in Event.objects.order_by("pk")]


def told_ids() -> list[str]:
    return [item["id"] for _, payload in events() for item in payload["data"]["batches"]]


def assert_adds_up(item: dict[str, Any]) -> None:
    counts, lanes = item["request_counts"], item["lanes"]
    assert counts["total"] == counts["completed"] + counts["failed"] == sum(lane["row_count"] for lane in lanes)
    assert counts["completed"] == sum(lane["completed_count"] for lane in lanes)
    assert counts["failed"] == sum(lane["failed_count"] for lane in lanes)
    assert item["charge_micro_usd"] == sum(lane["charge_micro_usd"] for lane in lanes)


def test_a_low_cost_batch_is_told_of_when_its_time_comes_and_once(engine: Engine) -> None:
    batch = engine.finish(engine.accept(questions(2)))
    assert events() == []
    assert gather_notices() == 1
    ((event_type, payload),) = events()
    assert (event_type, payload["type"], payload["object"]) == ("batches.completed", "batches.completed", "event")
    assert payload["id"] == Event.objects.get().public_id
    (item,) = payload["data"]["batches"]
    assert (item["id"], item["status"], item["receipt_id"]) == (batch.public_id, "completed", batch.receipt_id)
    assert_adds_up(item)
    assert gather_notices() == 0
    assert len(events()) == 1


def test_a_dear_batch_is_told_of_at_once_and_never_gathered(engine: Engine, settings: Any) -> None:
    settings.LOW_COST_BELOW_MICRO_USD = 20_001
    add_lane()
    batch = engine.finish(engine.accept(chat_file("a" * 300, "b [[sim:fail_once]]")))
    assert (batch.charge_micro_usd or 0) > 20_000
    ((event_type, payload),) = events()
    assert (event_type, payload["type"], payload["data"]["id"]) == (
        "batch.completed",
        "batch.completed",
        batch.public_id,
    )
    assert {lane["lane_id"] for lane in payload["data"]["lanes"]} == {FIRST, SECOND}
    assert_adds_up(payload["data"])
    assert gather_notices() == 0
    assert len(events()) == 1


@pytest.mark.parametrize(("border_offset", "is_told_at_once"), [(0, True), (1, False)])
def test_the_border_itself_is_dear(engine: Engine, settings: Any, border_offset: int, *, is_told_at_once: bool) -> None:
    charge_micro_usd = engine.finish(engine.accept(questions(2))).charge_micro_usd
    assert charge_micro_usd is not None
    settings.LOW_COST_BELOW_MICRO_USD = charge_micro_usd + border_offset
    engine.finish(engine.accept(questions(2)))
    assert bool(events()) is is_told_at_once


def test_a_workflow_may_want_each_low_cost_batch_told_at_once(engine: Engine) -> None:
    batch = engine.finish(engine.accept(questions(2)))
    Batch.objects.filter(pk=batch.pk).update(is_to_be_told=False)
    batch.refresh_from_db()
    each = WorkflowProfile(name="eager", webhook_mode=WebhookMode.EACH)
    with transaction.atomic():
        tell_of(batch, list(SubLane.objects.filter(batch=batch)), each, clock.now())
    assert [event_type for event_type, _ in events()] == ["batch.completed"]
    assert not batch.is_to_be_told


def test_all_four_endings_are_told(engine: Engine) -> None:
    completed = engine.finish(engine.accept(questions(1)))
    engine.fault("batches.create", "http_error", status_code=400)
    failed = engine.finish(engine.accept(questions(2)))
    cancelled = engine.accept(questions(3))
    cancel_batch(organisation=engine.tenant.organisation, public_id=cancelled.public_id)
    engine.finish(cancelled)
    rotate(FIRST, Rotation.DRAIN)
    rotate(FIRST, Rotation.IN)
    expired = engine.accept(questions(4))
    rotate(FIRST, Rotation.OUT)
    engine.pass_time(86_400)
    engine.finish(expired)
    assert gather_notices() == 4
    ((_, payload),) = events()
    items = payload["data"]["batches"]
    assert [(item["id"], item["status"]) for item in items] == [
        (completed.public_id, "completed"),
        (failed.public_id, "failed"),
        (cancelled.public_id, "cancelled"),
        (expired.public_id, "expired"),
    ]
    for item in items:
        assert_adds_up(item)


@pytest.mark.parametrize(
    ("ending", "event_type"), [("cancel", "batch.cancelled"), ("expire", "batch.expired"), ("refuse", "batch.failed")]
)
def test_a_dear_ending_of_another_kind_has_its_own_type(
    engine: Engine, settings: Any, ending: str, event_type: str
) -> None:
    settings.LOW_COST_BELOW_MICRO_USD = 0
    batch = engine.accept(questions(2))
    if ending == "cancel":
        cancel_batch(organisation=engine.tenant.organisation, public_id=batch.public_id)
    elif ending == "expire":
        engine.pass_time(86_400)
    else:
        engine.fault("batches.create", "http_error", status_code=400)
    engine.finish(batch)
    assert [found for found, _ in events()] == [event_type]


def test_an_event_holds_a_hundred_batches_and_20_kilobytes_at_most(engine: Engine) -> None:
    for _ in range(3):
        engine.accept(questions(1))
    do_due_steps()
    copies = list(Batch.objects.filter(is_to_be_told=True))
    assert len(copies) == 3
    make_told_batches(copies[0], 120)
    assert gather_notices() == 123
    found = events()
    sizes = [len(payload["data"]["batches"]) for _, payload in found]
    assert sum(sizes) == 123
    assert max(sizes) <= 100
    assert all(len(bytes(event.payload)) <= 20_000 for event in Event.objects.all())
    assert len(set(told_ids())) == 123


def test_a_batch_too_wide_for_one_event_is_told_without_its_lanes(engine: Engine) -> None:
    batch = engine.finish(engine.accept(questions(1)))
    for number in range(1, 150):
        lane = SubLane.objects.filter(batch=batch).order_by("number")[0]
        lane.pk, lane.number, lane.lane_id, lane.row_count = None, number, f"lane-{number}", 0
        lane.completed_count = lane.failed_count = 0
        lane.save()
    assert gather_notices() == 1
    ((_, payload),) = events()
    (item,) = payload["data"]["batches"]
    assert item["id"] == batch.public_id
    assert "lanes" not in item


def make_told_batches(like: Batch, count: int) -> None:
    """Copies of an ended batch that nobody was told of."""
    sub_lanes = list(SubLane.objects.filter(batch=like))
    for number in range(count):
        copy = Batch.objects.get(pk=like.pk)
        copy.pk, copy.public_id, copy.quote_id = None, f"batch_copy{number:03}", f"qt_copy{number:03}"
        copy.save()
        for sub_lane in sub_lanes:
            sub_lane.pk, sub_lane.batch = None, copy
            sub_lane.save()


def test_each_organisation_hears_of_its_own(engine: Engine) -> None:
    other = make_tenant("globex")
    mine, theirs = engine.accept(questions(1)), engine.accept(questions(1), other)
    do_due_steps()
    assert gather_notices() == 2
    told = {
        event.organisation_id: [item["id"] for item in json.loads(bytes(event.payload))["data"]["batches"]]
        for event in Event.objects.all()
    }
    assert told == {engine.tenant.organisation.pk: [mine.public_id], other.organisation.pk: [theirs.public_id]}


def test_two_gatherers_at_once_tell_of_each_batch_once(engine: Engine) -> None:
    batches = [engine.accept(questions(1)) for _ in range(6)]
    do_due_steps()
    assert sum(all_at_once(gather_notices, gather_notices, gather_notices)) == 6
    assert sorted(told_ids()) == sorted(batch.public_id for batch in batches)


class Killed(BaseException):
    """The process is killed here."""


def test_a_gatherer_killed_before_any_of_its_statements_tells_once_in_the_end(engine: Engine) -> None:
    batch = engine.finish(engine.accept(questions(1)))
    for number in range(100):
        left = [number]

        def die(execute: Any, *arguments: Any, left: list[int] = left) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return execute(*arguments)

        try:
            with connection.execute_wrapper(die):
                gather_notices()
        except Killed:
            assert told_ids() in ([], [batch.public_id])
        else:
            break
    assert number > 5
    assert told_ids() == [batch.public_id]


def test_a_settlement_that_is_rolled_back_tells_nobody(engine: Engine, settings: Any) -> None:
    settings.LOW_COST_BELOW_MICRO_USD = 0
    batch = engine.accept(questions(1))
    for name in ("start", "submit", "poll", "collect"):
        assert STEPS[name]()
    with transaction.atomic():
        assert STEPS["finish"]()
        assert len(events()) == 1
        transaction.set_rollback(True)
    assert events() == []
    engine.pass_time(61)
    engine.finish(batch)
    assert len(events()) == 1


def test_what_was_told_never_changes(engine: Engine) -> None:
    engine.finish(engine.accept(questions(1)))
    gather_notices()
    before = bytes(Event.objects.get().payload)
    Batch.objects.update(is_to_be_told=True)
    gather_notices()
    assert bytes(Event.objects.get().payload) == before
