"""Everything twice, at once, out of order: the same end."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import transaction

from ground.blobs import delete_blob
from ground.leases import LeaseLost, claim, moving_on
from routing.models import Batch, BatchStatus, JobState, ProviderJob
from routing.services import collect, finish
from routing.tasks import collect_jobs, finish_batches, poll_jobs, start_sub_lanes, submit_jobs
from tests.harness.laws import assert_laws, outcomes_of
from tests.routing.engine.kit import STEPS, Engine, all_at_once, questions

TASKS: tuple[Callable[[], None], ...] = (start_sub_lanes, submit_jobs, poll_jobs, collect_jobs, finish_batches)


@pytest.mark.parametrize("workers", [2, 3])
def test_every_step_done_at_once_by_several_workers_is_done_once(engine: Engine, workers: int) -> None:
    batch = engine.accept(questions(6))
    for step in STEPS.values():
        done = all_at_once(*[step] * workers)
        assert sum(done) == 1
    assert engine.calls("batches.create") == 1
    assert_laws(batch.public_id)


def test_every_task_run_twice_at_once_ends_the_batch_once(engine: Engine) -> None:
    batch = engine.accept(questions(6))
    for task in TASKS:
        all_at_once(task, task)
    assert_laws(batch.public_id)
    for task in TASKS:
        task()
    assert_laws(batch.public_id)


def test_a_batch_of_many_jobs_goes_through_many_workers_at_once(engine: Engine) -> None:
    engine.limit_lane(maximum_rows_per_job=3)
    batch = engine.accept(questions(20))
    STEPS["start"]()
    assert len(engine.jobs(batch)) == 7
    all_at_once(*[submit_jobs] * 3)
    all_at_once(*[poll_jobs] * 3)
    all_at_once(*[collect_jobs] * 4)
    assert {job.state for job in engine.jobs(batch)} == {JobState.COLLECTED}
    all_at_once(finish_batches, finish_batches)
    assert_laws(batch.public_id)


def test_all_tasks_at_once_over_several_batches_never_lock_each_other_out(engine: Engine) -> None:
    engine.limit_lane(maximum_rows_per_job=2)
    batches = [engine.accept(questions(count)) for count in (7, 5, 4)]
    for _ in range(12):
        all_at_once(*TASKS)
        engine.pass_time(1)
        batches = list(Batch.objects.order_by("pk"))
        if all(batch.status == BatchStatus.COMPLETED for batch in batches):
            break
    for batch in batches:
        assert_laws(batch.public_id)


def test_a_worker_that_was_paused_past_its_lease_changes_nothing(engine: Engine) -> None:
    batch = engine.accept(questions(4))
    for name in ("start", "submit"):
        STEPS[name]()
    stale = claim(ProviderJob, state_field="state", states=(JobState.RUNNING,))
    assert stale is not None
    engine.pass_time(61)
    engine.finish(batch)
    with pytest.raises(LeaseLost):
        stale.renew()
    with pytest.raises(LeaseLost), moving_on(ProviderJob, stale) as row:
        row.state = JobState.RUNNING
    assert_laws(batch.public_id)


def test_a_row_that_is_claimed_is_not_claimed_again_before_its_lease_ends(engine: Engine) -> None:
    engine.accept(questions(2))
    STEPS["start"]()
    first = claim(ProviderJob, state_field="state", states=(JobState.INTENDED,))
    assert claim(ProviderJob, state_field="state", states=(JobState.INTENDED,)) is None
    engine.pass_time(59)
    assert first is not None
    first.renew()
    engine.pass_time(59)
    assert claim(ProviderJob, state_field="state", states=(JobState.INTENDED,)) is None
    engine.pass_time(2)
    second = claim(ProviderJob, state_field="state", states=(JobState.INTENDED,))
    assert second is not None
    assert second.fence == first.fence + 1


def test_a_stitch_that_was_killed_is_done_again_from_the_start(engine: Engine) -> None:
    batch = engine.accept(questions(5))
    for name in ("start", "submit", "poll", "collect"):
        STEPS[name]()
    killed = claim(Batch, state_field="status", states=(BatchStatus.IN_PROGRESS,))
    assert killed is not None
    batch.refresh_from_db()
    finish._stitch(killed, batch)
    Batch.objects.filter(pk=batch.pk).update(status=BatchStatus.FINALIZING)
    assert not STEPS["finish"]()
    engine.pass_time(61)
    engine.finish(batch)


def test_a_settlement_that_lost_its_lease_is_dropped_whole(engine: Engine) -> None:
    batch = engine.accept(questions(5))
    for name in ("start", "submit", "poll", "collect"):
        STEPS[name]()
    stale = claim(Batch, state_field="status", states=(BatchStatus.IN_PROGRESS,))
    assert stale is not None
    batch.refresh_from_db()
    files = finish._stitch(stale, batch)
    engine.pass_time(61)
    engine.finish(batch)
    with pytest.raises(LeaseLost):
        finish._settle(stale, batch, files)
    for name in files.names:
        delete_blob(name)
    assert_laws(batch.public_id)


def test_a_batch_that_is_due_too_early_waits_for_its_last_row(engine: Engine) -> None:
    batch = engine.accept(questions(3))
    Batch.objects.filter(pk=batch.pk).update(due_at=engine.clock.now())
    assert STEPS["finish"]()
    assert not STEPS["finish"]()
    engine.finish(batch)


def test_a_step_that_fails_after_its_writes_leaves_nothing_written(engine: Engine) -> None:
    batch = engine.accept(questions(3))
    for name in ("start", "submit", "poll"):
        STEPS[name]()
    with transaction.atomic():
        assert collect.collect_next_job()
        assert len(outcomes_of(batch)) == 3
        # As when the connection is lost before the commit.
        transaction.set_rollback(True)
    assert not outcomes_of(batch)
    assert engine.job(batch).state == JobState.ENDED
    engine.finish(batch)
