"""An operator's word that a provider job is to be looked at now, whatever it waits for."""

from __future__ import annotations

from typing import Final

from django.db import transaction
from django.db.models import Q

from accounts.audit import record
from accounts.selectors import DATABASE_NOW
from ground import clock
from ground.errors import InvalidRequest, NotFound
from ground.wake import wake
from routing.models import JobState, ProviderJob

_WAKES: Final = {
    JobState.RUNNING: "routing.poll_jobs",
    JobState.ENDED: "routing.collect_jobs",
}


@transaction.atomic
def look_at_job_now(token: str) -> ProviderJob:
    """Let a job that waits be taken by the next worker that is free; one that is at work is left alone.

    It changes when the next step comes, never what it does: the engine asks the provider and believes what it says.

    Raises:
        NotFound: There is no job with this token.
        InvalidRequest: A worker has it now, or nothing is to be done about it any more.
    """
    job = ProviderJob.objects.select_for_update(of=("self",)).filter(token=token).select_related("batch").first()
    if job is None:
        raise NotFound("There is no such job.")
    if job.due_at is None:
        raise InvalidRequest(f"Nothing is due for this job: it is {job.state}.")
    free = Q(lease_until=None) | Q(lease_until__lte=DATABASE_NOW)
    if not ProviderJob.objects.filter(free, pk=job.pk).update(due_at=clock.now()):
        raise InvalidRequest("A worker has this job right now.")
    record(
        "job.looked_at",
        object_type="provider_job",
        object_id=token,
        organisation=job.batch.organisation,
        changes={"due_at": (job.due_at.isoformat(timespec="seconds"), "now")},
    )
    wake(_WAKES.get(JobState(job.state), "routing.submit_jobs"))
    return job
