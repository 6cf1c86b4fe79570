"""Room on a lane: how many tokens are in flight there, and what becomes of a job that found no room."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import numpy as np
from django.db import connection
from django.db.models import Sum

from ground import clock
from routing.domain.row_lists import unpack_rows
from routing.models import JobState, ProviderJob
from routing.payloads import open_payload
from routing.services.jobs import Rows, add_jobs

_FIRST_FULL_SECONDS = 60
_LONGEST_FULL_SECONDS = 900


def lock_lane(job: ProviderJob) -> None:
    """Let one job at a time count what is in flight on its lane; held until the transaction ends."""
    name = f"room of lane {job.account_id}/{job.sub_lane.model_snapshot}/{job.sub_lane.lane_id}"
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [name])


def tokens_in_flight(job: ProviderJob) -> int:
    """Give the estimated input tokens of the other jobs that a job's lane has or may have, for the same account."""
    in_flight = ProviderJob.objects.filter(
        account_id=job.account_id,
        sub_lane__model_snapshot=job.sub_lane.model_snapshot,
        sub_lane__lane_id=job.sub_lane.lane_id,
        state__in=[JobState.SUBMITTING, JobState.UNKNOWN, JobState.RUNNING],
    ).exclude(pk=job.pk)
    return in_flight.aggregate(tokens=Sum("estimated_input_tokens"))["tokens"] or 0


def room_wait(waited: timedelta) -> timedelta:
    """Give the time until room is asked for again: a twentieth of the wait so far, from a second to a minute."""
    return min(timedelta(minutes=1), max(timedelta(seconds=1), waited / 20))


def give_up_full_job(job: ProviderJob, parts: Sequence[Rows], tokens: Sequence[int]) -> None:
    """Abandon a job that its provider took and then failed for want of room, and intend its rows anew, in ``parts``.

    They get tokens of their own: under the old one the provider knows a job that has failed. The wait doubles with each
    time the same rows found no room.
    """
    at = clock.now()
    full_count = ProviderJob.objects.filter(
        sub_lane_id=job.sub_lane_id, state=JobState.ABANDONED, rows=bytes(job.rows)
    ).count()
    seconds = min(_LONGEST_FULL_SECONDS, _FIRST_FULL_SECONDS * 2 ** min(full_count, 10))
    for each in add_jobs(job, parts, tokens, at):
        each.last_error = job.last_error
        each.due_at = at + timedelta(seconds=seconds)
        each.save()
    job.state = JobState.ABANDONED
    job.due_at = None


def parts_for_room(job: ProviderJob) -> tuple[list[Rows], list[int]]:
    """Give the rows, with their tokens, as they should be tried again after the provider had no room for the job.

    A job that found no room on a lane that was otherwise empty is larger than the provider allows, whatever our own
    figure of the limit says: it is halved.
    """
    rows = unpack_rows(job.rows)
    if len(rows) == 1 or tokens_in_flight(job):
        return [rows], [job.estimated_input_tokens]
    parts = np.array_split(rows, 2)
    try:
        with open_payload(job.batch.quote_id) as payload:
            return parts, [int(payload.input_tokens[part].sum()) for part in parts]
    except FileNotFoundError:
        return [rows], [job.estimated_input_tokens]
