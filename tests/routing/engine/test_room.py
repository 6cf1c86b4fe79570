"""A lane has room for so many tokens; a full lane is a wait, never a refusal."""

from __future__ import annotations

from datetime import timedelta

from routing.models import BatchStatus, JobState, SubLane, SubLaneState
from routing.services import collect, dispatch
from tests.routing.engine.kit import STEPS, Engine, all_at_once, chat_file, questions

LONG = "river " * 400


def test_a_job_waits_while_its_lane_has_no_room_and_runs_later(engine: Engine) -> None:
    engine.limit_lane(enqueued_tokens_limit=700)
    engine.simulator.control.change_settings(rows_per_second=1)
    first, second = engine.accept(chat_file(LONG)), engine.accept(chat_file(LONG + "again"))
    for name in ("start", "start", "submit", "submit"):
        STEPS[name]()
    assert engine.standing(first) == (SubLaneState.SUBMITTED, "")
    assert engine.standing(second) == (SubLaneState.WAITING, "enqueued_tokens_limit")
    engine.finish(first)
    engine.finish(second)
    assert engine.calls("batches.create") == 2


def test_two_workers_at_once_cannot_both_take_the_last_room(engine: Engine) -> None:
    engine.limit_lane(enqueued_tokens_limit=700)
    engine.simulator.control.change_settings(rows_per_second=1)
    batches = [engine.accept(chat_file(f"{LONG} {number}")) for number in range(4)]
    while dispatch.start_next_sub_lane():
        pass
    all_at_once(*[dispatch.submit_next_job] * 4)
    states = sorted(SubLane.objects.values_list("state", flat=True))
    assert states == ["submitted", "waiting", "waiting", "waiting"]
    for batch in batches:
        engine.finish(batch)


def test_an_organisation_that_waits_does_not_hold_up_another_lane(engine: Engine) -> None:
    engine.limit_lane(enqueued_tokens_limit=700)
    engine.simulator.control.change_settings(rows_per_second=1)
    for number in range(3):
        engine.accept(chat_file(f"{LONG} {number}"))
    other = engine.accept(chat_file("Hello", model="gpt-4o"))
    for _ in range(4):
        dispatch.start_next_sub_lane()
    for _ in range(4):
        dispatch.submit_next_job()
    assert engine.standing(other) == (SubLaneState.SUBMITTED, "")


def test_a_provider_that_has_no_room_makes_the_rows_wait_and_run_later(engine: Engine) -> None:
    engine.simulator.control.add_fault("fail_batch", code="token_limit_exceeded", times=2)
    batch = engine.accept(chat_file(LONG))
    for name in ("start", "submit", "poll"):
        STEPS[name]()
    assert engine.standing(batch) == (SubLaneState.WAITING, "enqueued_tokens_limit")
    assert [job.state for job in engine.jobs(batch)] == [JobState.ABANDONED, JobState.INTENDED]
    engine.finish(batch)
    assert (batch.status, batch.completed_count) == (BatchStatus.COMPLETED, 1)
    jobs = engine.jobs(batch)
    assert [job.state for job in jobs] == [JobState.ABANDONED, JobState.ABANDONED, JobState.COLLECTED]
    assert len({job.token for job in jobs}) == 3
    waits = [job.submitting_at - job.intended_at for job in jobs[1:] if job.submitting_at]
    assert waits[0] >= timedelta(minutes=1)
    assert waits[1] >= timedelta(minutes=2)


def test_a_job_larger_than_the_provider_allows_is_halved_until_it_fits(engine: Engine) -> None:
    batch = engine.accept(questions(8))
    dispatch.start_next_sub_lane()
    whole = engine.job(batch).estimated_input_tokens
    model_id = SubLane.objects.get(batch=batch).model_id
    engine.simulator.control.change_settings(enqueued_tokens_limits={model_id: whole // 3})
    engine.finish(batch, minutes=180)
    assert batch.completed_count == 8
    collected = [job.row_count for job in engine.jobs(batch) if job.state == JobState.COLLECTED]
    assert sum(collected) == 8
    assert max(collected) <= 4


def test_a_refusal_for_want_of_room_is_a_wait_too(engine: Engine) -> None:
    engine.fault("batches.create", "http_error", status_code=429, code="token_limit_exceeded")
    batch = engine.accept(questions(2))
    for name in ("start", "submit"):
        STEPS[name]()
    assert engine.standing(batch) == (SubLaneState.WAITING, "enqueued_tokens_limit")
    engine.finish(batch)


def test_a_job_that_failed_as_a_whole_gives_its_rows_that_outcome(engine: Engine) -> None:
    engine.simulator.control.add_fault("fail_batch", times=1)
    batch = engine.finish(engine.accept(questions(3)))
    # It was submitted, so the batch is not a failed one.
    assert (batch.status, batch.failed_count, batch.charge_micro_usd) == (BatchStatus.COMPLETED, 3, 0)
    assert engine.sub_lane(batch).state == SubLaneState.COMPLETED
    assert collect.collect_next_job() is False
