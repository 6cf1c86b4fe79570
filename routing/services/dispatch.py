"""From a queued sub-lane to provider jobs that run: cut, submit, find after an ambiguous answer.

Each public function does one step of one due row and says whether there was one; tasks and sweeps call it until there
is none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import timedelta

import numpy as np
import numpy.typing as npt
from django.conf import settings
from django.db.models import F, Sum

from catalog.domain.records import Endpoint
from ground import clock
from ground.errors import ProviderError
from ground.leases import Lease, claim, moving_on, unless_lost
from ground.wake import wake
from routing.domain.pins import BatchPlan, LanePlan
from routing.domain.row_lists import pack_rows, unpack_rows
from routing.models import Batch, BatchStatus, JobState, ProviderAccount, ProviderJob, SubLane, SubLaneState
from routing.payloads import Payload, open_payload
from routing.providers.base import Fault, Provider, Submission, make_row_key
from routing.providers.registry import open_provider
from routing.services.provider_accounts import opened_account

# An ambiguous submit is looked for this much before its intent, for the two clocks.
_CLOCK_MARGIN = timedelta(minutes=2)
_FIRST_BACKOFF_SECONDS = 1
_LONGEST_BACKOFF_SECONDS = 60


def start_next_sub_lane() -> bool:
    """Cut the next queued sub-lane into provider jobs, each within its lane's limits; intents only, nothing is sent."""
    lease = claim(SubLane, state_field="state", states=(SubLaneState.QUEUED,))
    if lease is None:
        return False
    sub_lane = SubLane.objects.select_related("batch__organisation").get(pk=lease.row_id)
    account = ProviderAccount.objects.get(provider=sub_lane.provider, kind=sub_lane.batch.organisation.kind)
    lane = lane_plan_of(sub_lane)
    with open_payload(sub_lane.batch.quote_id) as payload:
        cuts = list(_cut(payload, lane))
        tokens = payload.input_tokens
        at = clock.now()
        jobs = [
            ProviderJob(
                batch=sub_lane.batch,
                sub_lane=sub_lane,
                account=account,
                number=number,
                token=job_token(sub_lane.batch.public_id, sub_lane.number, number),
                rows=pack_rows(rows),
                row_count=len(rows),
                estimated_input_tokens=int(tokens[rows].sum()),
                intended_at=at,
                due_at=at,
            )
            for number, rows in enumerate(cuts)
        ]
    with unless_lost(), moving_on(SubLane, lease) as row:
        ProviderJob.objects.bulk_create(jobs)
        row.state = SubLaneState.SUBMITTING
        row.due_at = None
        wake("routing.submit_jobs")
    return True


def job_token(batch_public_id: str, sub_lane_number: int, job_number: int) -> str:
    """Give a job's idempotency token: the same for the same job, and nothing that tells a customer's id."""
    text = f"{batch_public_id}/{sub_lane_number}/{job_number}"
    return "lh" + hashlib.sha256(text.encode()).hexdigest()[:24]


def lane_plan_of(sub_lane: SubLane) -> LanePlan:
    """Give what the quote pinned for a sub-lane."""
    plan = BatchPlan.from_bytes(sub_lane.batch.plan)
    return plan.groups[sub_lane.group_index].lane(sub_lane.lane_id)


def _cut(payload: Payload, lane: LanePlan) -> Iterator[npt.NDArray[np.int64]]:
    """Give the sub-lane's rows in parts that each fit one job: by rows, by bytes, by the lane's token limit.

    Bytes are judged with room for what re-serialising may add: our key instead of theirs and escapes.
    """
    rows = payload.rows_of(lane.index)
    sizes = payload.lengths[rows] * 2 + 256
    tokens = payload.input_tokens[rows]
    start = 0
    while start < len(rows):
        stop = min(len(rows), start + lane.maximum_rows_per_job)
        stop = _fitting(sizes, start, stop, lane.maximum_bytes_per_job)
        if lane.enqueued_tokens_limit:
            stop = _fitting(tokens, start, stop, lane.enqueued_tokens_limit)
        yield rows[start:stop]
        start = stop


def _fitting(amounts: npt.NDArray[np.int64], start: int, stop: int, limit: int) -> int:
    """Give the last stop whose amounts from ``start`` stay within ``limit``; at least one row goes."""
    filled = np.cumsum(amounts[start:stop])
    return start + max(1, int(np.searchsorted(filled, limit, side="right")))


def submit_next_job() -> bool:
    """Send the next intended job to its provider, or look for one whose sending ended without a clear answer."""
    lease = claim(ProviderJob, state_field="state", states=(JobState.INTENDED, JobState.SUBMITTING, JobState.UNKNOWN))
    if lease is None:
        return False
    job = ProviderJob.objects.select_related("batch", "sub_lane__batch", "account").get(pk=lease.row_id)
    with unless_lost():
        if job.state == JobState.INTENDED:
            _submit(lease, job)
        else:
            _find(lease, job)
    return True


def _submit(lease: Lease, job: ProviderJob) -> None:
    if not _has_room(job):
        with moving_on(ProviderJob, lease) as row:
            row.due_at = clock.now() + timedelta(seconds=settings.POLL_MIN_SECONDS or 1)
            SubLane.objects.filter(pk=job.sub_lane_id).exclude(state=SubLaneState.RUNNING).update(
                state=SubLaneState.WAITING, reason="enqueued_tokens_limit"
            )
        return
    with moving_on(ProviderJob, lease, keep_lease=True) as row:
        # From here on the provider may have the job, whatever becomes of this process.
        row.state = JobState.SUBMITTING
        row.submitting_at = clock.now()
        row.try_count = F("try_count") + 1
    try:
        with open_provider(opened_account(job.account)) as provider, open_payload(job.batch.quote_id) as payload:
            submitted = provider.submit(
                Submission(
                    token=job.token,
                    endpoint=Endpoint(job.batch.endpoint),
                    model_id=job.sub_lane.model_id,
                    row_count=job.row_count,
                    lines=lambda: _lines(lease, job, payload, provider),
                )
            )
    except ProviderError as error:
        _submit_failed(lease, job, error)
        return
    _submitted(lease, submitted.batch_ref, submitted.input_ref or "")


def _lines(lease: Lease, job: ProviderJob, payload: Payload, provider: Provider) -> Iterator[bytes]:
    endpoint = Endpoint(job.batch.endpoint)
    for count, row in enumerate(unpack_rows(job.rows).tolist()):
        if count % 5_000 == 0:
            lease.renew()
        yield provider.encode_row(
            row_key=make_row_key(job.token, row),
            endpoint=endpoint,
            model_id=job.sub_lane.model_id,
            body=payload.body_of(row),
        )


def _has_room(job: ProviderJob) -> bool:
    """Say whether the lane's enqueued-token limit has room for the job; an empty lane always has."""
    limit_tokens = lane_plan_of(job.sub_lane).enqueued_tokens_limit
    if not limit_tokens:
        return True
    in_flight = (
        ProviderJob.objects.filter(
            account_id=job.account_id,
            sub_lane__model_snapshot=job.sub_lane.model_snapshot,
            sub_lane__lane_id=job.sub_lane.lane_id,
            state__in=[JobState.SUBMITTING, JobState.UNKNOWN, JobState.RUNNING],
        ).aggregate(tokens=Sum("estimated_input_tokens"))["tokens"]
        or 0
    )
    return in_flight == 0 or in_flight + job.estimated_input_tokens <= limit_tokens


def _submitted(lease: Lease, batch_ref: str, input_ref: str) -> None:
    at = clock.now()
    with moving_on(ProviderJob, lease) as row:
        row.state = JobState.RUNNING
        row.batch_ref = batch_ref
        row.input_ref = input_ref
        row.submitted_at = at
        row.last_error = ""
        row.try_count = 0
        row.due_at = at + timedelta(seconds=settings.POLL_MIN_SECONDS)
        SubLane.objects.filter(pk=row.sub_lane_id).update(state=SubLaneState.RUNNING, reason="")
        Batch.objects.filter(pk=row.batch_id, status=BatchStatus.VALIDATING).update(
            status=BatchStatus.IN_PROGRESS, in_progress_at=at
        )


def _submit_failed(lease: Lease, job: ProviderJob, error: ProviderError) -> None:
    with moving_on(ProviderJob, lease) as row:
        row.last_error = f"{error.code}: {error.message}"[:300]
        if error.ambiguous:
            row.state = JobState.UNKNOWN
            row.due_at = clock.now() + _backoff(job.try_count, error.retry_after_seconds)
        elif error.code == Fault.LANE_FULL:
            row.state = JobState.INTENDED
            row.due_at = clock.now() + _backoff(job.try_count, error.retry_after_seconds)
            SubLane.objects.filter(pk=row.sub_lane_id).update(
                state=SubLaneState.WAITING, reason="enqueued_tokens_limit"
            )
        elif error.permanent:
            # Nothing runs there: the collecting step gives the rows their outcome.
            row.state = JobState.ENDED
            row.ending = "failed"
            row.completed_at = clock.now()
            row.due_at = clock.now()
            wake("routing.collect_jobs")
        else:
            row.state = JobState.INTENDED
            row.due_at = clock.now() + _backoff(job.try_count, error.retry_after_seconds)


def _find(lease: Lease, job: ProviderJob) -> None:
    """Ask the provider what it has since the intent; send again only when the complete list has no trace of the job.

    A job left in ``submitting`` by a killed worker is the same case: nobody knows whether it was sent.
    """
    assert job.submitting_at is not None, "a job is submitting from an instant on"
    try:
        with open_provider(opened_account(job.account)) as provider:
            listed = provider.find_since(job.submitting_at - _CLOCK_MARGIN)
    except ProviderError as error:
        with moving_on(ProviderJob, lease) as row:
            row.state = JobState.UNKNOWN
            row.last_error = f"{error.code}: {error.message}"[:300]
            row.try_count = F("try_count") + 1
            row.due_at = clock.now() + _backoff(job.try_count, error.retry_after_seconds)
        return
    found = [entry.batch_ref for entry in listed if entry.token == job.token]
    if found:
        # The oldest is the one that was sent first; a second could only be a provider's own doubling.
        _submitted(lease, found[-1], job.input_ref)
        return
    settled_at = job.submitting_at + timedelta(seconds=settings.PROVIDER_TIMEOUT_SECONDS)
    with moving_on(ProviderJob, lease) as row:
        if clock.now() < settled_at:
            # What was cut may still arrive: an absence counts only once no call of ours can be under way.
            row.state = JobState.UNKNOWN
            row.due_at = min(settled_at, clock.now() + _backoff(job.try_count, None))
            row.try_count = F("try_count") + 1
        else:
            row.state = JobState.INTENDED
            row.due_at = clock.now()
            wake("routing.submit_jobs")


def _backoff(try_count: int, retry_after_seconds: int | None) -> timedelta:
    """Give the wait before another try: doubled each time up to a minute, never less than the provider asked."""
    seconds = min(_LONGEST_BACKOFF_SECONDS, _FIRST_BACKOFF_SECONDS * 2 ** min(try_count, 10))
    return timedelta(seconds=max(seconds, min(retry_after_seconds or 0, 3_600)))
