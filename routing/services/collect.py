"""From a running job to row outcomes: poll, then collect.

That a job has ended at the provider and that its results are here are two states; reading is tried again for as long
as the batch lives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection
from django.db.models import F

from billing.domain.rating import row_charge_pico_usd
from billing.domain.records import Attempt, AttemptOutcome, CollectedJob, TokenCounts
from billing.services.attempts import record_attempts
from ground import clock
from ground.errors import ProviderError
from ground.leases import Lease, claim, moving_on, unless_lost
from ground.wake import wake
from routing.blobs import write_stream
from routing.domain.pins import BatchPlan, GroupPlan
from routing.domain.row_lists import unpack_rows
from routing.models import Batch, JobState, ProviderJob, SubLane, SubLaneState
from routing.providers.base import (
    BrokenLine,
    Fault,
    ForeignLine,
    JobEnding,
    JobReport,
    Outcome,
    RowResult,
    TokenUsage,
)
from routing.providers.base import JobState as ReportedState
from routing.providers.registry import open_provider
from routing.services.provider_accounts import opened_account

_OUTCOME_COLUMNS = (
    "accepted_at, batch_id, row, outcome, code, status_code, sub_lane_id, job_id, group_index, attempt_number,"
    " re_dispatch_count, input_tokens, cached_input_tokens, cache_write_5m_tokens, cache_write_1h_tokens,"
    " output_tokens, reasoning_tokens, charge_pico_usd, body_offset, body_length"
)


def poll_next_job() -> bool:
    """Ask the provider how the next due job is doing."""
    lease = claim(ProviderJob, state_field="state", states=(JobState.RUNNING,))
    if lease is None:
        return False
    job = ProviderJob.objects.select_related("account").get(pk=lease.row_id)
    with unless_lost():
        try:
            with open_provider(opened_account(job.account)) as provider:
                report = provider.poll(job.batch_ref)
        except ProviderError as error:
            _poll_failed(lease, job, error)
        else:
            _polled(lease, job, report)
    return True


def _polled(lease: Lease, job: ProviderJob, report: JobReport) -> None:
    at = clock.now()
    with moving_on(ProviderJob, lease) as row:
        row.polled_at = at
        row.try_count = 0
        row.last_error = ""
        # A provider's counts may stall or fall; what people see does not go back.
        row.reported_done_count = max(row.reported_done_count, min(report.done_count, row.row_count))
        row.reported_failed_count = max(row.reported_failed_count, min(report.failed_count, row.row_count))
        if report.state is ReportedState.RUNNING:
            row.due_at = at + _poll_interval(row, at)
        else:
            assert report.ending is not None, "a report that ended says how"
            row.state = JobState.ENDED
            row.ending = report.ending
            row.output_refs = list(report.result_refs)
            row.completed_at = report.completed_at or at
            row.last_error = f"{report.fault}: {report.message}"[:300] if report.fault else ""
            row.due_at = at
            wake("routing.collect_jobs")
    SubLane.objects.filter(pk=job.sub_lane_id).update(
        reported_count=F("completed_count") + F("failed_count") + min(report.done_count, job.row_count)
    )


def _poll_failed(lease: Lease, job: ProviderJob, error: ProviderError) -> None:
    """Try again later; only a job the provider surely does not know has ended."""
    with moving_on(ProviderJob, lease) as row:
        row.last_error = f"{error.code}: {error.message}"[:300]
        row.try_count = F("try_count") + 1
        wait_seconds = min(settings.POLL_MAX_SECONDS, 2 ** min(job.try_count, 10))
        row.due_at = clock.now() + timedelta(seconds=max(wait_seconds, min(error.retry_after_seconds or 0, 3_600)))
        if error.code == Fault.NOT_FOUND and error.permanent:
            row.state = JobState.ENDED
            row.ending = JobEnding.FAILED
            row.completed_at = clock.now()
            row.due_at = clock.now()
            wake("routing.collect_jobs")


def _poll_interval(job: ProviderJob, at: datetime) -> timedelta:
    """Give the wait before the next poll: a twentieth of the job's age so far, within the settings' bounds."""
    assert job.submitted_at is not None, "a job that runs was submitted"
    age_seconds = (at - job.submitted_at).total_seconds()
    seconds = min(settings.POLL_MAX_SECONDS, max(settings.POLL_MIN_SECONDS, int(age_seconds / 20)))
    return timedelta(seconds=seconds)


@dataclass(slots=True)
class _Collected:
    """What reading a job's results has given so far. One small tuple a row: 50,000 rows take about 20 MB."""

    results: dict[int, tuple[RowResult, int, int]] = field(default_factory=dict)
    foreign_count: int = 0
    duplicate_count: int = 0
    broken_count: int = 0


def collect_next_job() -> bool:
    """Read the results of the next ended job and give its rows their outcome."""
    lease = claim(ProviderJob, state_field="state", states=(JobState.ENDED,))
    if lease is None:
        return False
    job = ProviderJob.objects.select_related("batch", "sub_lane", "account").get(pk=lease.row_id)
    with unless_lost():
        SubLane.objects.filter(pk=job.sub_lane_id, state=SubLaneState.RUNNING).update(state=SubLaneState.COLLECTING)
        try:
            collected, blob_name = _read(lease, job)
        except ProviderError as error:
            with moving_on(ProviderJob, lease) as row:
                row.last_error = f"{error.code}: {error.message}"[:300]
                row.try_count = F("try_count") + 1
                row.due_at = clock.now() + timedelta(
                    seconds=min(settings.POLL_MAX_SECONDS, 2 ** min(job.try_count, 10))
                )
        else:
            _conclude(lease, job, collected, blob_name)
    return True


def _read(lease: Lease, job: ProviderJob) -> tuple[_Collected, str]:
    """Read all result files of a job: bodies into one blob, the rest kept small. Network and disk, no transaction."""
    collected = _Collected()
    if not job.output_refs:
        return collected, ""
    rows = frozenset(unpack_rows(job.rows).tolist())
    report = JobReport(
        batch_ref=job.batch_ref,
        state=ReportedState.ENDED,
        ending=JobEnding(job.ending),
        provider_status="",
        done_count=job.reported_done_count,
        failed_count=job.reported_failed_count,
        completed_at=job.completed_at,
        result_refs=tuple(job.output_refs),
    )
    prefix = f"{job.batch.public_id.removeprefix('batch_')}_"

    def bodies() -> Iterator[bytes]:
        offset = 0
        with open_provider(opened_account(job.account)) as provider:
            items = provider.results(report, token=job.token, name_answer=lambda row: f"{prefix}{row}")
            for count, item in enumerate(items):
                if count % 5_000 == 0:
                    lease.renew()
                if isinstance(item, ForeignLine):
                    collected.foreign_count += 1
                elif isinstance(item, BrokenLine):
                    collected.broken_count += 1
                elif item.row not in rows:
                    collected.foreign_count += 1
                elif item.row in collected.results:
                    collected.duplicate_count += 1
                else:
                    body = item.body or b""
                    collected.results[item.row] = (_without_body(item), offset, len(body))
                    offset += len(body)
                    yield body

    blob = write_stream(f"results/{job.token}/{lease.fence}.bodies", bodies())
    return collected, blob.name


def _without_body(item: RowResult) -> RowResult:
    return RowResult(
        row_key="",
        row=item.row,
        outcome=item.outcome,
        code=item.code,
        healable=item.healable,
        status_code=item.status_code,
        body=None,
        usage=item.usage,
        usage_problem=item.usage_problem,
        provider_code=item.provider_code,
    )


def _conclude(lease: Lease, job: ProviderJob, collected: _Collected, blob_name: str) -> None:
    """Write attempts and outcomes and move the job on, in one transaction; a second run finds the fence moved."""
    batch, sub_lane = job.batch, job.sub_lane
    group = BatchPlan.from_bytes(batch.plan).groups[sub_lane.group_index]
    completed_at = job.completed_at or clock.now()
    succeeded_count = 0
    with moving_on(ProviderJob, lease) as row:
        attempts: list[Attempt] = []
        with (
            connection.cursor() as cursor,
            cursor.copy(f"COPY routing_rowoutcome ({_OUTCOME_COLUMNS}) FROM STDIN") as copy,
        ):
            for number in unpack_rows(job.rows).tolist():
                result, offset, length = collected.results.get(number) or (_missing(number, job), 0, 0)
                attempts.append(_attempt(job, result, group))
                copy.write_row(_outcome(job, result, group, offset, length))
                succeeded_count += result.outcome is Outcome.SUCCEEDED
        record_attempts(_collected_job(job, completed_at), attempts)
        row.state = JobState.COLLECTED
        row.results_blob = blob_name
        row.foreign_count = collected.foreign_count
        row.duplicate_count = collected.duplicate_count
        row.missing_count = job.row_count - len(collected.results) if job.output_refs else 0
        row.collected_at = clock.now()
        row.due_at = None
        _count(batch, sub_lane, succeeded_count, job.row_count - succeeded_count)


def _count(batch: Batch, sub_lane: SubLane, succeeded_count: int, failed_count: int) -> None:
    """Add a job's outcomes to its sub-lane and batch; when the last row has one, the batch is due to be finished."""
    SubLane.objects.filter(pk=sub_lane.pk).update(
        completed_count=F("completed_count") + succeeded_count,
        failed_count=F("failed_count") + failed_count,
        reported_count=0,
    )
    SubLane.objects.filter(pk=sub_lane.pk, row_count=F("completed_count") + F("failed_count")).update(
        state=SubLaneState.COMPLETED, reason="", ended_at=clock.now(), due_at=None
    )
    Batch.objects.filter(pk=batch.pk).update(
        completed_count=F("completed_count") + succeeded_count, failed_count=F("failed_count") + failed_count
    )
    Batch.objects.filter(pk=batch.pk, row_count=F("completed_count") + F("failed_count")).update(due_at=clock.now())
    wake("routing.finish_batches")


def _missing(row: int, job: ProviderJob) -> RowResult:
    """Give the outcome of a row the provider said nothing about."""
    ending = job.ending
    outcome = {"expired": Outcome.EXPIRED, "cancelled": Outcome.CANCELLED}.get(ending, Outcome.FAILED)
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


def _code(job: ProviderJob, result: RowResult) -> str:
    if result.outcome is Outcome.SUCCEEDED:
        return ""
    if result.code is not None:
        return result.code
    missing = "provider_error" if job.ending == JobEnding.FAILED else "result_missing"
    return {Outcome.EXPIRED: "batch_expired", Outcome.CANCELLED: "batch_cancelled"}.get(result.outcome, missing)


def _tokens(usage: TokenUsage) -> TokenCounts:
    return TokenCounts(
        input_tokens=usage.input_tokens,
        cached_input_tokens=usage.cached_input_tokens,
        cache_write_5m_tokens=usage.cache_write_5m_tokens,
        cache_write_1h_tokens=usage.cache_write_1h_tokens,
        output_tokens=usage.output_tokens,
    )


def _collected_job(job: ProviderJob, completed_at: datetime) -> CollectedJob:
    return CollectedJob(
        organisation_id=job.batch.organisation_id,
        batch_id=job.batch_id,
        job_id=job.pk,
        lane_id=job.sub_lane.lane_id,
        provider=job.sub_lane.provider,
        provider_account=job.account.name,
        provider_project=job.account.project,
        completed_at=completed_at,
    )


def _attempt(job: ProviderJob, result: RowResult, group: GroupPlan) -> Attempt:
    tokens = _tokens(result.usage)
    return Attempt(
        row=result.row,
        attempt_number=job.attempt_number,
        outcome=AttemptOutcome(result.outcome.value),
        code=_code(job, result),
        tokens=tokens,
        cost_pico_usd=row_charge_pico_usd(tokens, group.lane(job.sub_lane.lane_id).provider_rates),
    )


def _outcome(job: ProviderJob, result: RowResult, group: GroupPlan, offset: int, length: int) -> tuple[object, ...]:
    usage = result.usage
    charged = result.outcome is Outcome.SUCCEEDED
    return (
        job.batch.created_at,
        job.batch_id,
        result.row,
        result.outcome.value,
        _code(job, result),
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
        row_charge_pico_usd(_tokens(usage), group.sell_rates) if charged else 0,
        offset,
        length,
    )
