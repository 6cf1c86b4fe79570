"""After a submit without a clear answer: whether the provider has the job.

Where a provider keeps our token, the token decides. Where it keeps none, a job that nobody has claimed and that has as
many rows is taken for ours until its results prove it; what cannot be told apart waits for operators. Nothing is sent
twice before the provider's complete list has shown that it did not arrive.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final

from django.conf import settings
from django.db.models import F

from ground import clock
from ground.errors import ProviderError
from ground.fault_points import FaultPoint, reach
from ground.leases import Lease
from ground.wake import wake
from routing.models import JobState, ProviderJob
from routing.providers.base import ListedJob, Provider
from routing.providers.registry import keeps_tokens
from routing.services.provider_accounts import longest_submit_seconds
from routing.services.sub_lanes import UNCLEAR, moving_job

_log = logging.getLogger(__name__)

# An ambiguous submit is looked for this much before its intent, for the two clocks: a list too long costs a page, a
# list too short a second sending.
_CLOCK_MARGIN: Final = timedelta(minutes=15)
_FIRST_BACKOFF_SECONDS: Final = 1
_LONGEST_BACKOFF_SECONDS: Final = 60
# How long a job without a token is looked for before people are asked.
_ASK_PEOPLE_AFTER: Final = timedelta(minutes=10)
_SHOWN_CANDIDATES: Final = 20


def find_job(lease: Lease, job: ProviderJob, provider: Provider, upload_bytes: int) -> None:
    """Ask the provider what it has since the intent; send again only when the complete list has no trace of the job.

    A job left in ``submitting`` by a killed worker is the same case: nobody knows whether it was sent. Only one whose
    rows were still being encoded surely was not.
    """
    if job.submitting_at is None:
        _send_again(lease)
        return
    reach(FaultPoint.FIND_CLAIMED)
    try:
        listed = provider.find_since(job.intended_at - _CLOCK_MARGIN)
    except ProviderError as error:
        with moving_job(lease) as row:
            row.state = JobState.UNKNOWN
            row.last_error = f"{error.code}: {error.message}"[:300]
            row.try_count = F("try_count") + 1
            row.due_at = clock.now() + backoff(job.try_count, error.retry_after_seconds)
        return
    reach(FaultPoint.FIND_ANSWERED)
    found = [entry.batch_ref for entry in listed if entry.token == job.token]
    if found:
        # Newest first, so the last one was sent first. Others are a provider's own doubling: nobody reads them.
        record_submitted(lease, found[-1], job.input_ref)
        reach(FaultPoint.FIND_FOUND)
        _cancel_doubles(provider, job, found[:-1])
    elif keeps_tokens(job.account.provider):
        _not_found(lease, job, upload_bytes)
    else:
        _find_by_count(lease, job, listed, upload_bytes)


def _send_again(lease: Lease) -> None:
    with moving_job(lease) as row:
        row.state = JobState.INTENDED
        row.due_at = clock.now()
        wake("routing.submit_jobs")
        reach(FaultPoint.FIND_UNSENT)


def _not_found(lease: Lease, job: ProviderJob, upload_bytes: int) -> None:
    """Wait while what was cut may still arrive: an absence counts only once no call of ours can be under way."""
    assert job.submitting_at is not None, "a job is submitting from an instant on"
    settled_at = job.submitting_at + timedelta(seconds=longest_submit_seconds(upload_bytes))
    at = clock.now()
    with moving_job(lease) as row:
        if at < settled_at:
            row.state = JobState.UNKNOWN
            row.due_at = min(settled_at, at + backoff(job.try_count, None))
            row.try_count = F("try_count") + 1
        else:
            row.state = JobState.INTENDED
            row.due_at = at
            wake("routing.submit_jobs")
            reach(FaultPoint.FIND_ABSENT)


def _find_by_count(lease: Lease, job: ProviderJob, listed: Sequence[ListedJob], upload_bytes: int) -> None:
    """Take the one job that can be ours, or go on looking; people are asked when time does not make it clear."""
    assert job.submitting_at is not None, "a job is submitting from an instant on"
    at = clock.now()
    with moving_job(lease) as row:
        candidates = _candidates(row, listed, upload_bytes)
        rivals = _rivals(row, candidates, upload_bytes)
        if len(candidates) == 1 and candidates[0].row_count == row.row_count and not rivals:
            _log.warning("job %s is taken to be %s until its results prove it", row.token, candidates[0].batch_ref)
            run_job(row, candidates[0].batch_ref, "")
            reach(FaultPoint.FIND_ADOPTED)
            return
        row.state = JobState.UNKNOWN
        row.try_count = F("try_count") + 1
        row.due_at = at + backoff(job.try_count, None)
        if at >= job.submitting_at + _ASK_PEOPLE_AFTER:
            row.unclear_since = row.unclear_since or at
            row.candidates = [_shown(entry) for entry in candidates[:_SHOWN_CANDIDATES]]
            row.last_error = (
                f"{UNCLEAR}: {len(candidates)} jobs at the provider may be this one, and {rivals} others of ours are"
                " looked for like it; nothing is sent again until a person has decided"
            )


def _candidates(job: ProviderJob, listed: Sequence[ListedJob], upload_bytes: int) -> list[ListedJob]:
    """Give what may be the job: no token, as many rows or not counted yet, made when ours can be, claimed by nobody."""
    fitting = [
        entry
        for entry in listed
        if entry.token is None
        and entry.row_count in {None, job.row_count}
        and entry.batch_ref not in job.disproved_batch_refs
        and _can_be_made(job, entry, upload_bytes)
    ]
    refs = [entry.batch_ref for entry in fitting]
    claimed = set(ProviderJob.objects.filter(batch_ref__in=refs).values_list("batch_ref", flat=True))
    return [entry for entry in fitting if entry.batch_ref not in claimed]


def _can_be_made(job: ProviderJob, entry: ListedJob, upload_bytes: int) -> bool:
    """Say whether what a provider lists can come from the job's last sending, by the clocks."""
    if job.submitting_at is None:
        return False
    latest = job.submitting_at + timedelta(seconds=longest_submit_seconds(upload_bytes)) + _CLOCK_MARGIN
    return job.submitting_at - _CLOCK_MARGIN <= entry.created_at <= latest


def _rivals(job: ProviderJob, candidates: Sequence[ListedJob], upload_bytes: int) -> int:
    """Count the account's other jobs that are sent or looked for, with as many rows, and may be the same candidate.

    One of long ago is no rival: nothing that its sending can have made is a candidate now.
    """
    others = ProviderJob.objects.filter(
        account_id=job.account_id, row_count=job.row_count, state__in=[JobState.SUBMITTING, JobState.UNKNOWN]
    ).exclude(pk=job.pk)
    return sum(
        # Without a candidate every one that looks for the same is told of.
        not candidates or any(_can_be_made(other, entry, upload_bytes) for entry in candidates)
        for other in others.only("submitting_at", "row_count")
    )


def _shown(entry: ListedJob) -> dict[str, str | int | None]:
    return {
        "batch_ref": entry.batch_ref,
        "row_count": entry.row_count,
        "created_at": int(entry.created_at.timestamp()),
    }


def disprove_job(job: ProviderJob) -> None:
    """Let go of a provider's job whose results are another's; the locked job is looked for again."""
    _log.error("job %s is not %s: its results are another's", job.token, job.batch_ref)
    job.disproved_batch_refs = [*job.disproved_batch_refs, job.batch_ref]
    job.state = JobState.UNKNOWN
    job.batch_ref = ""
    job.ending = ""
    job.output_refs = []
    job.submitted_at = job.polled_at = job.completed_at = job.cancel_asked_at = None
    job.reported_done_count = job.reported_failed_count = 0
    job.try_count = 0
    job.due_at = clock.now()
    wake("routing.submit_jobs")


def record_submitted(lease: Lease, batch_ref: str, input_ref: str) -> None:
    """Write that the provider has the job, by its reference."""
    with moving_job(lease) as row:
        run_job(row, batch_ref, input_ref)
        reach(FaultPoint.SUBMIT_BEFORE_COMMIT)
    reach(FaultPoint.SUBMIT_AFTER_COMMIT)


def run_job(job: ProviderJob, batch_ref: str, input_ref: str) -> None:
    """Let the locked job run under a provider's reference; its first poll follows."""
    at = clock.now()
    job.state = JobState.RUNNING
    job.batch_ref = batch_ref
    job.input_ref = input_ref
    job.submitted_at = at
    job.last_error = ""
    job.try_count = 0
    job.due_at = at + timedelta(seconds=settings.POLL_MIN_SECONDS)


def _cancel_doubles(provider: Provider, job: ProviderJob, batch_refs: Sequence[str]) -> None:
    for batch_ref in batch_refs:
        _log.error("job %s is twice at the provider; %s is cancelled", job.token, batch_ref)
        with suppress(ProviderError):
            provider.cancel(batch_ref)


def backoff(try_count: int, retry_after_seconds: int | None) -> timedelta:
    """Give the wait before another try: doubled each time up to a minute, never less than the provider asked."""
    seconds = min(_LONGEST_BACKOFF_SECONDS, _FIRST_BACKOFF_SECONDS * 2 ** min(try_count, 10))
    return timedelta(seconds=max(seconds, min(retry_after_seconds or 0, 3_600)))
