"""Recording attempts: what every row of a collected job used and cost."""

from __future__ import annotations

from datetime import datetime

import numpy as np
from django.db import connection, transaction

from billing.domain.records import Attempts, CollectedJob, JobTerms
from billing.models import CollectedJobFact
from billing.reconciliation.services.late import note_recording
from ground.bulk import HEADER, TRAILER, Column, Kind, Numbers, binary_rows
from ground.functions import call

_COLUMNS = (
    'completed_at, job_id, "row", attempt_number, organisation_id, batch_id, lane_id, provider, provider_account, '
    "provider_project, outcome, code, input_tokens, cached_input_tokens, cache_write_5m_tokens, "
    "cache_write_1h_tokens, output_tokens, cost_pico_usd"
)


@transaction.atomic
def record_attempts(job: CollectedJob, attempts: Attempts) -> int:
    """Copy a job's attempts into ``attempt_fact`` and give how many were new.

    Rows of this job that were recorded before are left as they are, so a repeated collect adds nothing; two collects
    of one job at once take turns. What comes when its month is closed counts in the next open one.
    """
    is_new = ~np.isin(attempts.rows, _recorded_rows(job))
    if job.terms is not None:
        _record_terms(job.job_id, job.terms)
    with connection.cursor() as cursor:
        copying = cursor.copy(f"COPY attempt_fact ({_COLUMNS}) FROM STDIN (FORMAT BINARY)")
        with copying as copy:
            copy.write(HEADER)
            for verdict in range(len(attempts.verdicts)):
                chosen = np.flatnonzero(is_new & (attempts.verdict_indexes == verdict))
                for piece in binary_rows(_columns(job, attempts, verdict, chosen), len(chosen)):
                    copy.write(piece)
            copy.write(TRAILER)
    new_count = int(is_new.sum())
    if new_count:
        note_recording(job, attempt_count=new_count, cost_pico_usd=int(attempts.costs_pico_usd[is_new].sum()))
    return new_count


@transaction.atomic
def ensure_partitions(at: datetime) -> None:
    """Make the monthly partitions of billing's facts for the month of ``at`` and the next two."""
    for table in ("attempt_fact", "usage_fact", "usage_rollup"):
        call("lanehouse_ensure_month_partitions", [table, at], "regclass timestamptz")


def _record_terms(job_id: int, terms: JobTerms) -> None:
    """Keep what a job's attempts have in common, once."""
    CollectedJobFact.objects.bulk_create(
        [
            CollectedJobFact(
                job_id=job_id,
                batch_public_id=terms.batch_public_id,
                model_snapshot=terms.model_snapshot,
                model_id=terms.model_id,
                tier=terms.tier,
                is_test=terms.is_test,
                input_rate_micro_usd_per_mtok=terms.rates.input_rate_micro_usd_per_mtok,
                cached_input_rate_micro_usd_per_mtok=terms.rates.cached_input_rate_micro_usd_per_mtok,
                cache_write_5m_rate_micro_usd_per_mtok=terms.rates.cache_write_5m_rate_micro_usd_per_mtok,
                cache_write_1h_rate_micro_usd_per_mtok=terms.rates.cache_write_1h_rate_micro_usd_per_mtok,
                output_rate_micro_usd_per_mtok=terms.rates.output_rate_micro_usd_per_mtok,
            )
        ],
        ignore_conflicts=True,
    )


def _recorded_rows(job: CollectedJob) -> Numbers:
    """Give the rows of a job that are there already, after waiting for any other collect of the same job."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended('attempts of job ' || %s, 0))", [str(job.job_id)])
        # A statement of its own: its snapshot is taken after the lock.
        cursor.execute(
            'SELECT "row" FROM attempt_fact WHERE completed_at = %s AND job_id = %s', [job.completed_at, job.job_id]
        )
        return np.array([row for (row,) in cursor.fetchall()], dtype=np.int64)


def _columns(job: CollectedJob, attempts: Attempts, verdict: int, chosen: Numbers) -> list[Column]:
    """Give the columns of the attempts with one verdict."""
    outcome, code = attempts.verdicts[verdict]
    return [
        (Kind.TIMESTAMPTZ, job.completed_at),
        (Kind.BIGINT, job.job_id),
        (Kind.INTEGER, attempts.rows[chosen]),
        (Kind.SMALLINT, attempts.attempt_number),
        (Kind.BIGINT, job.organisation_id),
        (Kind.BIGINT, job.batch_id),
        (Kind.TEXT, job.lane_id),
        (Kind.TEXT, job.provider),
        (Kind.TEXT, job.provider_account),
        (Kind.TEXT, job.provider_project),
        (Kind.TEXT, outcome.value),
        (Kind.TEXT, code),
        *((Kind.BIGINT, tokens) for tokens in attempts.tokens[chosen].T),
        (Kind.BIGINT, attempts.costs_pico_usd[chosen]),
    ]
