"""An operator's word that provider jobs are to be looked at now, whatever they wait for."""

from __future__ import annotations

from typing import Final

from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Least

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


_FREE: Final = Q(lease_until=None) | Q(lease_until__lte=DATABASE_NOW)
# One press; what is left is reached by another.
POLLS_AT_ONCE: Final = 500


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
    if not ProviderJob.objects.filter(_FREE, pk=job.pk).update(due_at=Least("due_at", clock.now())):
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


@transaction.atomic
def look_at_polls_now(polls: QuerySet[ProviderJob], *, asked_for: str) -> int:
    """Let the polls that no worker has be taken now, 500 at most, the longest due first; give how many these are.

    Providers' own limits of calls still hold: a poll that one of them refuses comes again later, as always.

    Args:
        polls: Running jobs, of whatever organisations.
        asked_for: Which ones they are, in words, for the audit log; there it is one deed.
    """
    waiting = polls.filter(_FREE, state=JobState.RUNNING, due_at__isnull=False).order_by("due_at", "pk")
    chosen = list(
        waiting.select_for_update(of=("self",), skip_locked=True).values_list("pk", flat=True)[:POLLS_AT_ONCE]
    )
    if chosen:
        ProviderJob.objects.filter(pk__in=chosen).update(due_at=Least("due_at", clock.now()))
        record(
            "job.looked_at",
            object_type="provider_job",
            object_id=f"{len(chosen)} polls",
            changes={"due_at": (asked_for, "now")},
        )
        wake(_WAKES[JobState.RUNNING])
    return len(chosen)
