"""Ending a batch early: by a cancel, or because its window is over. What finished is kept, delivered and charged."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from django.db import connection, transaction
from django.db.models import F, Q

from accounts.audit import record
from accounts.models import Organisation
from ground import clock
from ground.errors import InvalidRequest, NotFound, ProviderError
from ground.fault_points import FaultPoint, reach
from ground.ids import created_at_of
from ground.leases import Keeper, Lease
from ground.wake import wake
from routing.domain.pins import BatchPlan
from routing.models import ENDED_STATUSES, Batch, BatchEnding, BatchStatus, JobState, ProviderJob, Quote
from routing.services.file_quotes import fail_pending
from routing.services.notices import tell_of
from routing.services.provider_accounts import opened

_log = logging.getLogger(__name__)

# After the window results are still collected for this long.
LATE_RESULTS: Final = timedelta(minutes=15)
# How long until an ending batch is looked at again.
_LOOK_AGAIN_AT_FIRST: Final = timedelta(seconds=2)
_LOOK_AGAIN_AT_LAST: Final = timedelta(minutes=1)


@transaction.atomic
def cancel_batch(*, organisation: Organisation, public_id: str) -> Batch:
    """Ask for a batch to end. Nothing more is sent; what runs is cancelled at its providers.

    Asking again changes nothing. A batch whose rows are all done already is left to finish; one whose file is not
    priced yet is cancelled at once, for nothing is held or sent.

    Raises:
        NotFound: The organisation has no such batch.
        InvalidRequest: It has ended.
    """
    named = Batch.objects.filter(organisation=organisation, public_id=public_id)
    for quote_id in named.filter(status=BatchStatus.VALIDATING).values_list("quote_id", flat=True):
        # Before the batch is locked, as the one who prices it does.
        fail_pending(quote_id, InvalidRequest("Its batch was cancelled.", code="batch_cancelled"))
    batch = named.select_for_update().first()
    if batch is None:
        raise NotFound(f"There is no batch {public_id[:60]!r}.", param="batch_id")
    if batch.status in ENDED_STATUSES:
        raise InvalidRequest(f"The batch has ended already: it is {batch.status}.", param="batch_id")
    if batch.status == BatchStatus.VALIDATING:
        _cancel_unpriced(batch)
        _note_cancel(batch, was=BatchStatus.VALIDATING)
        return batch
    is_done = batch.completed_count + batch.failed_count == batch.row_count
    if batch.status == BatchStatus.IN_PROGRESS and batch.ending == BatchEnding.NONE and not is_done:
        at = clock.now()
        batch.status = BatchStatus.CANCELLING
        batch.cancelling_at = at
        batch.ending = BatchEnding.CANCELLED
        batch.ending_at = at
        batch.due_at = at
        batch.save(update_fields=["status", "cancelling_at", "ending", "ending_at", "due_at"])
        _note_cancel(batch, was=BatchStatus.IN_PROGRESS)
        wake("routing.finish_batches")
        reach(FaultPoint.CANCEL_BEFORE_COMMIT)
        transaction.on_commit(partial(reach, FaultPoint.CANCEL_AFTER_COMMIT))
    return batch


def _cancel_unpriced(batch: Batch) -> None:
    """End a batch that has neither rows nor a hold; the fence moves, so a worker about to accept it finds it gone."""
    at = clock.now()
    batch.status = BatchStatus.CANCELLED
    batch.ending = BatchEnding.CANCELLED
    batch.cancelling_at = batch.cancelled_at = batch.ending_at = at
    batch.due_at = batch.lease_until = None
    batch.fence += 1
    quote = Quote.objects.filter(public_id=batch.quote_id, created_at=created_at_of(batch.quote_id))
    quote.update(payload_kept_until=at)
    tell_of(batch, [], BatchPlan.from_bytes(batch.plan).workflow, at)
    batch.save()


def _note_cancel(batch: Batch, *, was: BatchStatus) -> None:
    record(
        "batch.cancelled",
        object_type="batch",
        object_id=batch.public_id,
        organisation=batch.organisation,
        changes={"status": (was, batch.status)},
    )


def expire_batches() -> int:
    """Begin to end every batch whose window is over, by the database's clock; give how many there were."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE routing_batch SET ending = 'expired', ending_at = lanehouse_now(), due_at = lanehouse_now()"
            " WHERE status = 'in_progress' AND ending = '' AND expires_at <= lanehouse_now()"
            " AND row_count > completed_count + failed_count"
        )
        return int(cursor.rowcount)


def close_jobs(lease: Lease, batch: Batch) -> None:
    """End what an ending batch still has open: jobs that were not sent end here, jobs that run are cancelled.

    A job whose sending is unclear is looked for first; when it is found it runs and is cancelled the next time.
    """
    at = clock.now()
    _end_unsent(batch)
    reach(FaultPoint.CLOSE_UNSENT_ENDED)
    running = ProviderJob.objects.filter(batch=batch, state=JobState.RUNNING, cancel_asked_at=None)
    keep = Keeper(lease)
    for job in running.select_related("account"):
        keep()
        try:
            with opened(job.account) as provider:
                provider.cancel(job.batch_ref)
        except ProviderError as error:
            _log.warning("job %s could not be cancelled and is asked again: %s", job.token, error.code)
        else:
            reach(FaultPoint.CLOSE_ANSWERED)
            # It is polled at once: many jobs have ended by then.
            ProviderJob.objects.filter(pk=job.pk).update(cancel_asked_at=clock.now())
            reach(FaultPoint.CLOSE_NOTED)
            ProviderJob.objects.filter(pk=job.pk, state=JobState.RUNNING, lease_until=None).update(due_at=at)
    assert batch.ending_at is not None, "a batch is ended from an instant on"
    if at >= batch.ending_at + LATE_RESULTS:
        # Their batch ends: nobody is asked any more whether they were sent.
        _give_up(batch, Q(state=JobState.UNKNOWN, unclear_since__isnull=False))
    # Counted from when its jobs were asked to end: an engine that was away must look once before it gives up.
    if at >= max(batch.expires_at, batch.ending_at) + LATE_RESULTS:
        is_open = Q(state__in=[JobState.SUBMITTING, JobState.UNKNOWN, JobState.RUNNING])
        is_unread = Q(state=JobState.ENDED, try_count__gt=0)
        _give_up(batch, is_open | is_unread)
    wake("routing.collect_jobs")


def next_look(batch: Batch, at: datetime) -> timedelta:
    """Give how long an ending batch waits until its jobs are looked at again: a twentieth of the time so far."""
    assert batch.ending_at is not None, "a batch is ended from an instant on"
    return min(_LOOK_AGAIN_AT_LAST, max(_LOOK_AGAIN_AT_FIRST, (at - batch.ending_at) / 20))


def _end_unsent(batch: Batch) -> None:
    """End jobs that no provider has. The fence moves, so a worker about to send one finds that it is not its own."""
    ProviderJob.objects.filter(batch=batch, state=JobState.INTENDED).update(
        state=JobState.ENDED,
        ending=batch.ending,
        completed_at=clock.now(),
        due_at=clock.now(),
        lease_until=None,
        fence=F("fence") + 1,
    )


def _give_up(batch: Batch, which: Q) -> None:
    """End jobs that did not end in time, or whose results could not be read: their rows get the batch's ending."""
    given_up = ProviderJob.objects.filter(which, batch=batch).update(
        state=JobState.ENDED,
        unclear_since=None,
        ending=batch.ending,
        output_refs=[],
        try_count=0,
        completed_at=clock.now(),
        due_at=clock.now(),
        lease_until=None,
        fence=F("fence") + 1,
    )
    if given_up:
        _log.warning("batch %s: %d jobs did not end in time and are given up", batch.public_id, given_up)
