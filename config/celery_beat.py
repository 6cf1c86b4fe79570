"""The sweeps: what makes the product work when no wake-up arrives.

Each due step is published as a wake-up for the workers. When the broker is off or does not take it, and also every
``IN_PROCESS_SECONDS`` whatever the broker says (it may take messages that nobody reads), the step runs here, in a small
pool of threads. So with no broker, or no worker, batches are still finished, only more slowly.

Always holds: a second beat does no harm, because steps claim their rows; nothing is kept on disk; a broker that is away
or hangs never holds the schedule up.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Final

from celery import Celery
from celery.beat import Scheduler
from django.conf import settings
from django.db import OperationalError, connections

from config.schedule import SECONDS_BETWEEN
from ground import heartbeats
from ground.task_runs import TaskRuns
from ground.wake import Publisher, queue_of

logger = logging.getLogger(__name__)

IN_PROCESS_SECONDS: Final = 5.0
PUBLISH_SECONDS: Final = 0.5
# More than this in a queue means that nobody reads it: adding to it would only fill the disk.
STALLED_COUNT: Final = 100
THREADS: Final = 4
TICK_MAX_SECONDS: Final = 1.0
CLOSE_SECONDS: Final = 1.0
BEAT_PART: Final = "beat"


class InProcess:
    """Runs steps in threads of this process, each name at most once at a time.

    The threads do not hold up the end of the process: a step may be killed at any instruction.
    """

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._runs = TaskRuns()
        self._running: set[str] = set()
        self._guard = threading.Lock()
        self._slots = threading.Semaphore(THREADS)

    def run(self, name: str) -> bool:
        """Start a step unless it is still running, and tell whether it was started."""
        with self._guard:
            if name in self._running:
                return False
            self._running.add(name)
        threading.Thread(target=self._work, args=(name,), name=f"sweep-{name}", daemon=True).start()
        return True

    def wait_idle(self, seconds: float) -> bool:
        """Wait until no step runs, and tell whether that came true."""
        deadline = time.monotonic() + seconds
        while self._running and time.monotonic() < deadline:
            time.sleep(0.01)
        return not self._running

    def _work(self, name: str) -> None:
        try:
            with self._slots:
                if name == BEAT_PART:
                    heartbeats.beat(BEAT_PART)
                else:
                    with self._runs.noting(name):
                        self._app.tasks[name].run()
        except OperationalError as error:
            logger.warning("sweep %s has no database; it runs again: %s", name, str(error).strip())
        except Exception:
            logger.exception("sweep %s failed; it runs again", name)
        finally:
            connections.close_all()
            with self._guard:
                self._running.discard(name)


class BrokerDoor:
    """Publishes from a thread of its own, and gives up on a broker that does not answer in time."""

    def __init__(self, queues: set[str]) -> None:
        self._queues = queues
        self._publisher = Publisher()
        self._calls: queue.SimpleQueue[tuple[Callable[[str], bool], str, Future[bool]]] = queue.SimpleQueue()
        self._pending: Future[bool] | None = None
        self._stalled: dict[str, bool] = {}
        self._ends = False
        threading.Thread(target=self._work, name="publish", daemon=True).start()

    def publish(self, name: str) -> bool:
        """Send a wake-up, and tell whether a worker may be expected to take it."""
        if self._stalled.get(queue_of(name), False):
            return False
        return self._ask(self._publisher.publish, name)

    def look(self) -> None:
        """Note which queues nobody reads."""
        for name in sorted(self._queues):
            stalled = not self._ask(self._is_read, name)
            if settings.CELERY_BROKER_URL and stalled != self._stalled.get(name, False):
                logger.warning("queue %s %s", name, "is not read; its steps run here" if stalled else "is read again")
            self._stalled[name] = stalled

    def _is_read(self, name: str) -> bool:
        try:
            return self._publisher.waiting_count(name) <= STALLED_COUNT
        except Exception as error:  # noqa: BLE001 -- a broker may fail in any way
            logger.debug("queue %s cannot be counted: %s", name, error)
            self._publisher.close()
            return False

    def _ask(self, call: Callable[[str], bool], argument: str) -> bool:
        if not settings.CELERY_BROKER_URL or (self._pending is not None and not self._pending.done()):
            return False
        self._pending = Future()
        self._calls.put((call, argument, self._pending))
        try:
            return self._pending.result(PUBLISH_SECONDS)
        except FutureTimeoutError:
            return False

    def close(self) -> None:
        """Let go of the broker, if it lets go in time."""
        self._ask(self._end, "")

    def _end(self, _name: str) -> bool:
        self._publisher.close()
        self._ends = True
        return True

    def _work(self) -> None:
        while not self._ends:
            call, argument, answer = self._calls.get()
            answer.set_result(call(argument))


class SweepScheduler(Scheduler):
    """Celery's beat with a schedule in memory, a monotonic clock, and work of its own when the broker fails."""

    def __init__(self, app: Celery, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 -- Celery's
        self._due: dict[str, float] = {}
        self._in_process_due: dict[str, float] = {}
        self._look_due = 0.0
        self._seconds_between = dict(options.pop("schedule", None) or SECONDS_BETWEEN)
        self._door = BrokerDoor({queue_of(name) for name in self._seconds_between})
        self._here = InProcess(app)
        super().__init__(app, *arguments, **options)

    def setup_schedule(self) -> None:
        """Make everything due at once."""
        now = time.monotonic()
        self._due = dict.fromkeys(self._seconds_between, now)
        self._in_process_due = dict.fromkeys(self._seconds_between, now)

    def tick(self, *_arguments: object, **_options: object) -> float:
        """Start what is due and give the seconds until the next look."""
        now = time.monotonic()
        if now >= self._look_due:
            self._look_due = now + IN_PROCESS_SECONDS
            self._here.run(BEAT_PART)
            self._door.look()
        for name, due in self._due.items():
            if due <= now:
                # From now, not from when it was due: a process that was paused does not catch up.
                self._due[name] = now + self._seconds_between[name]
                self._start(name, now)
        wait = min(self._due.values(), default=now + TICK_MAX_SECONDS) - time.monotonic()
        return min(max(wait, 0.0), TICK_MAX_SECONDS)

    def close(self) -> None:
        """End, without waiting for long steps: their leases lapse and another process does them."""
        self._door.close()
        self._here.wait_idle(CLOSE_SECONDS)

    def _start(self, name: str, now: float) -> None:
        published = self._door.publish(name)
        if not published or now >= self._in_process_due[name]:
            self._in_process_due[name] = now + IN_PROCESS_SECONDS
            self._here.run(name)
