"""Concluding a job: attempts, row outcomes and counts in one transaction, and rows that another lane can heal move on.

Law: each row of the job either gets its one outcome here or moves to another lane; its attempt is recorded either way.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
from django.db import connection, transaction
from django.db.models import F, Sum

from accounts.models import OrganisationKind
from billing.domain.rating import row_charges_pico_usd
from billing.domain.records import AttemptOutcome, Attempts, CollectedJob, JobTerms
from billing.services.attempts import record_attempts
from billing.services.holds import void_hold
from ground import clock
from ground.bulk import HEADER, TRAILER, Column, Kind, Numbers, binary_rows
from ground.fault_points import FaultPoint, reach
from ground.leases import Lease
from ground.wake import wake
from routing.domain.pins import BatchPlan
from routing.job_results import JobResults, ResultTable, Verdict
from routing.models import Batch, BatchEnding, JobState, ProviderJob, RowOutcome, SubLane
from routing.providers.base import Fault, JobEnding, Outcome, RowCode
from routing.providers.registry import keeps_tokens
from routing.services.finding import disprove_job
from routing.services.jobs import lane_plan_of
from routing.services.moves import lock_moves, move_rows, plan_move
from routing.services.sub_lanes import moving_job

RESULT_MISSING = "result_missing"
_COLUMNS = (
    "accepted_at, batch_id, row, outcome, code, status_code, sub_lane_id, job_id, group_index, attempt_number,"
    " re_dispatch_count, input_tokens, cached_input_tokens, cache_write_5m_tokens, cache_write_1h_tokens,"
    " output_tokens, reasoning_tokens, charge_pico_usd, body_offset, body_length"
)
# Reasoning, the last of a result's tokens, is inside output and has no rate.
_CHARGED_KINDS: Final = 5


def conclude_job(lease: Lease, job: ProviderJob, collected: JobResults, blob_name: str) -> None:
    """Write what became of a job's rows and move the job on; a second run finds the fence moved and writes nothing."""
    if not keeps_tokens(job.account.provider) and collected.foreign_count > collected.taken_count:
        with moving_job(lease) as row:
            disprove_job(row)
        return
    table = _as_batch_ends(job.batch, collected.table(_missing(job)))
    is_healable = np.array([verdict.healable for verdict in table.verdicts])[table.verdict_indexes]
    move = plan_move(job, table.rows[is_healable], clock.now())
    staying = table if move is None else table.where(~is_healable)
    succeeded_count = int(_is_success(staying).sum())
    with transaction.atomic():
        if move is not None:
            lock_moves(job.batch_id)
        with moving_job(lease) as row:
            _write_attempts(job, table)
            charge_pico_usd = _write_outcomes(job, staying)
            if move is not None:
                move_rows(row, move, was_attempted=True, at=clock.now())
                wake("routing.submit_jobs")
            row.state = JobState.COLLECTED
            row.results_blob = blob_name
            row.foreign_count = collected.foreign_count
            row.duplicate_count = collected.duplicate_count
            row.missing_count = 0 if job.ending == JobEnding.FAILED else job.row_count - collected.taken_count
            row.collected_at = clock.now()
            row.due_at = None
            row.collected_number = _count(job, succeeded_count, len(staying) - succeeded_count, charge_pico_usd)
            _free_dead_group(job)
            reach(FaultPoint.COLLECT_BEFORE_COMMIT)
    if move is not None:
        reach(FaultPoint.MOVE_AFTER_COMMIT)


def _is_success(table: ResultTable) -> npt.NDArray[np.bool_]:
    return np.array([verdict.outcome is Outcome.SUCCEEDED for verdict in table.verdicts])[table.verdict_indexes]


def _write_attempts(job: ProviderJob, table: ResultTable) -> None:
    tokens = table.tokens[:, :_CHARGED_KINDS]
    lane = lane_plan_of(job.sub_lane)
    group = BatchPlan.from_bytes(job.batch.plan).groups[job.sub_lane.group_index]
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
            terms=JobTerms(
                batch_public_id=job.batch.public_id,
                model_snapshot=group.model_snapshot,
                model_id=lane.model_id,
                is_test=job.account.kind == OrganisationKind.TEST,
                rates=lane.provider_rates,
            ),
        ),
        Attempts(
            attempt_number=job.attempt_number,
            rows=table.rows,
            verdicts=tuple((AttemptOutcome(each.outcome.value), code_of(job, each)) for each in table.verdicts),
            verdict_indexes=table.verdict_indexes,
            tokens=tokens,
            costs_pico_usd=row_charges_pico_usd(tokens, lane.provider_rates),
        ),
    )


def _write_outcomes(job: ProviderJob, table: ResultTable) -> int:
    """Write the outcomes and give what their rows are charged together, in pico-USD."""
    group = BatchPlan.from_bytes(job.batch.plan).groups[job.sub_lane.group_index]
    charges = np.where(_is_success(table), row_charges_pico_usd(table.tokens[:, :_CHARGED_KINDS], group.sell_rates), 0)
    with connection.cursor() as cursor:
        copying = cursor.copy(f"COPY routing_rowoutcome ({_COLUMNS}) FROM STDIN (FORMAT BINARY)")
        with copying as copy:
            copy.write(HEADER)
            for index, verdict in enumerate(table.verdicts):
                is_chosen = table.verdict_indexes == index
                columns = _columns(job, verdict, table.where(is_chosen), charges[is_chosen])
                for piece in binary_rows(columns, int(is_chosen.sum())):
                    copy.write(piece)
            copy.write(TRAILER)
    return int(charges.sum())


def _columns(job: ProviderJob, verdict: Verdict, table: ResultTable, charges_pico_usd: Numbers) -> list[Column]:
    """Give the columns of the outcomes with one verdict."""
    return [
        (Kind.TIMESTAMPTZ, job.batch.created_at),
        (Kind.BIGINT, job.batch_id),
        (Kind.INTEGER, table.rows),
        (Kind.TEXT, verdict.outcome.value),
        (Kind.TEXT, code_of(job, verdict)),
        (Kind.SMALLINT, table.status_codes),
        (Kind.BIGINT, job.sub_lane_id),
        (Kind.BIGINT, job.pk),
        (Kind.SMALLINT, job.sub_lane.group_index),
        (Kind.SMALLINT, job.attempt_number),
        (Kind.SMALLINT, job.attempt_number - 1),
        *((Kind.BIGINT, tokens) for tokens in table.tokens.T),
        (Kind.BIGINT, charges_pico_usd),
        (Kind.BIGINT, table.body_offsets),
        (Kind.INTEGER, table.body_lengths),
    ]


def _as_batch_ends(batch: Batch, table: ResultTable) -> ResultTable:
    """Give rows that were cancelled because the batch's window ended their true outcome."""
    if batch.ending != BatchEnding.EXPIRED:
        return table
    verdicts = tuple(
        each._replace(outcome=Outcome.EXPIRED, code=RowCode.BATCH_EXPIRED)
        if each.outcome is Outcome.CANCELLED
        else each
        for each in table.verdicts
    )
    return replace(table, verdicts=verdicts)


def _count(job: ProviderJob, succeeded_count: int, failed_count: int, charge_pico_usd: int) -> int:
    """Add a job's outcomes, and their charge, to its sub-lane and batch; give its place among the collected jobs.

    When the last row has its outcome the batch is due to be finished.
    """
    SubLane.objects.filter(pk=job.sub_lane_id).update(
        completed_count=F("completed_count") + succeeded_count, failed_count=F("failed_count") + failed_count
    )
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE routing_batch SET completed_count = completed_count + %(succeeded)s,"
            " failed_count = failed_count + %(failed)s, collected_count = collected_count + 1,"
            " collected_charge_pico_usd = collected_charge_pico_usd + %(charge)s,"
            " due_at = CASE WHEN row_count = completed_count + %(succeeded)s + failed_count + %(failed)s"
            " THEN %(at)s ELSE due_at END WHERE id = %(batch)s"
            " RETURNING collected_count, row_count = completed_count + failed_count",
            {
                "succeeded": succeeded_count,
                "failed": failed_count,
                "charge": charge_pico_usd,
                "at": clock.now(),
                "batch": job.batch_id,
            },
        )
        collected_number, is_done = cursor.fetchone()
    if is_done:
        wake("routing.finish_batches")
    return int(collected_number)


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


def _missing(job: ProviderJob) -> Verdict:
    """Give what became of rows the provider said nothing about."""
    outcome = {"expired": Outcome.EXPIRED, "cancelled": Outcome.CANCELLED}.get(job.ending, Outcome.FAILED)
    return Verdict(outcome=outcome, code=None, healable=outcome is not Outcome.CANCELLED)


def code_of(job: ProviderJob, verdict: Verdict) -> str:
    """Give the stable code of a row; empty where it succeeded."""
    if verdict.outcome is Outcome.SUCCEEDED:
        return ""
    if verdict.code is not None:
        return verdict.code
    if verdict.outcome is not Outcome.FAILED:
        return {Outcome.EXPIRED: RowCode.BATCH_EXPIRED, Outcome.CANCELLED: RowCode.BATCH_CANCELLED}[verdict.outcome]
    if job.ending != JobEnding.FAILED:
        return RESULT_MISSING
    return RowCode.MODEL_GONE if job.fault == Fault.MODEL_GONE else RowCode.PROVIDER_ERROR
