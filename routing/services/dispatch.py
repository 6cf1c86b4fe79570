"""From a queued sub-lane to provider jobs that run: cut, submit, find after an ambiguous answer.

Each public function does one step of one due row and says whether there was one; tasks and sweeps call it until there
is none.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta

import numpy as np
from django.db import transaction
from django.db.models import F

from catalog.domain.records import Endpoint, Rotation
from catalog.selectors import current_catalog
from ground import clock
from ground.errors import ProviderError
from ground.fault_points import FaultPoint, reach
from ground.leases import Keeper, Lease, LeaseLost, moving_on, unless_lost
from ground.wake import wake
from routing.domain.moving import is_retired
from routing.domain.row_lists import pack_rows, unpack_rows
from routing.models import Batch, BatchEnding, JobState, ProviderAccount, ProviderJob, SubLane, SubLaneState
from routing.payloads import Payload, open_payload, read_body
from routing.providers.base import Fault, JobEnding, Provider, Submission, make_row_key
from routing.services.finding import backoff, find_job, record_submitted
from routing.services.jobs import add_jobs, cut_rows, intended_job, lane_plan_of, next_job_number
from routing.services.moves import lock_moves, move_rows, plan_move
from routing.services.provider_accounts import note_answer, note_refusal, opened
from routing.services.room import has_room, lock_lane, room_wait, take_room, tokens_in_flight
from routing.services.sub_lanes import follow_jobs, moving_job
from routing.services.turns import Step, claim_in_turn, count_turn

_log = logging.getLogger(__name__)

# What people must see to before a sub-lane can go on.
_REPAIR_WAIT = timedelta(minutes=1)
_PAYLOAD_MISSING = "payload_missing"
_NO_ACCOUNT = "no_provider_account"
LANE_OUT = "lane_out_of_rotation"


class _RowsRefused(Exception):
    """Rows that the provider's format cannot carry; nothing was sent."""

    def __init__(self, rows: Sequence[int], error: ProviderError) -> None:
        super().__init__(rows)
        self.rows = rows
        self.error = error


def start_next_sub_lane() -> bool:
    """Cut the next queued sub-lane into provider jobs, each within its lane's limits; intents only, nothing is sent."""
    # Only what is not cut yet is due; rows may have joined the sub-lane before that and be further on.
    lease = claim_in_turn(Step.START, tuple(SubLaneState.values))
    if lease is None:
        return False
    reach(FaultPoint.START_CLAIMED)
    sub_lane = SubLane.objects.select_related("batch__organisation").get(pk=lease.row_id)
    account = ProviderAccount.objects.filter(provider=sub_lane.provider, kind=sub_lane.batch.organisation.kind).first()
    if account is None and sub_lane.batch.ending != BatchEnding.NONE:
        # Nothing will be sent; the rows only need a job to end in.
        account = ProviderAccount.objects.filter(kind=sub_lane.batch.organisation.kind).first()
    with unless_lost():
        if account is None:
            _wait_for_repair(lease, _NO_ACCOUNT)
            return True
        try:
            lane = lane_plan_of(sub_lane)
            with open_payload(sub_lane.batch.quote_id) as payload:
                cuts = [
                    (rows, int(payload.input_tokens[rows].sum()))
                    for rows in cut_rows(payload, lane, payload.rows_of(lane.index))
                ]
        except FileNotFoundError:
            _log.exception("the payload of batch %s is missing", sub_lane.batch.public_id)
            _wait_for_repair(lease, _PAYLOAD_MISSING)
            return True
        at = clock.now()
        with transaction.atomic():
            with moving_on(SubLane, lease) as row:
                first_number = next_job_number(row)
                ProviderJob.objects.bulk_create(
                    intended_job(row, account, number, rows, tokens, at)
                    for number, (rows, tokens) in enumerate(cuts, start=first_number)
                )
                row.due_at = None
            follow_jobs(lease.row_id)
            wake("routing.submit_jobs")
            reach(FaultPoint.START_BEFORE_COMMIT)
        reach(FaultPoint.START_AFTER_COMMIT)
    return True


def _wait_for_repair(lease: Lease, reason: str) -> None:
    with moving_on(SubLane, lease) as row:
        row.state = SubLaneState.WAITING
        row.reason = reason
        row.due_at = clock.now() + _REPAIR_WAIT


def submit_next_job() -> bool:
    """Send the next intended job to its provider, or look for one whose sending ended without a clear answer."""
    lease = claim_in_turn(Step.SUBMIT, (JobState.INTENDED, JobState.SUBMITTING, JobState.UNKNOWN))
    if lease is None:
        return False
    reach(FaultPoint.SUBMIT_CLAIMED)
    job = ProviderJob.objects.select_related("batch", "sub_lane", "account").get(pk=lease.row_id)
    job.sub_lane.batch = job.batch
    with unless_lost(), ExitStack() as stack:
        try:
            payload = stack.enter_context(open_payload(job.batch.quote_id))
        except FileNotFoundError:
            _log.exception("the payload of batch %s is missing", job.batch.public_id)
            with moving_job(lease) as row:
                row.last_error = f"{_PAYLOAD_MISSING}: the rows of the batch cannot be read"
                row.due_at = clock.now() + _REPAIR_WAIT
            return True
        upload_bytes = int(payload.lengths[unpack_rows(job.rows)].sum())
        provider = stack.enter_context(opened(job.account, upload_bytes=upload_bytes))
        if job.state == JobState.INTENDED:
            if _leave_lane(lease, job):
                return True
            if _take_room(lease, job):
                reach(FaultPoint.SUBMIT_NOTED)
                _submit(lease, job, payload, provider)
        else:
            find_job(lease, job, provider, upload_bytes)
    return True


def _leave_lane(lease: Lease, job: ProviderJob) -> bool:
    """Take a job off a lane that left rotation or retired: to another lane with its pin, to a wait, or to an end."""
    at = clock.now()
    lane = current_catalog().lanes.get((job.sub_lane.model_slug, job.sub_lane.lane_id))
    is_gone = lane is None or is_retired(current_catalog(), lane, at)
    if lane is not None and not is_gone and lane.rotation is not Rotation.OUT:
        return False
    move = plan_move(job, unpack_rows(bytes(job.rows)), at)
    with transaction.atomic():
        lock_moves(job.batch_id)
        with moving_job(lease) as row:
            if move is not None:
                move_rows(job, move, was_attempted=False, at=at)
                row.state = JobState.ABANDONED
                row.due_at = None
                wake("routing.submit_jobs")
            elif is_gone:
                row.fault = Fault.MODEL_GONE
                _end_unsubmitted(row, f"{Fault.MODEL_GONE}: the pin was retired", at)
            else:
                row.last_error = f"{LANE_OUT}: the lane is out of rotation and no other has this pin"
                row.due_at = at + _REPAIR_WAIT
    return True


def _take_room(lease: Lease, job: ProviderJob) -> bool:
    """Record that the job is being sent, if its lane has room for it and for all who stand before it in the line."""
    limit_tokens = lane_plan_of(job.sub_lane).enqueued_tokens_limit
    at = clock.now()
    with moving_job(lease, keep_lease=True) as row:
        batch_ending = Batch.objects.values_list("ending", flat=True).get(pk=job.batch_id)
        if batch_ending != BatchEnding.NONE:
            _end_unsubmitted(row, "", at, ending=batch_ending)
            row.lease_until = None
            return False
        if limit_tokens:
            lock_lane(job)
            in_flight_tokens = tokens_in_flight(job)
            if not has_room(job, limit_tokens, in_flight_tokens):
                row.last_error = f"{Fault.LANE_FULL}: {in_flight_tokens} of {limit_tokens} tokens are in flight"
                row.due_at = at + room_wait(at - row.intended_at)
                row.lease_until = None
                return False
            take_room(job)
        row.state = JobState.SUBMITTING
        # Set when the rows are encoded: from then on the provider may have the job, whatever becomes of this process.
        row.submitting_at = None
        row.try_count = F("try_count") + 1
        count_turn(Step.SUBMIT, job.batch.organisation_id, job.estimated_input_tokens)
    return True


def _submit(lease: Lease, job: ProviderJob, payload: Payload, provider: Provider) -> None:
    submission = Submission(
        token=job.token,
        endpoint=Endpoint(job.batch.endpoint),
        model_id=job.sub_lane.model_id,
        row_count=job.row_count,
        lines=lambda: _lines(lease, job, payload, provider),
    )
    try:
        submitted = provider.submit(submission)
    except _RowsRefused as refused:
        _set_apart(lease, payload, refused)
    except ProviderError as error:
        note_refusal(job.account, error)
        _submit_failed(lease, job, error)
    else:
        reach(FaultPoint.SUBMIT_ANSWERED)
        note_answer(job.account)
        record_submitted(lease, submitted.batch_ref, submitted.input_ref or "")


def _lines(lease: Lease, job: ProviderJob, payload: Payload, provider: Provider) -> Iterator[bytes]:
    """Give the encoded rows; the last thing before they are sent is to prove and to note that the job is still ours."""
    endpoint = Endpoint(job.batch.endpoint)
    lane = lane_plan_of(job.sub_lane)
    keep = Keeper(lease)
    refused: list[int] = []
    refusal: ProviderError | None = None
    for block in payload.blocks(unpack_rows(job.rows)):
        lines = block.lines()
        spliced = provider.splice_rows(
            token=job.token, rows=block.rows, endpoint=endpoint, model_id=lane.model_id, lines=lines
        )
        encoded: list[bytes] = []
        for row, line, made in zip(block.rows, lines, spliced, strict=True):
            if made is not None:
                encoded.append(made)
                continue
            keep()
            try:
                made_of_members = provider.encode_row(
                    row_key=make_row_key(job.token, row),
                    endpoint=endpoint,
                    model_id=lane.model_id,
                    body=read_body(line),
                    max_output_tokens=lane.max_output_tokens or None,
                )
            except ProviderError as error:
                refused.append(row)
                refusal = error
            else:
                encoded.append(made_of_members)
        keep()
        reach(FaultPoint.SUBMIT_HALF_ENCODED)
        if encoded:
            yield b"".join(encoded)
    if refusal is not None:
        raise _RowsRefused(refused, refusal)
    lease.renew()
    # Whoever looks for the job counts from here: nothing can have been made before.
    if not ProviderJob.objects.filter(pk=lease.row_id, fence=lease.fence).update(submitting_at=clock.now()):
        raise LeaseLost
    reach(FaultPoint.SUBMIT_ENCODED)


def _set_apart(lease: Lease, payload: Payload, refused: _RowsRefused) -> None:
    """Give rows that cannot be sent a job of their own, which ends at once; the others are sent without them."""
    at = clock.now()
    message = f"{refused.error.code}: {refused.error.message}"[:300]
    with moving_job(lease) as job:
        rows = unpack_rows(job.rows)
        is_refused = np.isin(rows, refused.rows)
        apart = job
        if not is_refused.all():
            tokens = payload.input_tokens
            kept = rows[~is_refused]
            (apart,) = add_jobs(job, [rows[is_refused]], [int(tokens[rows[is_refused]].sum())], at)
            job.rows, job.row_count = pack_rows(kept), len(kept)
            job.estimated_input_tokens = int(tokens[kept].sum())
            job.state = JobState.INTENDED
            job.due_at = at
        _end_unsubmitted(apart, message, at)
        if apart is not job:
            apart.save()


def _end_unsubmitted(job: ProviderJob, message: str, at: datetime, *, ending: str = JobEnding.FAILED) -> None:
    """End a job that no provider has: the collecting step gives its rows their outcome."""
    job.state = JobState.ENDED
    job.ending = ending
    job.last_error = message
    job.completed_at = at
    job.due_at = at
    wake("routing.collect_jobs")


def _submit_failed(lease: Lease, job: ProviderJob, error: ProviderError) -> None:
    at = clock.now()
    message = f"{error.code}: {error.message}"[:300]
    with moving_job(lease) as row:
        if error.permanent and not error.ambiguous:
            row.fault = error.code
            _end_unsubmitted(row, message, at)
        else:
            row.last_error = message
            row.state = JobState.UNKNOWN if error.ambiguous else JobState.INTENDED
            row.due_at = at + backoff(job.try_count, error.retry_after_seconds)
