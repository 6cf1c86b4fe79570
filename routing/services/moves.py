"""Moving rows from a lane that cannot do them to one with the same pin that may.

Law: a row leaves one sub-lane and joins another in one transaction, so ``row_count`` adds up to the batch's at every
moment. What was attempted stays recorded with the job that attempted it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np
from django.db import connection
from django.db.models import F, Max
from django.db.models.functions import Greatest

from catalog.domain.records import Lane
from catalog.selectors import current_catalog
from ground.fault_points import FaultPoint, reach
from routing.domain.asks import judge_lanes
from routing.domain.moving import RowsToPlace, next_lane
from routing.domain.parameters.judgement import LaneJudgement
from routing.domain.parameters.needs import each_alone
from routing.domain.pins import BatchPlan, LanePlan, pin_lane
from routing.domain.scoring import WorkflowProfile
from routing.models import Batch, BatchEnding, ProviderAccount, ProviderJob, SubLane, SubLaneState
from routing.payloads import Payload, open_payload
from routing.services.jobs import Rows, cut_rows, intended_job, next_job_number
from routing.services.sub_lanes import follow_jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Rows of one job that go to another lane, already cut to that lane's limits."""

    lane: LanePlan
    account: ProviderAccount
    parts: tuple[Rows, ...]
    part_tokens: tuple[int, ...]

    @property
    def rows(self) -> Rows:
        """All rows that move."""
        return np.concatenate(self.parts)


def plan_move(job: ProviderJob, rows: Rows, at: datetime) -> Move | None:
    """Give where rows of a job can go, or None when no other lane may take them. Reads only.

    Args:
        job: With its batch, sub-lane and account.
        rows: Row numbers of the batch, ascending.
        at: Now (aware).

    Raises:
        FileNotFoundError: The payload is gone.
    """
    batch, sub_lane = job.batch, job.sub_lane
    plan = BatchPlan.from_bytes(batch.plan)
    if batch.ending != BatchEnding.NONE or not len(rows):
        return None
    with open_payload(batch.quote_id) as payload:
        wanted = RowsToPlace(
            model_slug=sub_lane.model_slug,
            model_snapshot=sub_lane.model_snapshot,
            tried_lane_ids=(*job.tried_lane_ids, sub_lane.lane_id),
            row_count=len(rows),
            input_tokens=int(payload.input_tokens[rows].sum()),
            minutes_left=int((batch.expires_at - at).total_seconds() // 60),
            judgements=judge_others(payload, rows, model_slug=sub_lane.model_slug, lane_id=sub_lane.lane_id),
        )
        lane = find_lane(wanted, kind=job.account.kind, workflow=plan.workflow, at=at)
        if lane is None:
            return None
        account = ProviderAccount.objects.get(provider=lane.provider, kind=job.account.kind)
        quoted = plan.groups[sub_lane.group_index].quoted_lane(lane.lane_id)
        pinned = quoted or pin_lane(lane, current_catalog().models[lane.model_slug])
        parts = tuple(cut_rows(payload, pinned, rows))
        tokens = tuple(int(payload.input_tokens[part].sum()) for part in parts)
    reach(FaultPoint.MOVE_PLANNED)
    return Move(lane=pinned, account=account, parts=parts, part_tokens=tokens)


def judge_others(payload: Payload, rows: Rows, *, model_slug: str, lane_id: str) -> dict[str, LaneJudgement]:
    """Give what a model's other lanes make of rows' parameters: a lane that refuses one cannot take them."""
    model = current_catalog().models.get(model_slug)
    others = [lane for lane in model.lanes if lane.lane_id != lane_id] if model else []
    return judge_lanes(others, lambda: each_alone(payload.bodies(rows)))


def find_lane(rows: RowsToPlace, *, kind: str, workflow: WorkflowProfile, at: datetime) -> Lane | None:
    """Give the best lane that may take rows of an organisation of this kind now, or None."""
    return next_lane(
        current_catalog(),
        rows,
        providers=frozenset(ProviderAccount.objects.filter(kind=kind).values_list("provider", flat=True)),
        workflow=workflow,
        at=at,
    )


def lock_moves(batch_id: int) -> None:
    """Let one move of a batch happen at a time; taken before any sub-lane, held until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended('moves of batch ' || %s, 0))", [str(batch_id)])


def move_rows(job: ProviderJob, move: Move, *, was_attempted: bool, at: datetime) -> None:
    """Let rows of a locked job leave its sub-lane and join the lane of the move, as new jobs that are intended.

    Called in the transaction that moves the job on, after :func:`lock_moves`.

    Args:
        job: The job that had the rows.
        move: From :func:`plan_move`.
        was_attempted: True when the job's attempt counts for the rows (a re-dispatch), False when it never was sent.
        at: Now (aware).
    """
    batch = Batch.objects.get(pk=job.batch_id)
    leaving = SubLane.objects.get(pk=job.sub_lane_id)
    joined, _ = SubLane.objects.get_or_create(
        batch=batch,
        model_snapshot=leaving.model_snapshot,
        lane_id=move.lane.lane_id,
        defaults=_new_sub_lane(batch, leaving, move.lane, at),
    )
    # In one order, as everywhere: two moves in opposite directions must not wait for each other.
    list(SubLane.objects.select_for_update().filter(pk__in=[leaving.pk, joined.pk]).order_by("pk"))
    row_count = len(move.rows)
    SubLane.objects.filter(pk=leaving.pk).update(
        row_count=F("row_count") - row_count,
        moved_out_count=F("moved_out_count") + row_count,
        # Rows that were attempted had been reported as done.
        reported_count=Greatest(0, F("reported_count") - row_count * was_attempted),
    )
    SubLane.objects.filter(pk=joined.pk).update(
        row_count=F("row_count") + row_count, re_dispatched_count=F("re_dispatched_count") + row_count
    )
    joined.batch = batch
    ProviderJob.objects.bulk_create(_jobs(job, joined, move, was_attempted=was_attempted, at=at))
    reach(FaultPoint.MOVE_BEFORE_COMMIT)
    follow_jobs(joined.pk)


def _new_sub_lane(batch: Batch, leaving: SubLane, lane: LanePlan, at: datetime) -> dict[str, object]:
    last = SubLane.objects.filter(batch=batch).aggregate(number=Max("number"))["number"]
    return {
        "number": last + 1,
        "group_index": leaving.group_index,
        "model_slug": leaving.model_slug,
        "provider": lane.provider,
        "region": lane.region,
        "model_id": lane.model_id,
        "is_quoted": False,
        "pins": lane.to_bytes(),
        "state": SubLaneState.SUBMITTING,
        "row_count": 0,
        "estimated_input_tokens": 0,
        "fee_micro_usd": 0,
        "created_at": at,
    }


def _jobs(job: ProviderJob, joined: SubLane, move: Move, *, was_attempted: bool, at: datetime) -> list[ProviderJob]:
    first_number = next_job_number(joined)
    jobs = []
    for position, (rows, tokens) in enumerate(zip(move.parts, move.part_tokens, strict=True)):
        made = intended_job(joined, move.account, first_number + position, rows, tokens, at)
        made.attempt_number = job.attempt_number + was_attempted
        made.moved_from = job
        made.tried_lane_ids = [*job.tried_lane_ids, job.sub_lane.lane_id]
        jobs.append(made)
    return jobs
