"""Room on a lane: what is in flight there, who stands in line for it, and what becomes of a job that found none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

import numpy as np
from django.db import connection, transaction
from django.db.models import Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from ground import clock
from ground.wake import wake
from routing.domain.line import Piece, fitting, in_line
from routing.domain.row_lists import unpack_rows
from routing.models import BatchEnding, JobState, ProviderJob, SubLane, SubLaneState
from routing.payloads import open_payload
from routing.providers.base import Fault
from routing.services.jobs import Rows, add_jobs, lane_plan_of
from routing.services.sub_lanes import ENQUEUED_TOKENS_LIMIT
from routing.services.turns import count_turn, given_units

_IN_FLIGHT: Final = (JobState.SUBMITTING, JobState.UNKNOWN, JobState.RUNNING)
_WAITS_FOR_ROOM: Final = Q(state=JobState.INTENDED, last_error__startswith=Fault.LANE_FULL)
_FIRST_FULL_SECONDS = 60
_LONGEST_FULL_SECONDS = 900


def lock_lane(job: ProviderJob) -> None:
    """Let one job at a time count what is in flight on its lane; held until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [_queue(job.account_id, job.sub_lane)])


def _queue(account_id: int, sub_lane: SubLane) -> str:
    return f"room of lane {account_id}/{sub_lane.model_snapshot}/{sub_lane.lane_id}"


def tokens_in_flight(job: ProviderJob) -> int:
    """Give the estimated input tokens of the other jobs that a job's lane has or may have, for the same account."""
    in_flight = _of_lane(job.account_id, job.sub_lane).filter(state__in=_IN_FLIGHT).exclude(pk=job.pk)
    return in_flight.aggregate(tokens=Sum("estimated_input_tokens"))["tokens"] or 0


def has_room(job: ProviderJob, limit_tokens: int, in_flight_tokens: int) -> bool:
    """Say whether a lane has room for a job and for everybody before it in the line; the lane is locked.

    Args:
        job: It is about to be sent; with its sub-lane.
        limit_tokens: The lane's limit.
        in_flight_tokens: From :func:`tokens_in_flight`.
    """
    line = _line(job.account_id, job.sub_lane, asking_at=clock.now())
    return any(piece.job_id == job.pk for piece in _fitting(line, limit_tokens, in_flight_tokens))


def take_room(job: ProviderJob) -> None:
    """Count the turn of a job that is sent; the lane is locked. ``job`` has its sub-lane and batch."""
    queue = _queue(job.account_id, job.sub_lane)
    count_turn(queue, job.batch.organisation_id, job.estimated_input_tokens)


def call_line(job: ProviderJob) -> None:
    """Let those try at once for whom there is room now that a job of their lane has ended.

    A hint: whoever is not called asks by itself before a minute is over.

    Args:
        job: With its sub-lane.
    """
    lane = _of_lane(job.account_id, job.sub_lane)
    limit_tokens = lane_plan_of(job.sub_lane).enqueued_tokens_limit
    if not limit_tokens or not lane.filter(_WAITS_FOR_ROOM).exists():
        return
    at = clock.now()
    fit = _fitting(_line(job.account_id, job.sub_lane, asking_at=at), limit_tokens, tokens_in_flight(job))
    with transaction.atomic():
        # One that somebody holds is being tried already.
        called = lane.filter(_WAITS_FOR_ROOM, pk__in=[piece.job_id for piece in fit], due_at__gt=at)
        called = called.select_for_update(skip_locked=True, of=("self",))
        if ProviderJob.objects.filter(pk__in=[each.pk for each in called.only("pk")]).update(due_at=at):
            wake("routing.submit_jobs")


def places_in_line(sub_lanes: Iterable[SubLane]) -> dict[int, int]:
    """Give the place (from 1) in its lane's line of each sub-lane that waits for room there, by the sub-lane's key.

    As many queries as lanes that are waited for, and one.
    """
    waiting = {
        each.pk: each
        for each in sub_lanes
        if each.state == SubLaneState.WAITING and each.reason == ENQUEUED_TOKENS_LIMIT
    }
    if not waiting:
        return {}
    own = ProviderJob.objects.filter(_WAITS_FOR_ROOM, sub_lane__in=waiting)
    lines: dict[str, dict[int, int]] = {}
    places: dict[int, int] = {}
    for job_id, sub_lane_id, account_id in own.values_list("pk", "sub_lane_id", "account_id"):
        queue = _queue(account_id, waiting[sub_lane_id])
        if queue not in lines:
            line = _line(account_id, waiting[sub_lane_id])
            lines[queue] = {piece.job_id: place for place, piece in enumerate(line, start=1)}
        place = lines[queue].get(job_id)
        if place is not None:
            places[sub_lane_id] = min(place, places.get(sub_lane_id, place))
    return places


def _of_lane(account_id: int, sub_lane: SubLane) -> QuerySet[ProviderJob]:
    return ProviderJob.objects.filter(
        account_id=account_id,
        sub_lane__model_snapshot=sub_lane.model_snapshot,
        sub_lane__lane_id=sub_lane.lane_id,
    )


def _line(account_id: int, sub_lane: SubLane, *, asking_at: datetime | None = None) -> list[Piece]:
    """Give a lane's line: who waits for room and, at an instant, also who is about to ask for it."""
    asks = Q(due_at__lte=asking_at) if asking_at is not None else Q(pk=None)
    waiting = _of_lane(account_id, sub_lane).filter(_WAITS_FOR_ROOM | Q(state=JobState.INTENDED) & asks)
    pieces = [
        Piece(job_id=pk, organisation_id=organisation_id, tokens=tokens, finish_by=finish_by)
        for pk, organisation_id, tokens, finish_by in waiting.filter(batch__ending=BatchEnding.NONE).values_list(
            "pk",
            "batch__organisation_id",
            "estimated_input_tokens",
            Coalesce("batch__finish_by", "batch__expires_at"),
        )
    ]
    return in_line(pieces, given_units(_queue(account_id, sub_lane)))


def _fitting(line: list[Piece], limit_tokens: int, in_flight_tokens: int) -> list[Piece]:
    return fitting(line, room_tokens=limit_tokens - in_flight_tokens, is_empty=not in_flight_tokens)


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
