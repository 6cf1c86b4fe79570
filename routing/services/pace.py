"""How long a provider takes, learned from the jobs of the last day; looked up at most once a minute by each process."""

from __future__ import annotations

import time
from typing import Final

from django.db import connection

from routing.domain.polling import Pace
from routing.models import ProviderJob

_KEPT_SECONDS: Final = 60.0
# With fewer jobs than this nothing is learned; more than that tell nothing new.
_LEAST_JOBS: Final = 5
_MOST_JOBS: Final = 200
_LEARNED: Final = """
    SELECT count(*), percentile_cont(0.1) WITHIN GROUP (ORDER BY took),
        percentile_cont(0.9) WITHIN GROUP (ORDER BY took)
    FROM (
        SELECT extract(epoch FROM completed_at - submitted_at) AS took FROM routing_providerjob
        WHERE account_id = %s AND ending = 'completed' AND completed_at > lanehouse_now() - interval '24 hours'
          AND submitted_at IS NOT NULL AND row_count BETWEEN %s AND %s
        ORDER BY completed_at DESC LIMIT %s
    ) AS recent
"""
_kept: dict[tuple[int, int], tuple[float, Pace | None]] = {}


def pace_of(job: ProviderJob) -> Pace | None:
    """Give how long the provider of a job took for others of its account with about as many rows; None: not known."""
    # A size is a range by four: 1 to 3, 4 to 15, 16 to 63 rows and so on.
    size = (job.row_count.bit_length() - 1) // 2
    found = _kept.get((job.account_id, size))
    if found is None or time.monotonic() >= found[0]:
        found = time.monotonic() + _KEPT_SECONDS, _learned(job.account_id, size)
        _kept[job.account_id, size] = found
    return found[1]


def forget() -> None:
    """Look again at the next call; for tests, whose database begins anew."""
    _kept.clear()


def _learned(account_id: int, size: int) -> Pace | None:
    with connection.cursor() as cursor:
        cursor.execute(_LEARNED, [account_id, 4**size, 4 ** (size + 1) - 1, _MOST_JOBS])
        job_count, early_seconds, late_seconds = cursor.fetchone()
    if job_count < _LEAST_JOBS:
        return None
    early_seconds = max(0.0, float(early_seconds))
    return Pace(early_seconds=early_seconds, late_seconds=max(early_seconds, float(late_seconds)))
