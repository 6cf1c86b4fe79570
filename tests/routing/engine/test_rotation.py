"""Lanes that leave rotation or retire: what was not sent moves, what was sent runs on."""

from __future__ import annotations

from datetime import timedelta

from billing.domain.records import HoldState
from billing.models import Hold
from catalog.domain.records import Rotation
from catalog.models import Lane, Model
from routing.models import BatchStatus, JobState, SubLaneState
from tests.harness.laws import outcomes_of, result_lines
from tests.harness.world import do_due_steps
from tests.routing.engine.kit import MODEL, STEPS, Engine, questions
from tests.routing.engine.lanes import FIRST, SECOND, add_lane, counts_of, lanes_of, rotate


def test_rows_not_sent_yet_move_and_count_as_no_attempt(engine: Engine) -> None:
    add_lane()
    batch = engine.accept(questions(3))
    rotate(FIRST, Rotation.OUT)
    engine.finish(batch)
    assert counts_of(batch) == {FIRST: (0, 0, 0, 3, 0), SECOND: (3, 3, 0, 0, 3)}
    assert lanes_of(batch)[FIRST].state == SubLaneState.COMPLETED
    assert [(job.state, job.attempt_number) for job in engine.jobs(batch)] == [
        (JobState.ABANDONED, 1),
        (JobState.COLLECTED, 1),
    ]
    assert {line["lanehouse"]["lane_id"] for line in result_lines(batch)} == {SECOND}
    assert {line["lanehouse"]["re_dispatch_count"] for line in result_lines(batch)} == {0}
    assert engine.calls("batches.create") == 1


def test_a_job_that_was_sent_runs_on(engine: Engine) -> None:
    add_lane()
    batch = engine.accept(questions(3))
    for name in ("start", "submit"):
        STEPS[name]()
    rotate(FIRST, Rotation.OUT)
    engine.finish(batch)
    assert counts_of(batch) == {FIRST: (3, 3, 0, 0, 0)}


def test_a_lane_that_drains_keeps_its_work_and_gets_no_more(engine: Engine) -> None:
    add_lane()
    batch = engine.accept(questions(3))
    rotate(FIRST, Rotation.DRAIN)
    engine.finish(batch)
    assert counts_of(batch) == {FIRST: (3, 3, 0, 0, 0)}
    assert set(lanes_of(engine.finish(engine.accept(questions(3))))) == {SECOND}


def test_failed_rows_do_not_move_to_a_lane_that_drains(engine: Engine) -> None:
    add_lane()
    batch = engine.accept(questions(2))
    rotate(SECOND, Rotation.DRAIN)
    engine.simulator.control.add_fault("fail_batch", times=1)
    engine.finish(batch)
    assert counts_of(batch) == {FIRST: (2, 0, 2, 0, 0)}


def test_rows_that_no_lane_can_take_wait_with_a_reason_until_one_comes_back(engine: Engine) -> None:
    batch = engine.accept(questions(2))
    rotate(FIRST, Rotation.OUT)
    engine.go_on(minutes=10)
    assert engine.standing(batch) == (SubLaneState.WAITING, "lane_out_of_rotation")
    assert engine.calls("files.create") == 0
    rotate(FIRST, Rotation.IN)
    assert engine.finish(batch).completed_count == 2


def test_rows_move_while_they_wait_for_a_lane_to_come_back(engine: Engine) -> None:
    batch = engine.accept(questions(2))
    rotate(FIRST, Rotation.OUT)
    engine.go_on(minutes=3)
    add_lane()
    engine.finish(batch)
    assert counts_of(batch) == {FIRST: (0, 0, 0, 2, 0), SECOND: (2, 2, 0, 0, 2)}


def test_rows_that_left_a_lane_do_not_come_back_to_it(engine: Engine) -> None:
    add_lane()
    batch = engine.accept(questions(2))
    STEPS["start"]()
    rotate(FIRST, Rotation.OUT)
    STEPS["submit"]()
    rotate(FIRST, Rotation.IN)
    engine.simulator.control.add_fault("fail_batch", times=1)
    engine.finish(batch)
    assert counts_of(batch) == {FIRST: (0, 0, 0, 2, 0), SECOND: (2, 0, 2, 0, 2)}


def test_a_lane_that_retires_by_date_hands_its_rows_on(engine: Engine) -> None:
    add_lane()
    Lane.objects.filter(lane_id=FIRST, model__slug=MODEL).update(retires_at=engine.clock.now() + timedelta(minutes=5))
    batch = engine.accept(questions(2))
    engine.pass_time(300)
    engine.finish(batch)
    assert counts_of(batch) == {FIRST: (0, 0, 0, 2, 0), SECOND: (2, 2, 0, 0, 2)}


def test_a_lane_that_retires_without_another_ends_its_group(engine: Engine) -> None:
    Lane.objects.filter(lane_id=FIRST, model__slug=MODEL).update(retires_at=engine.clock.now() + timedelta(minutes=5))
    batch = engine.accept(questions(2))
    engine.pass_time(300)
    engine.finish(batch)
    assert (batch.status, batch.charge_micro_usd) == (BatchStatus.FAILED, 0)
    assert {outcome.code for outcome in outcomes_of(batch)} == {"model.deprecated_post_quote"}
    assert Hold.objects.get(batch_public_id=batch.public_id).state == HoldState.VOIDED
    assert lanes_of(batch)[FIRST].state == SubLaneState.FAILED


def test_a_model_that_retires_everywhere_has_no_other_lane(engine: Engine) -> None:
    add_lane()
    Model.objects.filter(slug=MODEL).update(retires_at=engine.clock.now() + timedelta(minutes=5))
    batch = engine.accept(questions(2))
    engine.pass_time(300)
    engine.finish(batch)
    assert counts_of(batch) == {FIRST: (2, 0, 2, 0, 0)}
    assert {outcome.code for outcome in outcomes_of(batch)} == {"model.deprecated_post_quote"}


def test_a_lane_without_rows_is_never_started(engine: Engine) -> None:
    add_lane()
    batch = engine.accept(questions(2))
    STEPS["start"]()
    rotate(FIRST, Rotation.OUT)
    STEPS["submit"]()
    lanes = lanes_of(batch)
    assert (lanes[FIRST].state, lanes[FIRST].ended_at is not None) == (SubLaneState.COMPLETED, True)
    assert (lanes[SECOND].state, lanes[SECOND].is_quoted, lanes[SECOND].fee_micro_usd) == ("submitting", False, 0)
    do_due_steps()
    engine.finish(batch)
