"""Provider jobs as they are made: rows cut to a lane's limits, numbers, tokens.

Law: every row of a sub-lane is in exactly one of its jobs that were not abandoned.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from datetime import datetime

import numpy as np
import numpy.typing as npt
from django.db.models import Max

from routing.domain.pins import LanePlan
from routing.domain.row_lists import pack_rows
from routing.models import ProviderAccount, ProviderJob, SubLane
from routing.payloads import Payload

Rows = npt.NDArray[np.int64]


def intended_job(
    sub_lane: SubLane, account: ProviderAccount, number: int, rows: Rows, input_tokens: int, at: datetime
) -> ProviderJob:
    """Give a job that is not stored yet; nothing is sent before it is."""
    return ProviderJob(
        batch_id=sub_lane.batch_id,
        sub_lane=sub_lane,
        account=account,
        number=number,
        token=job_token(sub_lane.batch.public_id, sub_lane.number, number),
        rows=pack_rows(rows),
        row_count=len(rows),
        estimated_input_tokens=input_tokens,
        intended_at=at,
        due_at=at,
    )


def job_token(batch_public_id: str, sub_lane_number: int, job_number: int) -> str:
    """Give a job's idempotency token: the same for the same job, and nothing that tells a customer's id."""
    text = f"{batch_public_id}/{sub_lane_number}/{job_number}"
    return "lh" + hashlib.sha256(text.encode()).hexdigest()[:24]


def lane_plan_of(sub_lane: SubLane) -> LanePlan:
    """Give what was pinned for a sub-lane, by the quote or when it joined."""
    return LanePlan.from_bytes(sub_lane.pins)


def cut_rows(payload: Payload, lane: LanePlan, rows: Rows) -> Iterator[Rows]:
    """Give rows in parts that each fit one job of a lane: by rows, by bytes, by the lane's token limit.

    Law: every row is in exactly one part, in order; a row that is too large by itself is alone. Bytes are
    judged with room for what re-serialising may add: our key instead of theirs and escapes.
    """
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


def _fitting(amounts: Rows, start: int, stop: int, limit: int) -> int:
    """Give the last stop whose amounts from ``start`` stay within ``limit``; at least one row goes."""
    filled = np.cumsum(amounts[start:stop])
    return start + max(1, int(np.searchsorted(filled, limit, side="right")))


def add_jobs(job: ProviderJob, parts: Sequence[Rows], tokens: Sequence[int], at: datetime) -> list[ProviderJob]:
    """Intend jobs with the next numbers, so with tokens of their own, for rows that ``job`` had; both are locked."""
    sub_lane = SubLane.objects.select_for_update(of=("self",)).select_related("batch").get(pk=job.sub_lane_id)
    last = ProviderJob.objects.filter(sub_lane=sub_lane).aggregate(number=Max("number"))["number"]
    jobs = [
        intended_job(sub_lane, job.account, last + 1 + position, rows, input_tokens, at)
        for position, (rows, input_tokens) in enumerate(zip(parts, tokens, strict=True))
    ]
    for each in jobs:
        each.attempt_number = job.attempt_number
        each.moved_from = job.moved_from
        each.tried_lane_ids = job.tried_lane_ids
    return ProviderJob.objects.bulk_create(jobs)
