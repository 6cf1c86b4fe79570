"""The clock of a simulator: wall time with an offset, or frozen."""

import time
from collections.abc import Callable

from simulators.database import Database

_DOCUMENT = "clock"


class SimClock:
    """A clock that tests move by hand; its offset outlives the process."""

    def __init__(self, database: Database, wall: Callable[[], float] = time.time) -> None:
        """Take up the clock stored in `database`; `wall` gives Unix seconds."""
        self._database = database
        self._wall = wall
        stored = database.document(_DOCUMENT)
        self._offset_seconds = _number(stored.get("offset_seconds")) or 0.0
        self._frozen_at = _number(stored.get("frozen_at"))

    def now(self) -> float:
        """The simulator's time in Unix seconds."""
        return self._wall() + self._offset_seconds if self._frozen_at is None else self._frozen_at

    def advance(self, seconds: float) -> None:
        """Move the clock on by `seconds`; a frozen clock stays frozen."""
        if self._frozen_at is None:
            self._offset_seconds += seconds
        else:
            self._frozen_at += seconds
        self._store()

    def freeze(self, at: float | None = None) -> None:
        """Stop the clock at Unix second `at`, or where it is."""
        self._frozen_at = self.now() if at is None else at
        self._store()

    def resume(self) -> None:
        """Let a frozen clock run on from where it stands."""
        if self._frozen_at is not None:
            self._offset_seconds = self._frozen_at - self._wall()
            self._frozen_at = None
            self._store()

    def describe(self) -> dict[str, object]:
        """The clock as JSON: `now` in Unix seconds and whether it is frozen."""
        return {"now": self.now(), "frozen": self._frozen_at is not None}

    def _store(self) -> None:
        self._database.write_document(_DOCUMENT, {"offset_seconds": self._offset_seconds, "frozen_at": self._frozen_at})


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
