"""Provider jobs as they are made: rows cut to a lane's limits, numbers, tokens.

Law: every row of a sub-lane is in exactly one of its jobs that were not abandoned.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise

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


def next_job_number(sub_lane: SubLane) -> int:
    """Give the number of a sub-lane's next job; the sub-lane is locked until that job is stored."""
    last = ProviderJob.objects.filter(sub_lane=sub_lane).aggregate(number=Max("number"))["number"]
    return 0 if last is None else int(last) + 1


def job_token(batch_public_id: str, sub_lane_number: int, job_number: int) -> str:
    """Give a job's idempotency token: the same for the same job, and nothing that tells a customer's id."""
    text = f"{batch_public_id}/{sub_lane_number}/{job_number}"
    return "lh" + hashlib.sha256(text.encode()).hexdigest()[:24]


def lane_plan_of(sub_lane: SubLane) -> LanePlan:
    """Give what was pinned for a sub-lane, by the quote or when it joined."""
    return LanePlan.from_bytes(sub_lane.pins)


def cut_rows(payload: Payload, lane: LanePlan, rows: Rows) -> Iterator[Rows]:
    """Give rows in parts that each fit one job of a lane: by rows, by bytes, by the lane's token limit.

    Law: every row is in exactly one part, in order; a row that is too large by itself is alone. The last part has the
    lane's minimum of rows where two parts can have it. Bytes are judged with room for what re-serialising may add: our
    key instead of theirs and escapes.
    """
    sizes = payload.lengths[rows] * 2 + 256
    tokens = payload.input_tokens[rows]
    stops = [0]
    while stops[-1] < len(rows):
        start = stops[-1]
        stop = min(len(rows), start + lane.maximum_rows_per_job)
        stop = _fitting(sizes, start, stop, lane.maximum_bytes_per_job)
        if lane.enqueued_tokens_limit:
            stop = _fitting(tokens, start, stop, lane.enqueued_tokens_limit)
        stops.append(stop)
    border = len(rows) - lane.minimum_rows
    if len(stops) > 2 and stops[-3] + lane.minimum_rows <= border < stops[-2]:  # noqa: PLR2004 -- two parts or more
        # The rest would be too small a job: it borrows from the part before, which stays large enough.
        stops[-2] = border
    yield from (rows[start:stop] for start, stop in pairwise(stops))


def _fitting(amounts: Rows, start: int, stop: int, limit: int) -> int:
    """Give the last stop whose amounts from ``start`` stay within ``limit``; at least one row goes."""
    filled = np.cumsum(amounts[start:stop])
    return start + max(1, int(np.searchsorted(filled, limit, side="right")))


def add_jobs(job: ProviderJob, parts: Sequence[Rows], tokens: Sequence[int], at: datetime) -> list[ProviderJob]:
    """Intend jobs with the next numbers, so with tokens of their own, for rows that ``job`` had; both are locked."""
    sub_lane = SubLane.objects.select_for_update(of=("self",)).select_related("batch").get(pk=job.sub_lane_id)
    first_number = next_job_number(sub_lane)
    jobs = [
        intended_job(sub_lane, job.account, first_number + position, rows, input_tokens, at)
        for position, (rows, input_tokens) in enumerate(zip(parts, tokens, strict=True))
    ]
    for each in jobs:
        each.attempt_number = job.attempt_number
        each.moved_from = job.moved_from
        each.tried_lane_ids = job.tried_lane_ids
    return ProviderJob.objects.bulk_create(jobs)
