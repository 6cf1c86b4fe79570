"""What a person decides about a job of which nobody can tell whether its provider has it."""

from __future__ import annotations

import logging

from django.db import transaction
from django.db.models import F

from accounts.audit import record
from accounts.models import User
from ground import clock
from ground.errors import InvalidRequest, NotFound
from ground.reasons import checked_reason
from ground.wake import wake
from routing.models import JobState, ProviderAccount, ProviderJob, UnclearChoice, UnclearDecision
from routing.providers.base import Fault, JobEnding
from routing.services.finding import run_job
from routing.services.sub_lanes import follow_jobs

_log = logging.getLogger(__name__)


@transaction.atomic
def decide_unclear_job(
    *, token: str, choice: UnclearChoice, reason: str, user: User, batch_ref: str = ""
) -> ProviderJob:
    """Decide what becomes of an unclear job, and log who decided it and why.

    ``send_again`` sends it as if it had never left us; what the provider may have all the same is the house's cost.
    ``adopt`` takes one of the provider's jobs for it, which its results must prove as always. ``give_up`` ends it as
    failed: its rows are healed on another lane with the same pin, or fail. The fence moves, so that a worker which is
    looking for the job at this moment writes nothing any more.

    Raises:
        NotFound: There is no job with this token.
        InvalidRequest: It is not unclear (any more); the reason (stripped) is not 3 to 200 characters; or the job to
            adopt is none of the candidates, or another job of ours has it.
    """
    reason = checked_reason(reason)
    job = ProviderJob.objects.select_for_update(of=("self",)).filter(token=token).first()
    if job is None:
        raise NotFound("There is no such job.")
    if job.unclear_since is None:
        raise InvalidRequest(f"Nothing is to be decided about this job (any more): it is {job.state}.")
    if choice == UnclearChoice.ADOPT:
        _adopt(job, batch_ref)
    elif choice == UnclearChoice.SEND_AGAIN:
        _send_again(job)
    else:
        _give_up(job)
    job.unclear_since = None
    job.candidates = []
    job.lease_until = None
    job.fence = F("fence") + 1
    job.save()
    UnclearDecision.objects.create(
        job=job, choice=choice, batch_ref=job.batch_ref, reason=reason, decided_by=user, decided_at=clock.now()
    )
    record(
        "job.decided",
        object_type="provider_job",
        object_id=token,
        organisation=job.batch.organisation,
        changes={"state": ("unclear", str(choice)), "batch_ref": (None, job.batch_ref)},
        reason=reason,
        user=user,
    )
    follow_jobs(job.sub_lane_id)
    _log.warning("job %s was unclear: user %d decided %s %s", token, user.pk, choice, job.batch_ref)
    return job


def _adopt(job: ProviderJob, batch_ref: str) -> None:
    if batch_ref not in {candidate["batch_ref"] for candidate in job.candidates}:
        raise InvalidRequest("Choose one of the provider's jobs that may be this one.", param="batch_ref")
    # Two decisions at once would else both find that nobody has it.
    ProviderAccount.objects.select_for_update().get(pk=job.account_id)
    if ProviderJob.objects.filter(account_id=job.account_id, batch_ref=batch_ref).exists():
        raise InvalidRequest("Another job of ours has been found to be this one.", param="batch_ref")
    run_job(job, batch_ref, "")
    wake("routing.collect_jobs")


def _send_again(job: ProviderJob) -> None:
    job.state = JobState.INTENDED
    job.last_error = ""
    job.try_count = 0
    job.due_at = clock.now()
    wake("routing.submit_jobs")


def _give_up(job: ProviderJob) -> None:
    at = clock.now()
    job.state = JobState.ENDED
    job.ending = JobEnding.FAILED
    job.fault = Fault.UNREACHABLE
    job.last_error = f"{Fault.UNREACHABLE}: given up, because nobody could tell whether it was sent"
    job.try_count = 0
    job.completed_at = at
    job.due_at = at
    wake("routing.collect_jobs")
