"""An operator's word that a job which was never sent goes to another lane with its pin.

It is the move that the engine makes itself when a lane leaves rotation: the rows were not attempted, so nothing is sent
twice, and the customer pays what was quoted, whichever lane runs them. A job that was sent, or may have been, stays.
"""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import F, Q

from accounts.audit import record
from accounts.models import User
from accounts.selectors import DATABASE_NOW
from ground import clock
from ground.errors import InvalidRequest, NotFound
from ground.reasons import checked_reason
from ground.wake import wake
from routing.domain.row_lists import unpack_rows
from routing.models import BatchEnding, JobState, ProviderJob
from routing.services.moves import Move, lock_moves, move_rows, plan_move
from routing.services.sub_lanes import follow_jobs


def may_be_moved(job: ProviderJob) -> bool:
    """Say whether a job, with its batch, was never sent and its batch goes on."""
    return job.state == JobState.INTENDED and job.batch.ending == BatchEnding.NONE


def move_of(job: ProviderJob, at: datetime) -> Move:
    """Give where the rows of a job would go now. Reads only.

    Raises:
        InvalidRequest: It was sent, or its batch ends; or no other lane with the pin may take the rows now.
    """
    if not may_be_moved(job):
        raise InvalidRequest("The job was sent already, or its batch ends: it stays where it is.")
    try:
        move = plan_move(job, unpack_rows(bytes(job.rows)), at)
    except FileNotFoundError as error:
        raise InvalidRequest("The rows of this batch cannot be read any more.") from error
    if move is None:
        raise InvalidRequest("No other lane with the same model snapshot may take these rows now.")
    return move


def move_job(*, token: str, reason: str, user: User) -> str:
    """Move a job that was never sent to the best other lane with its pin; give that lane's id.

    Raises:
        NotFound: There is no job with this token.
        InvalidRequest: The reason (stripped) is not 3 to 200 characters; a worker has the job; or see :func:`move_of`.
    """
    reason = checked_reason(reason)
    jobs = ProviderJob.objects.select_related("batch", "sub_lane", "account")
    job = jobs.filter(token=token).first()
    if job is None:
        raise NotFound("There is no such job.")
    at = clock.now()
    move = move_of(job, at)
    is_free = Q(lease_until=None) | Q(lease_until__lte=DATABASE_NOW)
    with transaction.atomic():
        lock_moves(job.batch_id)
        # A job that a worker took since the move was planned has another fence.
        unmoved = jobs.filter(is_free, pk=job.pk, state=JobState.INTENDED, fence=job.fence)
        locked = unmoved.select_for_update(of=("self",)).first()
        if locked is None:
            raise InvalidRequest("A worker has this job right now: look again in a moment.")
        move_rows(locked, move, was_attempted=False, at=at)
        ProviderJob.objects.filter(pk=locked.pk).update(
            state=JobState.ABANDONED, due_at=None, lease_until=None, fence=F("fence") + 1
        )
        record(
            "job.moved",
            object_type="provider_job",
            object_id=token,
            organisation=locked.batch.organisation,
            changes={"lane": (locked.sub_lane.lane_id, move.lane.lane_id), "rows": (None, locked.row_count)},
            reason=reason,
            user=user,
        )
        follow_jobs(locked.sub_lane_id)
        wake("routing.submit_jobs")
    return move.lane.lane_id
