"""Concluding a job: attempts, row outcomes and counts in one transaction, and rows that another lane can heal move on.

Law: each row of the job either gets its one outcome here or moves to another lane; its attempt is recorded either way.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec
import numpy as np
from django.db import connection, transaction
from django.db.models import F, Sum

from billing.domain.rating import row_charge_pico_usd
from billing.domain.records import Attempt, AttemptOutcome, CollectedJob
from billing.services.attempts import record_attempts
from billing.services.holds import void_hold
from ground import clock
from ground.fault_points import FaultPoint, reach
from ground.leases import Lease
from ground.wake import wake
from routing.domain.pins import BatchPlan, GroupPlan
from routing.domain.row_lists import unpack_rows
from routing.models import Batch, BatchEnding, JobState, ProviderJob, RowOutcome, SubLane
from routing.providers.base import Fault, JobEnding, Outcome, RowCode, RowResult, TokenUsage
from routing.providers.registry import keeps_tokens
from routing.services.finding import disprove_job
from routing.services.jobs import lane_plan_of
from routing.services.moves import lock_moves, move_rows, plan_move
from routing.services.sub_lanes import moving_job

_log = logging.getLogger(__name__)

RESULT_MISSING = "result_missing"
_COLUMNS = (
    "accepted_at, batch_id, row, outcome, code, status_code, sub_lane_id, job_id, group_index, attempt_number,"
    " re_dispatch_count, input_tokens, cached_input_tokens, cache_write_5m_tokens, cache_write_1h_tokens,"
    " output_tokens, reasoning_tokens, charge_pico_usd, body_offset, body_length"
)
# A row's result, and where the body of its answer lies in the job's blob.
Placed = tuple[RowResult, int, int]


@dataclass(slots=True)
class CollectedResults:
    """What reading a job's results has given so far. One small tuple a row: 50,000 rows take about 20 MB."""

    results: dict[int, tuple[RowResult, int, int]] = field(default_factory=dict)
    foreign_count: int = 0
    duplicate_count: int = 0
    broken_count: int = 0
    usage_problem_count: int = 0

    def tell(self, job: ProviderJob) -> None:
        """Say aloud what a provider should not have written; the rows it concerns have their outcome all the same."""
        odd = {
            "foreign": self.foreign_count,
            "duplicate": self.duplicate_count,
            "broken": self.broken_count,
            "without a good usage": self.usage_problem_count,
        }
        if any(odd.values()):
            lines = ", ".join(f"{count} {kind}" for kind, count in odd.items() if count)
            _log.warning("job %s: odd lines of the provider: %s", job.token, lines)

    def of(self, job: ProviderJob, row: int) -> Placed:
        """Give a row's result; where the provider said nothing of it, what the job's ending makes of it."""
        result, offset, length = self.results.get(row) or (_missing(row, job), 0, 0)
        return _as_batch_ends(job.batch, result), offset, length


def conclude_job(lease: Lease, job: ProviderJob, collected: CollectedResults, blob_name: str) -> None:
    """Write what became of a job's rows and move the job on; a second run finds the fence moved and writes nothing."""
    if not keeps_tokens(job.account.provider) and collected.foreign_count > len(collected.results):
        with moving_job(lease) as row:
            disprove_job(row)
        return
    numbers = unpack_rows(bytes(job.rows))
    placed = [collected.of(job, number) for number in numbers.tolist()]
    is_healable = np.array([_can_be_healed(result) for result, _, _ in placed], dtype=bool)
    move = plan_move(job, numbers[is_healable], clock.now())
    staying = placed if move is None else [each for each, moves in zip(placed, is_healable, strict=True) if not moves]
    with transaction.atomic():
        if move is not None:
            lock_moves(job.batch_id)
        with moving_job(lease) as row:
            _write_attempts(job, (result for result, _, _ in placed))
            _write_outcomes(job, staying)
            if move is not None:
                move_rows(row, move, was_attempted=True, at=clock.now())
                wake("routing.submit_jobs")
            row.state = JobState.COLLECTED
            row.results_blob = blob_name
            row.foreign_count = collected.foreign_count
            row.duplicate_count = collected.duplicate_count
            row.missing_count = 0 if job.ending == JobEnding.FAILED else job.row_count - len(collected.results)
            row.collected_at = clock.now()
            row.due_at = None
            succeeded_count = sum(result.outcome is Outcome.SUCCEEDED for result, _, _ in staying)
            row.collected_number = _count(job, succeeded_count, len(staying) - succeeded_count)
            _free_dead_group(job)
            reach(FaultPoint.COLLECT_BEFORE_COMMIT)
    if move is not None:
        reach(FaultPoint.MOVE_AFTER_COMMIT)


def _can_be_healed(result: RowResult) -> bool:
    return result.healable and result.outcome is not Outcome.SUCCEEDED


def _write_attempts(job: ProviderJob, results: Iterable[RowResult]) -> None:
    rates = lane_plan_of(job.sub_lane).provider_rates
    record_attempts(
        CollectedJob(
            organisation_id=job.batch.organisation_id,
            batch_id=job.batch_id,
            job_id=job.pk,
            lane_id=job.sub_lane.lane_id,
            provider=job.sub_lane.provider,
            provider_account=job.account.name,
            provider_project=job.account.project,
            completed_at=job.completed_at or clock.now(),
        ),
        (
            Attempt(
                row=result.row,
                attempt_number=job.attempt_number,
                outcome=AttemptOutcome(result.outcome.value),
                code=code_of(job, result),
                tokens=result.usage,
                cost_pico_usd=row_charge_pico_usd(result.usage, rates),
            )
            for result in results
        ),
    )


def _write_outcomes(job: ProviderJob, placed: Iterable[Placed]) -> None:
    group = BatchPlan.from_bytes(job.batch.plan).groups[job.sub_lane.group_index]
    with connection.cursor() as cursor, cursor.copy(f"COPY routing_rowoutcome ({_COLUMNS}) FROM STDIN") as copy:
        for result, offset, length in placed:
            copy.write_row(_outcome(job, result, offset, length, group))


def _as_batch_ends(batch: Batch, result: RowResult) -> RowResult:
    """Give a row that was cancelled because the batch's window ended its true outcome."""
    if batch.ending == BatchEnding.EXPIRED and result.outcome is Outcome.CANCELLED:
        return msgspec.structs.replace(result, outcome=Outcome.EXPIRED, code=RowCode.BATCH_EXPIRED)
    return result


def _count(job: ProviderJob, succeeded_count: int, failed_count: int) -> int:
    """Add a job's outcomes to its sub-lane and batch, and give its place among the batch's collected jobs.

    When the last row has its outcome the batch is due to be finished.
    """
    SubLane.objects.filter(pk=job.sub_lane_id).update(
        completed_count=F("completed_count") + succeeded_count, failed_count=F("failed_count") + failed_count
    )
    Batch.objects.filter(pk=job.batch_id).update(
        completed_count=F("completed_count") + succeeded_count,
        failed_count=F("failed_count") + failed_count,
        collected_count=F("collected_count") + 1,
    )
    is_done = Batch.objects.filter(pk=job.batch_id, row_count=F("completed_count") + F("failed_count"))
    if is_done.update(due_at=clock.now()):
        wake("routing.finish_batches")
    return Batch.objects.values_list("collected_count", flat=True).get(pk=job.batch_id)


def _free_dead_group(job: ProviderJob) -> None:
    """Give back the hold of a model group that is over without a charge because its pin was retired.

    Called after the batch's counts were changed: of two jobs that end a group at once, the later one sees the other's.
    """
    group = BatchPlan.from_bytes(job.batch.plan).groups[job.sub_lane.group_index]
    done = SubLane.objects.filter(batch_id=job.batch_id, group_index=group.index).aggregate(
        succeeded_count=Sum("completed_count"), failed_count=Sum("failed_count")
    )
    if done["succeeded_count"] or done["failed_count"] < group.row_count:
        return
    outcomes = RowOutcome.objects.filter(
        accepted_at=job.batch.created_at, batch_id=job.batch_id, group_index=group.index
    )
    if outcomes.filter(code=RowCode.MODEL_GONE).exists():
        void_hold(job.batch.organisation, job.batch.public_id, group.group_key)


def _missing(row: int, job: ProviderJob) -> RowResult:
    """Give the outcome of a row the provider said nothing about."""
    outcome = {"expired": Outcome.EXPIRED, "cancelled": Outcome.CANCELLED}.get(job.ending, Outcome.FAILED)
    return RowResult(
        row_key="",
        row=row,
        outcome=outcome,
        code=None,
        healable=outcome is not Outcome.CANCELLED,
        status_code=None,
        body=None,
        usage=TokenUsage(),
    )


def code_of(job: ProviderJob, result: RowResult) -> str:
    """Give the stable code of a row's result; empty where it succeeded."""
    if result.outcome is Outcome.SUCCEEDED:
        return ""
    if result.code is not None:
        return result.code
    if result.outcome is not Outcome.FAILED:
        return {Outcome.EXPIRED: RowCode.BATCH_EXPIRED, Outcome.CANCELLED: RowCode.BATCH_CANCELLED}[result.outcome]
    if job.ending != JobEnding.FAILED:
        return RESULT_MISSING
    return RowCode.MODEL_GONE if job.fault == Fault.MODEL_GONE else RowCode.PROVIDER_ERROR


def _outcome(job: ProviderJob, result: RowResult, offset: int, length: int, group: GroupPlan) -> tuple[object, ...]:
    usage = result.usage
    charged = result.outcome is Outcome.SUCCEEDED
    return (
        job.batch.created_at,
        job.batch_id,
        result.row,
        result.outcome.value,
        code_of(job, result),
        result.status_code or 0,
        job.sub_lane_id,
        job.pk,
        job.sub_lane.group_index,
        job.attempt_number,
        job.attempt_number - 1,
        usage.input_tokens,
        usage.cached_input_tokens,
        usage.cache_write_5m_tokens,
        usage.cache_write_1h_tokens,
        usage.output_tokens,
        usage.reasoning_tokens,
        row_charge_pico_usd(usage, group.sell_rates) if charged else 0,
        offset,
        length,
    )
