"""How each scheduled task last ran: one row a task, written by whoever ran it, now and then.

Always holds: a process writes a task's row at most once in ``NOTE_SECONDS``, and what cannot be written is left out:
the record is never in the way of the work. A failure in between is told with the next row.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db import Error, connection

from ground import clock

logger = logging.getLogger(__name__)

NOTE_SECONDS: Final = 10.0

_NOTE: Final = """
INSERT INTO ground_task_run AS kept (name, ran_at, took_ms, failed_at, failure)
VALUES (%(name)s, %(ran_at)s, %(took_ms)s, %(failed_at)s, %(failure)s)
ON CONFLICT (name) DO UPDATE SET ran_at = EXCLUDED.ran_at, took_ms = EXCLUDED.took_ms,
    failed_at = coalesce(EXCLUDED.failed_at, kept.failed_at),
    failure = CASE WHEN EXCLUDED.failed_at IS NULL THEN kept.failure ELSE EXCLUDED.failure END
WHERE EXCLUDED.failed_at IS NOT NULL OR kept.ran_at <= EXCLUDED.ran_at - make_interval(secs => %(apart)s)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
    """The last run of a task that was noted, and its last failure: the name of what was raised."""

    ran_at: datetime
    took_ms: int
    failed_at: datetime | None
    failure: str

    @property
    def has_failed(self) -> bool:
        """Say whether the last run is the one that failed."""
        return self.failed_at == self.ran_at


class TaskRuns:
    """What one process has to tell of its runs."""

    def __init__(self) -> None:
        self._noted_at: dict[str, float] = {}
        self._untold: dict[str, tuple[datetime, str]] = {}

    @contextmanager
    def noting(self, name: str) -> Iterator[None]:
        """Note a run of a task around its work; what the work raises goes on."""
        began_s = time.monotonic()
        try:
            yield
        except Exception as error:
            self.note(name, took_ms=_ms_since(began_s), error=error)
            raise
        self.note(name, took_ms=_ms_since(began_s))

    def note(self, name: str, *, took_ms: int, error: BaseException | None = None) -> None:
        """Note a run that has just ended, if it is time to; never raises for the database's sake."""
        now_s = time.monotonic()
        is_time = now_s - self._noted_at.get(name, -NOTE_SECONDS) >= NOTE_SECONDS
        if not is_time and error is None:
            return
        try:
            at = clock.now()
            if error is not None:
                self._untold[name] = (at, type(error).__name__[:80])
            if is_time:
                self._noted_at[name] = now_s
                _write(name, at, took_ms, self._untold.get(name))
                self._untold.pop(name, None)
        except Error as trouble:
            logger.debug("the run of %s is not noted: %s", name, trouble)


def last_runs() -> dict[str, TaskRun]:
    """Give the last run of each task that was ever noted."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT name, ran_at, took_ms, failed_at, failure FROM ground_task_run")
        return {
            name: TaskRun(ran_at=ran_at, took_ms=took_ms, failed_at=failed_at, failure=failure)
            for name, ran_at, took_ms, failed_at, failure in cursor.fetchall()
        }


def _write(name: str, at: datetime, took_ms: int, failed: tuple[datetime, str] | None) -> None:
    failed_at, failure = failed or (None, "")
    with connection.cursor() as cursor:
        cursor.execute(
            _NOTE,
            {
                "name": name,
                "ran_at": at,
                "took_ms": took_ms,
                "failed_at": failed_at,
                "failure": failure,
                "apart": NOTE_SECONDS,
            },
        )


def _ms_since(began_s: float) -> int:
    return round((time.monotonic() - began_s) * 1_000)
