"""Recording attempts: what every row of a collected job used and cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from django.db import connection, transaction

from billing.database import call
from billing.domain.records import Attempt, CollectedJob

_COLUMNS = (
    'completed_at, job_id, "row", attempt_number, organisation_id, batch_id, lane_id, provider, provider_account, '
    "provider_project, outcome, code, input_tokens, cached_input_tokens, cache_write_5m_tokens, "
    "cache_write_1h_tokens, output_tokens, cost_pico_usd"
)


@transaction.atomic
def record_attempts(job: CollectedJob, attempts: Iterable[Attempt]) -> int:
    """Copy a job's attempts into ``attempt_fact`` and give how many were new.

    Streams: ``attempts`` may be a generator. Rows of this job that were recorded before are left as they are, so a
    repeated collect adds nothing; two collects of one job at once take turns.
    """
    recorded = _recorded_rows(job)
    new_count = 0
    with connection.cursor() as cursor, cursor.copy(f"COPY attempt_fact ({_COLUMNS}) FROM STDIN") as copy:
        for values in _rows(job, attempts, recorded):
            copy.write_row(values)
            new_count += 1
    return new_count


@transaction.atomic
def ensure_partitions(at: datetime) -> None:
    """Make the monthly partitions of ``attempt_fact`` for the month of ``at`` and the next two."""
    call("lanehouse_ensure_month_partitions", ["attempt_fact", at], "regclass timestamptz")


def _recorded_rows(job: CollectedJob) -> frozenset[int]:
    """Give the rows of a job that are there already, after waiting for any other collect of the same job."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended('attempts of job ' || %s, 0))", [str(job.job_id)])
        # A statement of its own: its snapshot is taken after the lock.
        cursor.execute(
            'SELECT "row" FROM attempt_fact WHERE completed_at = %s AND job_id = %s', [job.completed_at, job.job_id]
        )
        return frozenset(row for (row,) in cursor.fetchall())


def _rows(job: CollectedJob, attempts: Iterable[Attempt], recorded: frozenset[int]) -> Iterator[tuple[object, ...]]:
    for attempt in attempts:
        if attempt.row in recorded:
            continue
        tokens = attempt.tokens
        yield (
            job.completed_at,
            job.job_id,
            attempt.row,
            attempt.attempt_number,
            job.organisation_id,
            job.batch_id,
            job.lane_id,
            job.provider,
            job.provider_account,
            job.provider_project,
            attempt.outcome,
            attempt.code,
            tokens.input_tokens,
            tokens.cached_input_tokens,
            tokens.cache_write_5m_tokens,
            tokens.cache_write_1h_tokens,
            tokens.output_tokens,
            attempt.cost_pico_usd,
        )
