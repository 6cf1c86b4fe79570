"""From a running job to row outcomes: poll, then collect.

That a job has ended at the provider and that its results are here are two states; reading is tried again for as long
as the batch lives.
"""

from __future__ import annotations

import logging
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
from ground.leases import Keeper, Lease, LeaseLost, claim, unless_lost
from ground.wake import wake
from routing.blobs import delete_blob, keep_only, write_stream
from routing.domain.pins import BatchPlan, GroupPlan
from routing.domain.row_lists import unpack_rows
from routing.models import Batch, JobState, ProviderJob, SubLane
from routing.providers.base import (
    BrokenLine,
    Fault,
    ForeignLine,
    JobEnding,
    JobReport,
    Outcome,
    RowCode,
    RowResult,
    TokenUsage,
)
from routing.providers.base import JobState as ReportedState
from routing.services.provider_accounts import opened
from routing.services.room import give_up_full_job, parts_for_room
from routing.services.sub_lanes import moving_job

_log = logging.getLogger(__name__)

# A provider's storage may lag behind its own answers: it does not know a job when it says so this often in a row.
_NOT_FOUND_TRIES = 4
# How far a provider's clock may be ahead of ours.
_CLOCK_MARGIN = timedelta(days=1)
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
            with opened(job.account) as provider:
                report = provider.poll(job.batch_ref)
        except ProviderError as error:
            _poll_failed(lease, job, error)
        else:
            _polled(lease, job, report)
    return True


def _polled(lease: Lease, job: ProviderJob, report: JobReport) -> None:
    is_full = report.ending is JobEnding.FAILED and report.fault is Fault.LANE_FULL
    parts, tokens = parts_for_room(job) if is_full else ([], [])
    at = clock.now()
    with moving_job(lease) as row:
        row.polled_at = at
        row.try_count = 0
        # A provider's counts may stall or fall; what people see does not go back.
        row.reported_done_count = max(row.reported_done_count, min(report.done_count, row.row_count))
        row.reported_failed_count = max(row.reported_failed_count, min(report.failed_count, row.row_count))
        row.last_error = f"{report.fault}: {report.message}"[:300] if report.fault else ""
        if report.state is ReportedState.RUNNING:
            row.due_at = at + _poll_interval(row, at)
            return
        assert report.ending is not None, "a report that ended says how"
        row.ending = report.ending
        row.completed_at = _completed_at(row, report, at)
        if is_full:
            give_up_full_job(row, parts, tokens)
            return
        row.state = JobState.ENDED
        row.output_refs = list(report.result_refs)
        row.due_at = at
        wake("routing.collect_jobs")


def _completed_at(job: ProviderJob, report: JobReport, at: datetime) -> datetime:
    """Give the provider's instant of the ending; ours where theirs cannot be, for months are partitions."""
    told = report.completed_at
    # The provider's instants are whole seconds.
    is_possible = told is not None and job.intended_at - timedelta(seconds=1) <= told <= at + _CLOCK_MARGIN
    return told if told is not None and is_possible else at


def _poll_failed(lease: Lease, job: ProviderJob, error: ProviderError) -> None:
    """Try again later; only a job the provider surely does not know has ended."""
    at = clock.now()
    with moving_job(lease) as row:
        row.last_error = f"{error.code}: {error.message}"[:300]
        row.try_count += 1
        if error.code == Fault.NOT_FOUND and error.permanent and row.try_count >= _NOT_FOUND_TRIES:
            row.state = JobState.ENDED
            row.ending = JobEnding.FAILED
            row.completed_at = at
            row.due_at = at
            wake("routing.collect_jobs")
        else:
            row.due_at = at + _backoff(job.try_count, error.retry_after_seconds)


def _backoff(try_count: int, retry_after_seconds: int | None) -> timedelta:
    """Give the wait before another read: doubled each time, never less than the provider asked, an hour at most."""
    seconds = min(settings.POLL_MAX_SECONDS, 2 ** min(try_count, 10))
    return timedelta(seconds=max(seconds, min(retry_after_seconds or 0, 3_600)))


def _poll_interval(job: ProviderJob, at: datetime) -> timedelta:
    """Give the wait before the next poll: a twentieth of the job's age so far, within the settings' bounds.

    A second at least: a turn that polls must come to an end.
    """
    assert job.submitted_at is not None, "a job that runs was submitted"
    age_seconds = (at - job.submitted_at).total_seconds()
    seconds = min(settings.POLL_MAX_SECONDS, max(1, settings.POLL_MIN_SECONDS, int(age_seconds / 20)))
    return timedelta(seconds=seconds)


@dataclass(slots=True)
class _Collected:
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


def collect_next_job() -> bool:
    """Read the results of the next ended job and give its rows their outcome."""
    lease = claim(ProviderJob, state_field="state", states=(JobState.ENDED,))
    if lease is None:
        return False
    job = ProviderJob.objects.select_related("batch", "sub_lane", "account").get(pk=lease.row_id)
    with unless_lost():
        try:
            collected, blob_name = _read(lease, job)
        except ProviderError as error:
            with moving_job(lease) as row:
                row.last_error = f"{error.code}: {error.message}"[:300]
                row.try_count = F("try_count") + 1
                row.due_at = clock.now() + _backoff(job.try_count, error.retry_after_seconds)
            return True
        try:
            _conclude(lease, job, collected, blob_name)
        except LeaseLost:
            if blob_name:
                delete_blob(blob_name)
            raise
        collected.tell(job)
        # What killed runs of this step have left: no row names it.
        keep_only(_results_folder(job), (blob_name,))
    return True


def _results_folder(job: ProviderJob) -> str:
    return f"results/{job.token}"


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
        keep = Keeper(lease)
        with opened(job.account) as provider:
            for item in provider.results(report, token=job.token, name_answer=lambda row: f"{prefix}{row}"):
                keep()
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
                    collected.usage_problem_count += item.usage_problem is not None
                    offset += len(body)
                    yield body

    blob = write_stream(f"{_results_folder(job)}/{lease.fence}.bodies", bodies())
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
    numbers = unpack_rows(job.rows).tolist()
    succeeded_count = sum(result.outcome is Outcome.SUCCEEDED for result, _, _ in collected.results.values())

    def result_of(row: int) -> tuple[RowResult, int, int]:
        return collected.results.get(row) or (_missing(row, job), 0, 0)

    with moving_job(lease) as row:
        with (
            connection.cursor() as cursor,
            cursor.copy(f"COPY routing_rowoutcome ({_OUTCOME_COLUMNS}) FROM STDIN") as copy,
        ):
            for number in numbers:
                copy.write_row(_outcome(job, *result_of(number), group))
        record_attempts(
            _collected_job(job, completed_at), (_attempt(job, result_of(number)[0], group) for number in numbers)
        )
        row.state = JobState.COLLECTED
        row.results_blob = blob_name
        row.foreign_count = collected.foreign_count
        row.duplicate_count = collected.duplicate_count
        row.missing_count = 0 if job.ending == JobEnding.FAILED else job.row_count - len(collected.results)
        row.collected_at = clock.now()
        row.due_at = None
        _count(batch, sub_lane, succeeded_count, job.row_count - succeeded_count)


def _count(batch: Batch, sub_lane: SubLane, succeeded_count: int, failed_count: int) -> None:
    """Add a job's outcomes to its sub-lane and batch; when the last row has one, the batch is due to be finished."""
    SubLane.objects.filter(pk=sub_lane.pk).update(
        completed_count=F("completed_count") + succeeded_count, failed_count=F("failed_count") + failed_count
    )
    Batch.objects.filter(pk=batch.pk).update(
        completed_count=F("completed_count") + succeeded_count, failed_count=F("failed_count") + failed_count
    )
    if Batch.objects.filter(pk=batch.pk, row_count=F("completed_count") + F("failed_count")).update(due_at=clock.now()):
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
    if result.outcome is not Outcome.FAILED:
        return {Outcome.EXPIRED: RowCode.BATCH_EXPIRED, Outcome.CANCELLED: RowCode.BATCH_CANCELLED}[result.outcome]
    if job.ending != JobEnding.FAILED:
        return "result_missing"
    # Why a job never ran stands in its last error, code first.
    return RowCode.MODEL_GONE if job.last_error.startswith(f"{Fault.MODEL_GONE}:") else RowCode.PROVIDER_ERROR


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


def _outcome(job: ProviderJob, result: RowResult, offset: int, length: int, group: GroupPlan) -> tuple[object, ...]:
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
