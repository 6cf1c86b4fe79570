"""Where a batch of the simulated Anthropic stands."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import orjson

from simulators.anthropic.records import BatchRecord
from simulators.anthropic.settings import Settings
from simulators.anthropic.versions import RULES
from simulators.anthropic.wire import DOOR, dropped_line, result_line
from simulators.claude.lifecycle import WorkLifecycle
from simulators.claude.rows import Dialect, Row
from simulators.claude.store import WorkStore
from simulators.clock import SimClock
from simulators.faults import FaultBook
from simulators.rowfiles import append_at


class Lifecycle(WorkLifecycle[BatchRecord]):
    """Rows are answered from `starting_seconds` on, and the batch ends `ending_seconds` after the last of them."""

    working_status = "in_progress"
    ended_statuses = frozenset({"ended"})

    def __init__(
        self, store: WorkStore[BatchRecord], clock: SimClock, faults: FaultBook, settings: Callable[[], Settings]
    ) -> None:
        """Work on `store` by `clock`; `settings` gives those of the moment."""
        super().__init__(store, clock, faults, settings)
        self._settings = settings

    def dialect(self, work: BatchRecord) -> Dialect:
        """Rows are judged by the API version of the create."""
        rules = RULES[work.api_version]
        return Dialect(rules=rules, door=DOOR, read=_row, write=partial(result_line, work.id))

    def step(self, work: BatchRecord, at: float) -> BatchRecord | None:
        """The batch one step further, or None if nothing is due at `at`."""
        if work.status == "canceling":
            return self._finish_canceling(work, at)
        answered = self.answer_due(work, at)
        if answered is not None:
            return answered
        if work.stop_after_rows is not None and work.answered_rows >= work.stop_after_rows:
            ended_at = self.pace(work).done_at(work.stop_after_rows)
            return self._end(work, ended_at, "expired") if at >= ended_at else None
        if work.answered_rows >= work.row_count:
            finished_at = self.pace(work).done_at(work.row_count) if work.finished_at is None else work.finished_at
            ended_at = min(finished_at + self._settings().ending_seconds, work.expires_at)
            if at >= ended_at:
                return self._end(work, ended_at, "expired")
            return replace(work, finished_at=finished_at) if work.finished_at is None else None
        return self._end(work, work.expires_at, "expired") if at >= work.expires_at else None

    def cancel(self, batch_id: str) -> BatchRecord:
        """The batch after a cancel at this moment; one that has ended or is being canceled stays as it is."""
        with self.lock:
            batch = self.advance(batch_id)
            if batch.status != "in_progress":
                return batch
            canceling = replace(batch, status="canceling", cancel_initiated_at=self.clock.now())
            self.store.save(canceling)
            return canceling

    def _finish_canceling(self, work: BatchRecord, at: float) -> BatchRecord | None:
        ended_at = (work.cancel_initiated_at or 0.0) + self._settings().canceling_seconds
        return self._end(work, ended_at, "canceled") if at >= ended_at else None

    def _end(self, work: BatchRecord, at: float, dropped_as: str) -> BatchRecord:
        """End the batch, with a line for every row that never ran."""
        lines = bytearray()
        for row in self.rows(work, work.answered_rows, work.row_count):
            lines += dropped_line(row.custom_id, dropped_as)
        dropped_rows = work.row_count - work.answered_rows
        return replace(
            work,
            status="ended",
            ended_at=at,
            result_bytes=append_at(self.store.results_path(work.id), work.result_bytes, lines),
            canceled_rows=dropped_rows if dropped_as == "canceled" else 0,
            expired_rows=dropped_rows if dropped_as == "expired" else 0,
        )


def _row(piece: bytes) -> Row:
    stored = orjson.loads(piece)
    params = stored["params"]
    model = params.get("model")
    return Row(
        custom_id=stored["custom_id"], model=model if isinstance(model, str) else "", params=params, source=piece
    )
