"""Where a job of the simulated Bedrock stands."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from hashlib import sha256

import orjson

from simulators.bedrock.intake import inspect
from simulators.bedrock.records import ENDED, JobRecord
from simulators.bedrock.requests import S3Place, read_wanted_job, target_of
from simulators.bedrock.settings import Settings
from simulators.bedrock.storage import Storage, StorageError
from simulators.bedrock.wire import DOOR, manifest, result_line
from simulators.claude.lifecycle import WorkLifecycle
from simulators.claude.parameters import Rules
from simulators.claude.rows import Dialect, Row
from simulators.claude.store import WorkStore
from simulators.clock import SimClock
from simulators.faults import BATCH_KINDS, FaultBook, FaultKind
from simulators.rowfiles import append_at

_RULES = Rules(
    own_members=frozenset({"anthropic_version", "anthropic_beta"}),
    required_texts={"anthropic_version": "bedrock-2023-05-31"},
)


class Lifecycle(WorkLifecycle[JobRecord]):
    """Submitted, Validating, Scheduled, InProgress: each as long as the settings say, then as fast as rows go."""

    working_status = "InProgress"
    ended_statuses = frozenset(ENDED)

    def __init__(
        self,
        store: WorkStore[JobRecord],
        clock: SimClock,
        faults: FaultBook,
        settings: Callable[[], Settings],
        storage: Storage,
    ) -> None:
        """Work on `store` by `clock` and write outputs to `storage`; `settings` gives those of the moment."""
        super().__init__(store, clock, faults, settings)
        self._settings = settings
        self._storage = storage

    def dialect(self, work: JobRecord) -> Dialect:
        """Rows are Claude's native bodies; the model is the job's."""
        return Dialect(rules=_RULES, door=DOOR, read=partial(_row, work.model_id), write=result_line)

    def step(self, work: JobRecord, at: float) -> JobRecord | None:
        """The job one step further, or None if nothing is due at `at`."""
        if work.status == "Stopping":
            return self._finish_stopping(work, at)
        if work.status == "InProgress":
            return self._work(work, at)
        return self._wait(work, at)

    def stop(self, job_id: str) -> JobRecord:
        """The job after a stop at this moment; one that has ended or is stopping stays as it is."""
        with self.lock:
            job = self.advance(job_id)
            if job.status in {*ENDED, "Stopping"}:
                return job
            now = self.clock.now()
            stopping = replace(job, status="Stopping", stopping_at=now, modified_at=now)
            self.store.save(stopping)
            return stopping

    def _wait(self, work: JobRecord, at: float) -> JobRecord | None:
        """The job before its first record: one status further, if its time has come."""
        settings = self._settings()
        lasts_seconds = {
            "Submitted": settings.submitted_seconds,
            "Validating": settings.validating_seconds,
            "Scheduled": settings.scheduled_seconds,
        }[work.status]
        due_at = work.modified_at + lasts_seconds
        if work.expires_at <= due_at:
            message = "The job did not start before its timeout."
            return _ended(work, "Expired", work.expires_at, message) if at >= work.expires_at else None
        if at < due_at:
            return None
        if work.status == "Submitted":
            return replace(work, status="Validating", modified_at=due_at)
        if work.status == "Validating":
            return self._validate(work, due_at)
        if work.stop_after_rows == 0:
            return _ended(work, "Expired", due_at, "The job did not start before its timeout.")
        return replace(work, status="InProgress", modified_at=due_at, started_at=due_at, paced_at=due_at)

    def _validate(self, work: JobRecord, at: float) -> JobRecord:
        problem = work.input_problem
        if problem is not None:
            return _ended(work, "Failed", at, problem)
        verdict = inspect(self.store.rows_path(work.id), self._settings())
        if verdict.problem is not None:
            return _ended(work, "Failed", at, verdict.problem)
        fault = self.faults.take(BATCH_KINDS, work.account, work.model_id, "jobs.run")
        if fault is not None and fault.kind is FaultKind.FAIL_BATCH:
            return _ended(work, "Failed", at, fault.message or "The job could not be processed.")
        self.store.offsets_path(work.id).write_bytes(verdict.offsets.tobytes())
        return replace(
            work,
            status="Scheduled",
            modified_at=at,
            row_count=verdict.record_count,
            content_seed=verdict.content_seed,
            stop_after_rows=None if fault is None else fault.after_rows or 0,
        )

    def _work(self, work: JobRecord, at: float) -> JobRecord | None:
        answered = self.answer_due(work, at)
        if answered is not None:
            return answered
        if work.stop_after_rows is not None and work.answered_rows >= work.stop_after_rows:
            return self._publish(work, "PartiallyCompleted", self.pace(work).done_at(work.stop_after_rows))
        if work.answered_rows >= work.row_count:
            finished_at = self.pace(work).done_at(work.row_count) if work.finished_at is None else work.finished_at
            ended_at = min(finished_at + self._settings().finishing_seconds, work.expires_at)
            if at >= ended_at:
                return self._publish(work, "Completed", ended_at)
            return replace(work, finished_at=finished_at) if work.finished_at is None else None
        return self._publish(work, "PartiallyCompleted", work.expires_at) if at >= work.expires_at else None

    def _finish_stopping(self, work: JobRecord, at: float) -> JobRecord | None:
        ended_at = (work.stopping_at or 0.0) + self._settings().stopping_seconds
        if at < ended_at:
            return None
        if work.answered_rows and self._settings().stop_keeps_output:
            return self._publish(work, "Stopped", ended_at)
        return _ended(work, "Stopped", ended_at)

    def _publish(self, work: JobRecord, status: str, at: float) -> JobRecord:
        """Write output and manifest, then end; a killed process writes the same objects again."""
        request = orjson.loads(work.request)
        target, source = target_of(request), read_wanted_job(request).source
        folder = f"{target.key.rstrip('/')}/{work.id}".lstrip("/")
        input_name = source.key.rsplit("/", 1)[-1]
        results_path = self.store.results_path(work.id)
        append_at(results_path, work.result_bytes, b"")
        try:
            self._storage.put(S3Place(bucket=target.bucket, key=f"{folder}/{input_name}.out"), results_path)
            self._storage.put(S3Place(bucket=target.bucket, key=f"{folder}/manifest.json.out"), manifest(work))
        except StorageError as error:
            return _ended(work, "Failed", at, str(error))
        return _ended(work, status, at)


def _ended(work: JobRecord, status: str, at: float, message: str | None = None) -> JobRecord:
    return replace(work, status=status, ended_at=at, modified_at=at, message=message)


def _row(model_id: str, piece: bytes) -> Row:
    """The record in a stored piece; one without an id gets its own."""
    record = orjson.loads(piece)
    record_id = record.get("recordId") or f"REC{sha256(piece.strip()).hexdigest()[:8].upper()}"
    return Row(custom_id=record_id, model=model_id, params=record["modelInput"], source=piece)
