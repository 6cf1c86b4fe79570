"""Results of a batch that still runs: rows in the order they were collected, append-only, from any point on.

The order is that of the jobs' numbers, given under the batch's lock when a job is collected, and of rows within a job;
so what a reader has seen never changes its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import Max

from ground.errors import InvalidRequest
from routing.models import ENDED_STATUSES, Batch, ProviderJob, RowOutcome
from routing.outcome_pages import outcomes_of_job
from routing.result_lines import ResultLines

_START = "0.0"
_CURSOR = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})")


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedResults:
    """Lines that are there now, many at once. ``last_line`` is the cursor behind them; ``is_incomplete``: more come."""

    lines: Iterator[bytes]
    last_line: str
    is_incomplete: bool


def collected_results(batch: Batch, *, after: str | None) -> CollectedResults:
    """Give the lines of rows collected behind a cursor.

    Args:
        batch: Of the caller's organisation.
        after: A ``last_line`` of an earlier answer; None for the beginning.

    Raises:
        InvalidRequest: ``after`` is no such cursor.
    """
    match = _CURSOR.fullmatch(after or _START)
    if match is None:
        raise InvalidRequest("'after' is the X-Last-Line of an earlier answer.", param="after")
    number, row = int(match[1]), int(match[2])
    # The end is fixed before the first line, so that the cursor in the head is true of what follows.
    jobs = list(
        ProviderJob.objects.filter(batch=batch, collected_number__gte=max(number, 1))
        .order_by("collected_number")
        .values_list("pk", "collected_number")
    )
    numbered = [(job_id, collected_number) for job_id, collected_number in jobs if collected_number is not None]
    return CollectedResults(
        lines=_lines(batch, numbered, number, row),
        last_line=_cursor_behind(batch, numbered) or after or _START,
        is_incomplete=batch.status not in ENDED_STATUSES,
    )


def _lines(batch: Batch, jobs: list[tuple[int, int]], number: int, row: int) -> Iterator[bytes]:
    if not jobs:
        # Of a batch that never went there is no payload to open: its file is not priced, or was refused.
        return
    with ResultLines(batch) as lines:
        for job_id, collected_number in jobs:
            # A cursor names a row that was given; 0.0 and later jobs begin before the first one.
            after_row = row if collected_number == number else -1
            for page in outcomes_of_job(batch, job_id, after_row=after_row):
                yield from (piece.text for piece in lines.of(page))


def _cursor_behind(batch: Batch, jobs: list[tuple[int, int]]) -> str | None:
    """Give the cursor behind the last row of the last job that gave outcomes; jobs whose rows all moved gave none."""
    for job_id, collected_number in reversed(jobs):
        last_row = RowOutcome.objects.filter(accepted_at=batch.created_at, batch_id=batch.pk, job_id=job_id).aggregate(
            row=Max("row")
        )["row"]
        if last_row is not None:
            return f"{collected_number}.{last_row}"
    return None
