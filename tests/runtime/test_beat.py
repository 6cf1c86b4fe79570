from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from celery import Celery

from config.celery_beat import STALLED_COUNT, SweepScheduler
from config.schedule import SECONDS_BETWEEN
from ground.task_runs import TaskRuns, last_runs


class Steps:
    """An app of its own with steps that count."""

    def __init__(self) -> None:
        self.app = Celery("steps", set_as_current=False)
        self.counts: dict[str, int] = {}

    def add(self, name: str, work: Callable[[], None] = lambda: None) -> None:
        self.counts[name] = 0

        def step() -> None:
            self.counts[name] += 1
            work()

        self.app.task(name=name, shared=False)(step)


@pytest.fixture
def steps() -> Steps:
    return Steps()


@pytest.fixture
def scheduler(db: None, steps: Steps) -> Iterator[Callable[..., SweepScheduler]]:
    made = []

    def make(**seconds_between: float) -> SweepScheduler:
        made.append(SweepScheduler(steps.app, schedule=seconds_between))
        return made[-1]

    yield make
    for one in made:
        one.close()


def tick_for(scheduler: SweepScheduler, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(min(scheduler.tick(), 0.05))


def sent(broker: psycopg.Connection) -> list[str]:
    rows = broker.execute("SELECT message -> 'headers' ->> 'task' FROM pgmq.q_engine ORDER BY msg_id")
    return [name for (name,) in rows]


def test_with_the_broker_off_steps_run_here_each_time_they_are_due(
    steps: Steps, scheduler: Callable[..., SweepScheduler], settings: Any
) -> None:
    settings.CELERY_BROKER_URL = ""
    steps.add("sweep")
    tick_for(scheduler(sweep=0.2), 1.1)
    assert 4 <= steps.counts["sweep"] <= 6


def test_with_the_broker_away_steps_run_here_and_the_schedule_is_not_held_up(
    steps: Steps, scheduler: Callable[..., SweepScheduler], settings: Any
) -> None:
    settings.CELERY_BROKER_URL = "amqp://guest:guest@127.0.0.1:9//"
    settings.CELERY_BROKER_TRANSPORT_OPTIONS = {}
    steps.add("sweep")
    tick_for(scheduler(sweep=0.2), 1.5)
    assert steps.counts["sweep"] >= 3


def test_with_a_broker_steps_are_published_and_also_run_here_now_and_then(
    steps: Steps, scheduler: Callable[..., SweepScheduler], broker: psycopg.Connection
) -> None:
    steps.add("sweep")
    tick_for(scheduler(sweep=0.2), 1.1)
    assert 4 <= len(sent(broker)) <= 6
    assert set(sent(broker)) == {"sweep"}
    assert steps.counts["sweep"] == 1


def test_a_queue_that_nobody_reads_is_not_filled_and_its_steps_run_here(
    steps: Steps, scheduler: Callable[..., SweepScheduler], broker: psycopg.Connection
) -> None:
    for _ in range(STALLED_COUNT + 1):
        broker.execute("SELECT pgmq.send('engine', '{}'::jsonb)")
    steps.add("sweep")
    tick_for(scheduler(sweep=0.2), 1.1)
    assert len(sent(broker)) == STALLED_COUNT + 1
    assert steps.counts["sweep"] >= 4


def test_a_step_that_still_runs_is_not_started_again(
    steps: Steps, scheduler: Callable[..., SweepScheduler], settings: Any
) -> None:
    settings.CELERY_BROKER_URL = ""
    let_go = threading.Event()

    def wait() -> None:
        let_go.wait(10)

    steps.add("slow", wait)
    steps.add("sweep")
    tick_for(scheduler(slow=0.1, sweep=0.1), 0.6)
    assert steps.counts["slow"] == 1
    assert steps.counts["sweep"] >= 3
    let_go.set()


def test_a_step_that_fails_runs_again(
    steps: Steps, scheduler: Callable[..., SweepScheduler], settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.CELERY_BROKER_URL = ""

    def fail() -> None:
        raise ValueError

    steps.add("broken", fail)
    tick_for(scheduler(broken=0.1), 0.5)
    assert steps.counts["broken"] >= 2
    assert "sweep broken failed" in caplog.text


def test_two_beats_at_once_both_run_and_neither_minds(
    steps: Steps, scheduler: Callable[..., SweepScheduler], settings: Any
) -> None:
    settings.CELERY_BROKER_URL = ""
    steps.add("sweep")
    first, second = scheduler(sweep=0.1), scheduler(sweep=0.1)
    for _ in range(5):
        first.tick()
        second.tick()
        time.sleep(0.1)
    assert steps.counts["sweep"] >= 6


def test_beat_says_that_it_is_alive(
    steps: Steps, scheduler: Callable[..., SweepScheduler], settings: Any, app_cursor: psycopg.Cursor
) -> None:
    settings.CELERY_BROKER_URL = ""
    one = scheduler(sweep=60)
    steps.add("sweep")
    one.tick()
    one.close()
    app_cursor.execute("SELECT count(*) FROM ground_heartbeat WHERE part = 'beat'")
    assert app_cursor.fetchone() == (1,)


def test_a_run_and_a_failure_are_noted_once_in_ten_seconds(
    steps: Steps, scheduler: Callable[..., SweepScheduler], settings: Any
) -> None:
    settings.CELERY_BROKER_URL = ""

    def fail() -> None:
        raise ValueError

    steps.add("broken", fail)
    steps.add("sweep")
    tick_for(scheduler(broken=0.1, sweep=0.1), 0.5)
    noted = last_runs()
    assert {name: (run.has_failed, run.failure) for name, run in noted.items()} == {
        "broken": (True, "ValueError"),
        "sweep": (False, ""),
    }
    first, again = noted["sweep"], TaskRuns()
    again.note("sweep", took_ms=7)
    assert last_runs()["sweep"] == first
    # Another process's failure is told at once; this one's next only with its next row.
    TaskRuns().note("sweep", took_ms=8, error=KeyError("a prompt"))
    again.note("sweep", took_ms=9, error=OSError())
    told = last_runs()["sweep"]
    assert (told.took_ms, told.has_failed, told.failure) == (8, True, "KeyError")


def test_every_scheduled_name_is_a_task() -> None:
    from config.celery import app

    app.loader.import_default_modules()
    assert set(SECONDS_BETWEEN) <= set(app.tasks)


def test_queues_are_never_declared() -> None:
    from config.celery import app

    queues: list[Any] = list(app.amqp.queues.values())
    assert {queue.name for queue in queues} == {"engine", "deliveries"}
    assert all(queue.no_declare and queue.exchange.name == "" for queue in queues)
