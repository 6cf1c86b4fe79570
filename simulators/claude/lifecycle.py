"""Where a batch stands: derived from stored instants whenever somebody asks."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Generic

from simulators.claude.rows import Dialect, Owner, Row, RowAnswerer
from simulators.claude.settings import ModelSettings
from simulators.claude.store import W, WorkStore
from simulators.clock import SimClock
from simulators.faults import FaultBook, RowFaults
from simulators.pacing import Pace
from simulators.rowfiles import answer_order, append_at, read_pieces

_STEP_ROWS = 1_000
_BREATH_SECONDS = 0.0005


class WorkLifecycle(ABC, Generic[W]):
    """Moves batches on, one short step at a time, so that no call waits long for another batch's work."""

    # The status while rows are answered, and those that nothing follows.
    working_status: str
    ended_statuses: frozenset[str]

    def __init__(
        self, store: WorkStore[W], clock: SimClock, faults: FaultBook, settings: Callable[[], ModelSettings]
    ) -> None:
        """Work on `store` by `clock`; `settings` gives those of the moment."""
        self.store = store
        self.clock = clock
        self.faults = faults
        self.settings = settings
        self.lock = threading.RLock()

    @abstractmethod
    def step(self, work: W, at: float) -> W | None:
        """The batch one step further, or None if nothing is due at `at`."""

    @abstractmethod
    def dialect(self, work: W) -> Dialect:
        """How the rows of a batch are read, judged and written down."""

    def advance(self, work_id: str) -> W:
        """The batch as it stands now."""
        at = self.clock.now()
        while True:
            with self.lock:
                work = self.stored(work_id)
                moved = None if work.status in self.ended_statuses else self.step(work, at)
                if moved is None:
                    return work
                self.store.save(moved)
                if moved.status in self.ended_statuses:
                    self.store.discard_rows(moved.id)
            # Whoever waits for the lock would lose it to this loop every time without a pause.
            time.sleep(_BREATH_SECONDS)

    def advance_open(self) -> None:
        """Bring every batch that has not ended to the present."""
        for work in self.store.open():
            self.advance(work.id)

    def change_pace(self, rows_per_second: float | None) -> None:
        """Let running batches go on at another speed from now on."""
        with self.lock:
            self.advance_open()
            now = self.clock.now()
            for work in self.store.open():
                changed = replace(work, rows_per_second=rows_per_second)
                if work.status == self.working_status:
                    changed = replace(changed, paced_at=now, paced_rows=work.answered_rows)
                self.store.save(changed)

    def stored(self, work_id: str) -> W:
        """The batch as it was last derived."""
        work = self.store.find(work_id)
        if work is None:
            raise KeyError(work_id)
        return work

    def answer_due(self, work: W, at: float) -> W | None:
        """The batch with its next stretch of rows answered, or None if none is due at `at`."""
        stop_at_rows = work.row_count if work.stop_after_rows is None else min(work.row_count, work.stop_after_rows)
        due_rows = min(stop_at_rows, self.pace(work).rows_due(min(at, work.expires_at)))
        if work.answered_rows >= due_rows:
            return None
        stop = min(due_rows, work.answered_rows + _STEP_ROWS)
        faults = RowFaults(self.faults.armed(), work.account)
        answerer = RowAnswerer(
            Owner(account=work.account, batch_id=work.id),
            self.dialect(work),
            self.settings(),
            faults,
            self.store.seen,
        )
        stretch = answerer.answer(self.rows(work, work.answered_rows, stop))
        moved = replace(
            work,
            answered_rows=stop,
            succeeded_rows=work.succeeded_rows + stretch.succeeded_rows,
            errored_rows=work.errored_rows + stretch.errored_rows,
            unrun_rows=work.unrun_rows + stretch.unrun_rows,
            input_tokens=work.input_tokens + stretch.input_tokens,
            output_tokens=work.output_tokens + stretch.output_tokens,
            result_bytes=append_at(self.store.results_path(work.id), work.result_bytes, stretch.results),
        )
        # Results first, then the record in one transaction with what the rows used up.
        with self.store.database.transaction():
            self.faults.spend(faults.fired_counts)
            self.store.seen.remember(work.account, stretch.digests)
            self.store.seen.remember(work.id, stretch.prefixes)
            self.store.save(moved)
        return moved

    def pace(self, work: W) -> Pace:
        """How fast the rows of a batch are answered."""
        return Pace(started_at=work.paced_at, rows_before=work.paced_rows, rows_per_second=work.rows_per_second)

    def rows(self, work: W, start: int, stop: int) -> Iterator[Row]:
        """The rows number `start` to `stop` in the order of answering."""
        numbers = answer_order(work.content_seed, work.row_count, shuffled=work.shuffled)[start:stop]
        return map(
            self.dialect(work).read,
            read_pieces(self.store.rows_path(work.id), self.store.offsets_path(work.id), numbers),
        )
