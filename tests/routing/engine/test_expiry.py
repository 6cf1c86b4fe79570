"""The window's end: jobs are cancelled, results collected for a quarter of an hour more, the batch finalised."""

from __future__ import annotations

from datetime import timedelta

from billing.domain.records import HoldState
from billing.models import AttemptFact, Hold
from catalog.domain.records import Rotation
from routing.models import Batch, BatchStatus, JobState, SubLaneState
from routing.services.closing import cancel_batch, expire_batches
from tests.harness.laws import outcomes_of
from tests.harness.world import do_due_steps
from tests.routing.engine.kit import STEPS, Engine, questions
from tests.routing.engine.lanes import FIRST, add_lane, counts_of, lanes_of, rotate

DAY = 24 * 3_600


def begin_slow(engine: Engine, count: int = 10, **settings: object) -> Batch:
    """A batch of which nothing comes back before the window ends."""
    engine.simulator.control.change_settings(validation_seconds=10 * DAY, **settings)
    batch = engine.accept(questions(count))
    do_due_steps()
    return batch


def pass_to_the_end_of_the_window(engine: Engine, batch: Batch) -> None:
    engine.pass_time((batch.expires_at - engine.clock.now()).total_seconds())


def test_the_window_is_24_hours_from_the_accept(engine: Engine) -> None:
    batch = begin_slow(engine)
    assert batch.expires_at == batch.created_at + timedelta(hours=24)
    pass_to_the_end_of_the_window(engine, batch)
    engine.clock.advance(seconds=-1)
    assert expire_batches() == 0
    engine.clock.advance(seconds=1)
    assert expire_batches() == 1
    assert expire_batches() == 0


def test_rows_that_were_not_done_end_expired_and_cost_nothing(engine: Engine) -> None:
    batch = begin_slow(engine)
    pass_to_the_end_of_the_window(engine, batch)
    engine.finish(batch, step_seconds=3)
    assert (batch.status, batch.charge_micro_usd, batch.failed_count) == (BatchStatus.EXPIRED, 0, 10)
    assert {(outcome.outcome, outcome.code) for outcome in outcomes_of(batch)} == {("expired", "batch_expired")}
    assert set(AttemptFact.objects.values_list("outcome", flat=True)) == {"expired"}
    assert lanes_of(batch)[FIRST].state == SubLaneState.EXPIRED
    assert Hold.objects.get(batch_public_id=batch.public_id).state == HoldState.SETTLED
    assert batch.expired_at is not None
    assert engine.calls("batches.cancel") == 1


def test_what_the_provider_did_until_then_is_delivered_and_charged(engine: Engine) -> None:
    engine.simulator.control.change_settings(rows_per_second=1 / 3_600)
    batch = engine.accept(questions(30))
    do_due_steps()
    pass_to_the_end_of_the_window(engine, batch)
    engine.finish(batch, step_seconds=3)
    assert (batch.status, batch.completed_count, batch.failed_count) == (BatchStatus.EXPIRED, 24, 6)
    assert (batch.charge_micro_usd or 0) > 20_000


def test_results_that_come_within_a_quarter_of_an_hour_are_kept(engine: Engine) -> None:
    engine.simulator.control.change_settings(rows_per_second=1, cancelling_seconds=14 * 60)
    batch = engine.accept(questions(5))
    engine.simulator.control.add_fault("http_error", operation="batches.retrieve", status_code=500)
    do_due_steps()
    pass_to_the_end_of_the_window(engine, batch)
    engine.go_on(minutes=14)
    engine.simulator.control.clear_faults()
    engine.finish(batch, step_seconds=5)
    assert (batch.status, batch.completed_count) == (BatchStatus.EXPIRED, 5)


def test_what_does_not_end_within_a_quarter_of_an_hour_is_given_up(engine: Engine) -> None:
    batch = begin_slow(engine, cancelling_seconds=10 * DAY)
    pass_to_the_end_of_the_window(engine, batch)
    engine.go_on(minutes=14)
    batch.refresh_from_db()
    assert (batch.status, engine.job(batch).state) == (BatchStatus.IN_PROGRESS, JobState.RUNNING)
    engine.finish(batch, minutes=3)
    assert batch.status == BatchStatus.EXPIRED
    assert {outcome.code for outcome in outcomes_of(batch)} == {"batch_expired"}


def test_results_that_cannot_be_read_in_time_are_given_up(engine: Engine) -> None:
    engine.simulator.control.add_fault("http_error", operation="files.content", status_code=500)
    batch = engine.accept(questions(3))
    do_due_steps()
    pass_to_the_end_of_the_window(engine, batch)
    engine.go_on(minutes=10)
    assert engine.job(batch).state == JobState.ENDED
    engine.finish(batch, minutes=20)
    assert (batch.status, batch.charge_micro_usd) == (BatchStatus.EXPIRED, 0)


def test_an_engine_that_was_away_when_the_window_ended_still_brings_in_what_is_there(engine: Engine) -> None:
    batch = engine.accept(questions(3))
    for name in ("start", "submit"):
        assert STEPS[name]()
    engine.pass_time(DAY + 2 * 3_600)
    assert expire_batches() == 1
    # The ending comes before anybody has polled.
    assert STEPS["finish"]()
    engine.finish(batch)
    assert (batch.status, batch.completed_count) == (BatchStatus.EXPIRED, 3)


def test_a_provider_that_is_away_at_the_end_is_asked_again_and_then_given_up(engine: Engine) -> None:
    batch = begin_slow(engine)
    engine.simulator.control.add_fault("cut_before")
    pass_to_the_end_of_the_window(engine, batch)
    engine.finish(batch, minutes=20)
    assert batch.status == BatchStatus.EXPIRED
    # Every 2 s at first, every minute at last.
    assert 10 < engine.calls("batches.cancel") < 40


def test_a_job_that_nobody_can_find_is_given_up(engine: Engine) -> None:
    engine.fault("batches.create", "cut_before")
    engine.simulator.control.add_fault("http_error", operation="batches.list", status_code=500)
    batch = engine.accept(questions(2))
    do_due_steps()
    pass_to_the_end_of_the_window(engine, batch)
    engine.finish(batch, minutes=20)
    assert (batch.status, batch.charge_micro_usd) == (BatchStatus.EXPIRED, 0)


def test_rows_that_waited_all_day_end_expired_and_their_batch_is_no_failure(engine: Engine) -> None:
    batch = engine.accept(questions(2))
    rotate(FIRST, Rotation.OUT)
    do_due_steps()
    pass_to_the_end_of_the_window(engine, batch)
    engine.finish(batch)
    assert batch.status == BatchStatus.EXPIRED
    assert engine.calls("files.create") == 0


def test_rows_of_an_expired_batch_do_not_move(engine: Engine) -> None:
    add_lane(p50_minutes=0)
    engine.simulator.control.change_settings(rows_per_second=1 / 3_600)
    batch = engine.accept(questions(30))
    do_due_steps()
    pass_to_the_end_of_the_window(engine, batch)
    engine.finish(batch, step_seconds=3)
    assert counts_of(batch) == {FIRST: (30, 24, 6, 0, 0)}


def test_a_batch_cancelled_before_its_window_ends_stays_cancelled(engine: Engine) -> None:
    batch = begin_slow(engine, cancelling_seconds=10 * DAY)
    cancel_batch(organisation=engine.tenant.organisation, public_id=batch.public_id)
    pass_to_the_end_of_the_window(engine, batch)
    engine.finish(batch, minutes=20)
    assert batch.status == BatchStatus.CANCELLED
    assert {outcome.code for outcome in outcomes_of(batch)} == {"batch_cancelled"}


def test_a_batch_whose_rows_are_all_done_does_not_expire(engine: Engine) -> None:
    batch = engine.accept(questions(2))
    for name in ("start", "submit", "poll", "collect"):
        assert STEPS[name]()
    pass_to_the_end_of_the_window(engine, batch)
    assert engine.finish(batch).status == BatchStatus.COMPLETED
