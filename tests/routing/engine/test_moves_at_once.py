"""Moves in bad weather: opposite ones at once, killed anywhere, and at no moment a row too many or too few."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection

from catalog.domain.records import Rotation
from ground import clock
from ground.leases import claim
from routing.models import Batch, JobState, ProviderJob, SubLane
from routing.services import collect, dispatch
from tests.harness.laws import ENDED, assert_laws
from tests.harness.world import do_due_steps
from tests.routing.engine.kit import STEPS, Engine, all_at_once, chat_file, questions
from tests.routing.engine.lanes import FIRST, SECOND, THIRD, add_lane, counts_of, fan_out, rotate
from tests.routing.engine.test_weather import disturb


class Killed(BaseException):
    """The process is killed here."""


@contextmanager
def killed_before_statement(number: int) -> Iterator[list[int]]:
    """Let the process die before its n-th statement; gives how many there were."""
    seen = [0]

    def count(execute: Callable[..., Any], *arguments: Any) -> Any:
        if seen[0] == number:
            raise Killed
        seen[0] += 1
        return execute(*arguments)

    with connection.execute_wrapper(count):
        yield seen


def assert_rows_add_up(*batches: Batch) -> None:
    """The law that holds at every moment."""
    for batch in batches:
        lanes = list(SubLane.objects.filter(batch=batch))
        assert sum(lane.row_count for lane in lanes) == batch.row_count
        assert sum(lane.moved_out_count for lane in lanes) == sum(lane.re_dispatched_count for lane in lanes)
        assert all(lane.reported_count <= lane.row_count for lane in lanes)
        current = Batch.objects.get(pk=batch.pk)
        assert sum(lane.completed_count for lane in lanes) == current.completed_count
        assert sum(lane.failed_count for lane in lanes) == current.failed_count


def all_jobs_are(state: JobState, batch: Batch) -> bool:
    return {job.state for job in ProviderJob.objects.filter(batch=batch)} == {state}


def both_lanes_failed(engine: Engine) -> Batch:
    """A batch over two lanes whose rows failed on both and are to be collected: they move in opposite directions."""
    batch = fan_out(engine, *(f"{letter} [[sim:fail_once]]" for letter in "abcdefgh"))
    for name in ("start", "start", "submit", "submit", "poll", "poll"):
        STEPS[name]()
    assert all_jobs_are(JobState.ENDED, batch)
    return batch


@pytest.mark.parametrize("_time", range(3))
def test_opposite_moves_at_once_never_wait_for_each_other(engine: Engine, _time: int) -> None:
    batch = both_lanes_failed(engine)
    assert all_at_once(collect.collect_next_job, collect.collect_next_job) == [True, True]
    assert counts_of(batch) == {FIRST: (4, 0, 0, 4, 4), SECOND: (4, 0, 0, 4, 4)}
    assert_rows_add_up(batch)
    engine.finish(batch)
    assert batch.completed_count == 8


def test_two_jobs_move_to_one_new_lane_at_once(engine: Engine) -> None:
    add_lane()
    engine.limit_lane(maximum_rows_per_job=2)
    batch = engine.accept(questions(6))
    STEPS["start"]()
    rotate(FIRST, Rotation.OUT)
    all_at_once(*[dispatch.submit_next_job] * 3)
    assert counts_of(batch) == {FIRST: (0, 0, 0, 6, 0), SECOND: (6, 0, 0, 0, 6)}
    assert sorted(job.number for job in engine.jobs(batch) if job.sub_lane.lane_id == SECOND) == [0, 1, 2]
    engine.finish(batch)


def test_a_collect_killed_before_any_of_its_statements_is_done_once_later(engine: Engine) -> None:
    add_lane()
    batch = engine.accept(chat_file("a", "b [[sim:fail_once]]", "c [[sim:fail_once]]"))
    for name in ("start", "submit", "poll"):
        STEPS[name]()
    died_count = die_everywhere(engine, collect.collect_next_job, batch)
    assert died_count > 15
    assert counts_of(batch) == {FIRST: (1, 1, 0, 2, 0), SECOND: (2, 0, 0, 0, 2)}
    engine.finish(batch)
    assert batch.completed_count == 3


def test_a_move_out_of_rotation_killed_before_any_of_its_statements_is_done_once_later(engine: Engine) -> None:
    add_lane()
    batch = engine.accept(questions(3))
    STEPS["start"]()
    rotate(FIRST, Rotation.OUT)
    died_count = die_everywhere(engine, dispatch.submit_next_job, batch)
    assert died_count > 10
    assert counts_of(batch) == {FIRST: (0, 0, 0, 3, 0), SECOND: (3, 0, 0, 0, 3)}
    engine.finish(batch)


def die_everywhere(engine: Engine, step: Callable[[], bool], batch: Batch) -> int:
    """Do one step, killed before its first statement, its second and so on, until it comes to its end."""
    before = counts_of(batch)
    for number in range(200):
        try:
            with killed_before_statement(number):
                assert step()
        except Killed:
            assert counts_of(batch) == before
            assert_rows_add_up(batch)
            engine.pass_time(61)
        else:
            return number
    raise AssertionError("the step has no end")


@pytest.mark.parametrize("number", range(6))
def test_rows_add_up_after_every_step_in_any_weather(engine: Engine, number: int) -> None:
    luck = random.Random(1_000 + number)
    engine.limit_lane(maximum_rows_per_job=luck.randint(2, 6))
    add_lane()
    add_lane(THIRD, p95_minutes=200, minimum_rows=luck.choice([1, 2]))
    marks = ["", "[[sim:fail_once]]", "[[sim:fail]]", "[[sim:context_length]]"]
    sizes = (9, 5, 1)
    batches = [engine.accept(chat_file(*(f"{luck.random()} {luck.choice(marks)}" for _ in range(n)))) for n in sizes]
    for turn in range(400):
        if turn < 25:
            disturb(engine, luck)
        if turn < 40 and luck.random() < 0.3:
            rotate(luck.choice([FIRST, SECOND, THIRD]), luck.choice(list(Rotation)))
        if turn == 40:
            for lane_id in (FIRST, SECOND, THIRD):
                rotate(lane_id, Rotation.IN)
        if luck.random() < 0.2:
            all_at_once(*luck.sample(list(STEPS.values()), 3))
        for _ in range(6):
            luck.choice(list(STEPS.values()))()
            assert_rows_add_up(*batches)
        engine.pass_time(luck.choice([0, 1, 30, 90]))
        if all(batch.status in ENDED for batch in Batch.objects.all()):
            break
    for batch in batches:
        assert_laws(batch.public_id)


def test_two_groups_with_two_lanes_each_come_back_as_one_batch(engine: Engine) -> None:
    add_lane()
    add_lane(model="gpt-4o")
    body = chat_file("a", "b [[sim:fail_once]]") + chat_file("c [[sim:fail_once]]", "d", model="gpt-4o").replace(
        b"row-", b"other-"
    )
    batch = engine.finish(engine.accept(body))
    lanes = [
        (lane.model_slug, lane.lane_id, lane.row_count, lane.moved_out_count, lane.re_dispatched_count)
        for lane in SubLane.objects.filter(batch=batch).order_by("model_slug", "number")
    ]
    assert lanes == [
        ("gpt-4o", FIRST, 1, 1, 0),
        ("gpt-4o", SECOND, 1, 0, 1),
        ("gpt-4o-mini", FIRST, 1, 1, 0),
        ("gpt-4o-mini", SECOND, 1, 0, 1),
    ]
    assert batch.completed_count == 4
    assert (batch.charge_micro_usd or 0) > 40_000


def test_a_worker_that_lost_its_lease_moves_nothing(engine: Engine) -> None:
    batch = both_lanes_failed(engine)
    stale = claim(ProviderJob, state_field="state", states=(JobState.ENDED,))
    assert stale is not None
    engine.pass_time(61)
    do_due_steps()
    assert clock.now() == engine.clock.now()
    assert_rows_add_up(batch)
    engine.finish(batch)
