"""Sub-lanes follow their jobs: state, reason and progress are worked out from the jobs, in the jobs' own transactions.

Rows are locked in one order everywhere: job, sub-lane, batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from django.db import transaction

from ground import clock
from ground.leases import Lease, moving_on
from routing.models import BatchEnding, JobState, ProviderJob, RowOutcome, SubLane, SubLaneState
from routing.providers.base import Fault

ENQUEUED_TOKENS_LIMIT = "enqueued_tokens_limit"
# Nobody can tell whether a job was sent: operators are asked.
UNCLEAR = "submit_is_unclear"
_LOOKED_AT: Final = (
    *("state", "reason", "row_count", "completed_count", "failed_count", "reported_count", "ended_at"),
    *("batch__ending", "batch__created_at"),
)
_JOBS_TELL: Final = (
    *("state", "row_count", "reported_done_count", "reported_failed_count", "last_error"),
    *("submitted_at", "polled_at", "unclear_since"),
)


@contextmanager
def moving_job(lease: Lease, *, keep_lease: bool = False) -> Iterator[ProviderJob]:
    """Give a claimed job, locked, in the transaction that moves it on; its sub-lane follows in the same transaction.

    Raises:
        LeaseLost: Another worker has claimed the job; nothing was written.
    """
    with transaction.atomic():
        with moving_on(ProviderJob, lease, keep_lease=keep_lease) as job:
            yield job
            if job.state != JobState.UNKNOWN:
                # Nothing is asked about a job of which it is known where it is.
                job.unclear_since, job.candidates = None, []
        follow_jobs(job.sub_lane_id)


def follow_jobs(sub_lane_id: int) -> None:
    """Bring a sub-lane to where its jobs are, in the transaction that moved one of them."""
    # Every move of every job comes by here: only what is looked at is read.
    locked = SubLane.objects.select_for_update(of=("self",)).select_related("batch").only(*_LOOKED_AT)
    sub_lane = locked.get(pk=sub_lane_id)
    # Read after the lock, so that of two jobs that move at once the later one sees the earlier one's step.
    standing = _Standing(ProviderJob.objects.filter(sub_lane_id=sub_lane_id).only(*_JOBS_TELL).order_by("number"))
    if sub_lane.completed_count + sub_lane.failed_count == sub_lane.row_count:
        # A lane that never took anything has failed, whatever its rows are given as their outcome.
        is_failed = sub_lane.row_count and not standing.was_submitted
        sub_lane.state = _early_ending(sub_lane) or (SubLaneState.FAILED if is_failed else SubLaneState.COMPLETED)
        sub_lane.reason = ""
        sub_lane.ended_at = clock.now()
    else:
        # Rows may join a sub-lane that had ended.
        sub_lane.ended_at = None
        sub_lane.state, sub_lane.reason = standing.state_and_reason()
    # It does not go back, but rows that left take their part of it along.
    done_count = sub_lane.completed_count + sub_lane.failed_count + standing.reported_count
    sub_lane.reported_count = min(sub_lane.row_count, max(sub_lane.reported_count, done_count))
    sub_lane.save(update_fields=["state", "reason", "reported_count", "ended_at"])


def _early_ending(sub_lane: SubLane) -> SubLaneState | None:
    """Give the state of a sub-lane whose batch was ended with rows of it undone; None for every other."""
    batch = sub_lane.batch
    if batch.ending == BatchEnding.NONE:
        return None
    undone = RowOutcome.objects.filter(
        accepted_at=batch.created_at, batch_id=batch.pk, sub_lane_id=sub_lane.pk, outcome=batch.ending
    )
    return SubLaneState(batch.ending) if undone.exists() else None


class _Standing:
    """What a sub-lane's jobs say together."""

    def __init__(self, jobs: Iterable[ProviderJob]) -> None:
        every = tuple(jobs)
        self.was_submitted = any(job.submitted_at for job in every)
        self._jobs = tuple(job for job in every if job.state != JobState.ABANDONED)

    @property
    def reported_count(self) -> int:
        """Give how many rows are done by their providers' word, of jobs whose results are not here yet."""
        return sum(
            min(job.row_count, job.reported_done_count + job.reported_failed_count)
            for job in self._jobs
            if job.state != JobState.COLLECTED
        )

    def state_and_reason(self) -> tuple[SubLaneState, str]:
        """Give the furthest that any job is which still has something before it."""
        states = {job.state for job in self._jobs}
        if JobState.RUNNING in states:
            known = any(job.polled_at for job in self._jobs if job.state == JobState.RUNNING)
            return (SubLaneState.RUNNING if known else SubLaneState.SUBMITTED), ""
        if JobState.ENDED in states:
            return SubLaneState.COLLECTING, ""
        if states & {JobState.SUBMITTING, JobState.UNKNOWN}:
            is_unclear = any(job.unclear_since for job in self._jobs)
            return SubLaneState.SUBMITTING, UNCLEAR if is_unclear else ""
        for job in self._jobs:
            if job.state == JobState.INTENDED and job.last_error:
                code = job.last_error.partition(":")[0]
                return SubLaneState.WAITING, ENQUEUED_TOKENS_LIMIT if code == Fault.LANE_FULL else code
        return SubLaneState.SUBMITTING, ""
