"""From a running job to row outcomes: poll, then collect.

That a job has ended at the provider and that its results are here are two states; reading is tried again for as long
as the batch lives.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import F

from ground import clock
from ground.blobs import BlobWriter, delete_blob, delete_overtaken
from ground.errors import ProviderError
from ground.fault_points import FaultPoint, reach
from ground.leases import Keeper, Lease, LeaseLost, unless_lost
from ground.wake import wake
from routing.domain.polling import poll_wait_seconds
from routing.domain.row_lists import unpack_rows
from routing.job_results import JobResults
from routing.models import JobState, ProviderJob
from routing.providers.base import (
    Fault,
    JobEnding,
    JobReport,
)
from routing.providers.base import JobState as ReportedState
from routing.services.outcomes import conclude_job
from routing.services.pace import pace_of
from routing.services.provider_accounts import note_answer, note_refusal, opened
from routing.services.room import call_line, give_up_full_job, parts_for_room
from routing.services.sub_lanes import moving_job
from routing.services.turns import Step, claim_in_turn

_log = logging.getLogger(__name__)

# A provider's storage may lag behind its own answers: it does not know a job when it says so this often in a row.
_NOT_FOUND_TRIES = 4
# Bodies that are put in the order of their rows before they are written. More would take memory, fewer more reads.
_SORTED_BYTES = 4 * 1024 * 1024
# How far a provider's clock may be ahead of ours.
_CLOCK_MARGIN = timedelta(days=1)


def poll_next_job() -> bool:
    """Ask the provider how the next due job is doing."""
    lease = claim_in_turn(Step.POLL, (JobState.RUNNING,))
    if lease is None:
        return False
    reach(FaultPoint.POLL_CLAIMED)
    job = ProviderJob.objects.select_related("account", "sub_lane").get(pk=lease.row_id)
    with unless_lost():
        try:
            with opened(job.account) as provider:
                report = provider.poll(job.batch_ref)
        except ProviderError as error:
            note_refusal(job.account, error)
            _poll_failed(lease, job, error)
        else:
            reach(FaultPoint.POLL_ANSWERED)
            note_answer(job.account)
            _polled(lease, job, report)
            reach(FaultPoint.POLL_AFTER_COMMIT)
            if report.state is ReportedState.ENDED and report.fault is not Fault.LANE_FULL:
                call_line(job)
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
            # A notice that came while the provider was asked has moved it: what it tells of may be later.
            if row.due_at == job.due_at:
                row.due_at = at + _poll_interval(row, at)
            return
        assert report.ending is not None, "a report that ended says how"
        row.ending = report.ending
        row.completed_at = _completed_at(row, report, at)
        if is_full:
            give_up_full_job(row, parts, tokens)
            return
        row.state = JobState.ENDED
        row.fault = report.fault or ""
        row.output_refs = list(report.result_refs)
        row.due_at = at
        wake("routing.collect_jobs")
        reach(FaultPoint.POLL_BEFORE_COMMIT)


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
    if error.code == Fault.RATE_LIMITED and error.retry_after_seconds:
        # What it asks for it asks of the account: its other jobs wait as well.
        until = at + _backoff(0, error.retry_after_seconds)
        others = ProviderJob.objects.filter(account=job.account, state=JobState.RUNNING, lease_until=None)
        others.filter(due_at__lt=until).update(due_at=until)


def _backoff(try_count: int, retry_after_seconds: int | None) -> timedelta:
    """Give the wait before another read: doubled each time, never less than the provider asked, an hour at most."""
    seconds = min(settings.POLL_MAX_SECONDS, 2 ** min(try_count, 10))
    return timedelta(seconds=max(seconds, min(retry_after_seconds or 0, 3_600)))


def _poll_interval(job: ProviderJob, at: datetime) -> timedelta:
    """Give the wait before the next poll, within the settings' bounds.

    Not at once at the least: a turn that polls must come to an end. But half a sweep less than the least: the sweep a
    second later would find it not quite due, and every second one would ask.
    """
    assert job.submitted_at is not None, "a job that runs was submitted"
    age_seconds = (at - job.submitted_at).total_seconds()
    least = max(1, settings.POLL_MIN_SECONDS) - settings.SWEEP_INTERVAL_SECONDS / 2
    return timedelta(
        seconds=poll_wait_seconds(age_seconds, pace_of(job), least=least, most=max(least, settings.POLL_MAX_SECONDS))
    )


def collect_next_job() -> bool:
    """Read the results of the next ended job and give its rows their outcome."""
    lease = claim_in_turn(Step.COLLECT, (JobState.ENDED,))
    if lease is None:
        return False
    reach(FaultPoint.COLLECT_CLAIMED)
    job = ProviderJob.objects.select_related("batch", "sub_lane", "account").get(pk=lease.row_id)
    with unless_lost():
        delete_overtaken(_results_folder(job), lease.fence)
        try:
            collected, blob_name = _read(lease, job)
        except ProviderError as error:
            note_refusal(job.account, error)
            with moving_job(lease) as row:
                row.last_error = f"{error.code}: {error.message}"[:300]
                row.try_count = F("try_count") + 1
                row.due_at = clock.now() + _backoff(job.try_count, error.retry_after_seconds)
            return True
        reach(FaultPoint.COLLECT_BLOB_WRITTEN)
        note_answer(job.account)
        try:
            conclude_job(lease, job, collected, blob_name)
        except LeaseLost:
            if blob_name:
                delete_blob(blob_name)
            raise
        reach(FaultPoint.COLLECT_AFTER_COMMIT)
        collected.tell(job.token)
    return True


def _results_folder(job: ProviderJob) -> str:
    return f"results/{job.token}"


def _read(lease: Lease, job: ProviderJob) -> tuple[JobResults, str]:
    """Read all result files of a job: bodies into one blob, the rest as numbers. Network and disk, no transaction."""
    collected = JobResults(unpack_rows(job.rows))
    if not job.output_refs:
        return collected, ""
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
    keep = Keeper(lease)
    with (
        BlobWriter(f"{_results_folder(job)}/{lease.fence}.bodies", is_hashed=False) as blob,
        opened(job.account) as provider,
    ):
        answer_prefix = f"{job.batch.public_id.removeprefix('batch_')}_"
        for read in provider.results(report, token=job.token, answer_prefix=answer_prefix):
            keep()
            reach(FaultPoint.COLLECT_HALF_READ)
            collected.take(read)
            if collected.waiting_bytes >= _SORTED_BYTES:
                blob.write_all(collected.take_bodies())
        blob.write_all(collected.take_bodies())
        return collected, blob.save().name
