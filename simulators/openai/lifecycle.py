"""Where a batch stands: derived from stored instants whenever somebody asks."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from simulators.clock import SimClock
from simulators.faults import BATCH_KINDS, Fault, FaultBook, FaultKind, RowFaults
from simulators.openai.records import BatchRecord, FileRecord
from simulators.openai.rows import RowAnswerer, read_rows, unrun_line
from simulators.openai.settings import Settings
from simulators.openai.store import Store
from simulators.openai.validation import InputInspector, Verdict
from simulators.pacing import Pace
from simulators.rowfiles import append_at

_STEP_ROWS = 1_000
_BREATH_SECONDS = 0.0005
_RUNNING = frozenset({"in_progress", "finalizing", "cancelling"})
_ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
_UNRUN_MESSAGES = {
    "batch_expired": "This request could not be executed before the completion window expired.",
    "batch_cancelled": "This request was not executed because the batch was cancelled.",
}


class Lifecycle:
    """Moves batches on, one short step at a time, so that no call waits long for another batch's work."""

    def __init__(
        self,
        store: Store,
        clock: SimClock,
        faults: FaultBook,
        settings: Callable[[], Settings],
        tell: Callable[[BatchRecord], None],
    ) -> None:
        """Work on `store` by `clock`; `settings` gives those of the moment; `tell` hears of batches that have ended."""
        self._tell = tell
        self._store = store
        self._clock = clock
        self._faults = faults
        self._settings = settings
        self._lock = threading.RLock()

    def advance(self, batch_id: str, until: float | None = None) -> BatchRecord:
        """The batch as it stands at `until` (Unix seconds), or now."""
        at = self._clock.now() if until is None else until
        while True:
            with self._lock:
                batch = self._stored(batch_id)
                moved = self._step(batch, at)
                if moved is None:
                    return batch
                self._store.save_batch(moved)
                if moved.status in _ENDED:
                    self._discard_work(moved)
                    self._tell(moved)
            # Whoever waits for the lock would lose it to this loop every time without a pause.
            time.sleep(_BREATH_SECONDS)

    def advance_open(self) -> None:
        """Bring every batch that has not ended to the present."""
        for batch_id in self._store.open_batch_ids():
            self.advance(batch_id)

    def cancel(self, batch_id: str) -> BatchRecord:
        """The batch after a cancel at this moment; one that has ended stays as it is."""
        with self._lock:
            batch = self.advance(batch_id)
            if batch.status not in {"validating", "in_progress", "finalizing"}:
                return batch
            cancelling = replace(batch, status="cancelling", cancelling_at=self._clock.now())
            self._store.save_batch(cancelling)
            return cancelling

    def change_pace(self, rows_per_second: float | None) -> None:
        """Let running batches go on at another speed from now on."""
        with self._lock:
            self.advance_open()
            now = self._clock.now()
            for batch_id in self._store.open_batch_ids():
                batch = self._stored(batch_id)
                self._store.save_batch(
                    replace(batch, paced_at=now, paced_rows=batch.answered_rows, rows_per_second=rows_per_second)
                    if batch.status == "in_progress"
                    else replace(batch, rows_per_second=rows_per_second)
                )

    def _stored(self, batch_id: str) -> BatchRecord:
        batch = self._store.batch(batch_id)
        if batch is None:
            raise KeyError(batch_id)
        return batch

    def _step(self, batch: BatchRecord, at: float) -> BatchRecord | None:
        """The batch one step further, or None if nothing is due at `at`."""
        match batch.status:
            case "validating":
                validated_at = batch.created_at + self._settings().validation_seconds
                return self._validate(batch, validated_at) if at >= validated_at else None
            case "in_progress":
                return self._work(batch, at)
            case "finalizing":
                return self._finalize(batch, at)
            case "cancelling":
                return self._finish_cancelling(batch, at)
            case _:
                return None

    def _validate(self, batch: BatchRecord, at: float) -> BatchRecord:
        settings = self._settings()
        verdict = InputInspector(batch.endpoint, settings).inspect(self._store.input_path(batch.id))
        fault = None
        if not verdict.errors:
            fault = self._faults.take(BATCH_KINDS, batch.account, verdict.model, "batches.run")
        errors = verdict.errors or self._refusal(batch, verdict, settings, at, fault)
        if errors:
            return replace(batch, status="failed", failed_at=at, errors=errors, model=verdict.model)
        self._store.offsets_path(batch.id).write_bytes(verdict.offsets.tobytes())
        return replace(
            batch,
            status="in_progress",
            in_progress_at=at,
            paced_at=at,
            model=verdict.model,
            row_count=len(verdict.offsets),
            enqueued_tokens=verdict.input_tokens,
            stop_after_rows=(fault.after_rows or 0) if fault and fault.kind is FaultKind.EXPIRE_BATCH else None,
        )

    def _refusal(
        self, batch: BatchRecord, verdict: Verdict, settings: Settings, at: float, fault: Fault | None
    ) -> tuple[dict[str, object], ...]:
        """Why a well-formed batch is failed all the same."""
        if fault is not None and fault.kind is FaultKind.FAIL_BATCH:
            code, message = fault.code or "server_error", fault.message or "The batch could not be processed."
            return ({"code": code, "line": None, "message": message, "param": None},)
        model = verdict.model or ""
        limit = settings.enqueued_tokens_limit(model)
        if limit is None:
            return ()
        others = [self.advance(other_id, at) for other_id in self._store.older_open_batch_ids(batch)]
        enqueued_tokens = sum(
            other.enqueued_tokens for other in others if other.model == model and other.status in _RUNNING
        )
        if enqueued_tokens + verdict.input_tokens <= limit:
            return ()
        message = (
            f"Enqueued token limit reached for {model} in organization {batch.account}. Limit: {limit:,} enqueued "
            "tokens. Please try again once some in_progress batches have been completed."
        )
        return ({"code": "token_limit_exceeded", "line": None, "message": message, "param": None},)

    def _work(self, batch: BatchRecord, at: float) -> BatchRecord | None:
        pace = Pace(started_at=batch.paced_at, rows_before=batch.paced_rows, rows_per_second=batch.rows_per_second)
        stop_at_rows = batch.row_count if batch.stop_after_rows is None else min(batch.row_count, batch.stop_after_rows)
        due_rows = min(stop_at_rows, pace.rows_due(min(at, batch.expires_at)))
        if batch.answered_rows < due_rows:
            return self._answer(batch, min(due_rows, batch.answered_rows + _STEP_ROWS), int(at))
        if batch.stop_after_rows is not None and batch.answered_rows >= stop_at_rows:
            return self._expire(batch, pace.done_at(stop_at_rows))
        if batch.answered_rows >= batch.row_count:
            return replace(batch, status="finalizing", finalizing_at=pace.done_at(batch.row_count))
        return self._expire(batch, batch.expires_at) if at >= batch.expires_at else None

    def _answer(self, batch: BatchRecord, stop: int, created: int) -> BatchRecord:
        """Answer the rows up to `stop`; files first, then the record in one transaction with what they used up."""
        faults = RowFaults(self._faults.armed(), batch.account)
        answerer = RowAnswerer(self._store, batch, self._settings(), faults, created)
        stretch = answerer.answer(batch.answered_rows, stop)
        output_path = self._store.content_path(batch.output_file_id)
        error_path = self._store.content_path(batch.error_file_id)
        moved = replace(
            batch,
            answered_rows=stop,
            completed_rows=batch.completed_rows + stretch.completed_rows,
            failed_rows=batch.failed_rows + stretch.failed_rows,
            output_bytes=append_at(output_path, batch.output_bytes, stretch.output),
            error_bytes=append_at(error_path, batch.error_bytes, stretch.errors),
            input_tokens=batch.input_tokens + stretch.input_tokens,
            cached_tokens=batch.cached_tokens + stretch.cached_tokens,
            output_tokens=batch.output_tokens + stretch.output_tokens,
            reasoning_tokens=batch.reasoning_tokens + stretch.reasoning_tokens,
        )
        with self._store.transaction():
            self._faults.spend(faults.fired_counts)
            self._store.seen.remember(batch.account, stretch.digests)
            self._store.save_batch(moved)
        return moved

    def _finalize(self, batch: BatchRecord, at: float) -> BatchRecord | None:
        completed_at = (batch.finalizing_at or 0.0) + self._settings().finalizing_seconds
        if completed_at > batch.expires_at:
            return self._expire(batch, batch.expires_at) if at >= batch.expires_at else None
        if at < completed_at:
            return None
        self._publish(batch, completed_at)
        return replace(batch, status="completed", completed_at=completed_at)

    def _expire(self, batch: BatchRecord, at: float) -> BatchRecord:
        ended = self._drop_rest(batch, "batch_expired")
        self._publish(ended, at)
        return replace(ended, status="expired", expired_at=at)

    def _finish_cancelling(self, batch: BatchRecord, at: float) -> BatchRecord | None:
        cancelled_at = (batch.cancelling_at or 0.0) + self._settings().cancelling_seconds
        if at < cancelled_at:
            return None
        ended = self._drop_rest(batch, "batch_cancelled")
        self._publish(ended, cancelled_at)
        return replace(ended, status="cancelled", cancelled_at=cancelled_at)

    def _drop_rest(self, batch: BatchRecord, code: str) -> BatchRecord:
        """Write an error line for every row that never ran; these are not counted as failed."""
        if batch.answered_rows >= batch.row_count:
            return batch
        lines = bytearray()
        for line in read_rows(self._store, batch, batch.answered_rows, batch.row_count):
            lines += unrun_line(batch, line, code, _UNRUN_MESSAGES[code])
        error_path = self._store.content_path(batch.error_file_id)
        return replace(batch, error_bytes=append_at(error_path, batch.error_bytes, lines))

    def _publish(self, batch: BatchRecord, at: float) -> None:
        """Make the result files known; an empty one is thrown away."""
        lasts_seconds = batch.output_expires_seconds
        for file_id, size_bytes, kind in (
            (batch.output_file_id, batch.output_bytes, "output"),
            (batch.error_file_id, batch.error_bytes, "error"),
        ):
            if not size_bytes:
                self._store.content_path(file_id).unlink(missing_ok=True)
                continue
            self._store.save_file(
                FileRecord(
                    id=file_id,
                    account=batch.account,
                    filename=f"{batch.id}_{kind}.jsonl",
                    purpose="batch_output",
                    size_bytes=size_bytes,
                    content_seed=0,
                    created_at=at,
                    expires_at=None if lasts_seconds is None else at + lasts_seconds,
                )
            )

    def _discard_work(self, batch: BatchRecord) -> None:
        self._store.input_path(batch.id).unlink(missing_ok=True)
        self._store.offsets_path(batch.id).unlink(missing_ok=True)
