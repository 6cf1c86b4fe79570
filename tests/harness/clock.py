"""The tests' clock: moves Python's and the database's time together."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import psycopg

import ground.clock


class Clock:
    """Real time until it is frozen or moved."""

    def __init__(self, superuser: psycopg.Connection) -> None:
        self._superuser = superuser
        self._shift = timedelta(0)
        self._frozen_at: datetime | None = None

    def now(self) -> datetime:
        """Give the tests' instant."""
        return self._frozen_at or datetime.now(UTC) + self._shift

    def freeze(self, at: datetime) -> datetime:
        """Stop time at an instant (aware)."""
        self._frozen_at = at
        self._tell()
        return at

    def advance(self, **span: float) -> datetime:
        """Move time on, e.g. ``advance(minutes=31)``; frozen time stays frozen."""
        if self._frozen_at is not None:
            self._frozen_at += timedelta(**span)
        else:
            self._shift += timedelta(**span)
        self._tell()
        return self.now()

    def restore(self) -> None:
        """Give Python the system's time back; the database's is put back by the reset before each test."""
        ground.clock.use_source(None)

    def _tell(self) -> None:
        ground.clock.use_source(self.now)
        self._superuser.execute("UPDATE harness.clock SET shift = %s, frozen_at = %s", [self._shift, self._frozen_at])
