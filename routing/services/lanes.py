"""What a lane has shown lately: measured each 30 s from real jobs and attempts, and given to the catalog."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.db import connection, transaction

from billing.services.attempts import ensure_partitions as ensure_attempt_partitions
from catalog.domain.records import PRIOR_HEALTH, LaneHealth
from catalog.selectors import current_catalog
from catalog.services.sla import record_sla_snapshot
from ground import clock

# The error rate is the lane's: what the row itself caused does not count against it, nor does our own cancelling.
_MEASURE = """
    WITH recent AS (
        SELECT job.id, sub_lane.model_slug, sub_lane.lane_id, job.intended_at, job.submitted_at, job.completed_at
        FROM routing_providerjob job JOIN routing_sublane sub_lane ON sub_lane.id = job.sub_lane_id
        WHERE job.submitted_at > lanehouse_now() - interval '24 hours'
           OR job.completed_at > lanehouse_now() - interval '24 hours'
    ), spans AS (
        SELECT model_slug, lane_id,
            ceil(percentile_cont(0.95) WITHIN GROUP (
                ORDER BY extract(epoch FROM submitted_at - intended_at) * 1000))::bigint AS p95_dispatch_ms,
            ceil(percentile_cont(0.5) WITHIN GROUP (
                ORDER BY extract(epoch FROM completed_at - submitted_at) / 60))::bigint AS p50_completion_minutes,
            ceil(percentile_cont(0.95) WITHIN GROUP (
                ORDER BY extract(epoch FROM completed_at - submitted_at) / 60))::bigint AS p95_completion_minutes
        FROM recent WHERE submitted_at IS NOT NULL AND completed_at IS NOT NULL GROUP BY 1, 2
    ), attempts AS (
        SELECT recent.model_slug, recent.lane_id, count(*) AS attempt_count,
            count(*) FILTER (WHERE fact.outcome IN ('failed', 'expired')
                AND fact.code NOT IN ('context_length_exceeded', 'content_filtered')) AS error_count
        FROM attempt_fact fact JOIN recent ON recent.id = fact.job_id
        WHERE fact.completed_at > lanehouse_now() - interval '24 hours' GROUP BY 1, 2
    )
    SELECT spans.model_slug, spans.lane_id, spans.p95_dispatch_ms, spans.p50_completion_minutes,
           spans.p95_completion_minutes, attempts.attempt_count, attempts.error_count
    FROM spans JOIN attempts USING (model_slug, lane_id)
"""
_IN_FLIGHT = """
    SELECT sub_lane.model_slug, sub_lane.lane_id, sum(job.estimated_input_tokens)::bigint
    FROM routing_providerjob job JOIN routing_sublane sub_lane ON sub_lane.id = job.sub_lane_id
    WHERE job.state IN ('submitting', 'unknown', 'running') GROUP BY 1, 2
"""
_PPM = 1_000_000


def measure_lanes() -> int:
    """Take an SLA snapshot of the lanes that have anything to say, and give how many samples were stored.

    A lane that was measured before and has no attempt in 24 h falls back to the stated prior; a lane that never ran
    keeps what it was given with the catalog.
    """
    measured = _measured()
    in_flight = _rows(_IN_FLIGHT)
    enqueued = {(slug, lane_id): int(tokens) for slug, lane_id, tokens in in_flight}
    known = current_catalog().sla.lanes
    lanes = {key: _with_tokens(health, enqueued.get(key, 0)) for key, health in measured.items()}
    for key, health in known.items():
        if key not in lanes and (health.sample_count or health.enqueued_tokens != enqueued.get(key, 0)):
            lanes[key] = _with_tokens(PRIOR_HEALTH if health.sample_count else health, enqueued.get(key, 0))
    for key, tokens in enqueued.items():
        lanes.setdefault(key, _with_tokens(PRIOR_HEALTH, tokens))
    return record_sla_snapshot(lanes, clock.now()) if lanes else 0


@transaction.atomic
def ensure_partitions() -> None:
    """Make the partitions of this month and the next two, of every table that is kept by month."""
    at = clock.now()
    with connection.cursor() as cursor:
        for table in ("routing_quote", "routing_rowoutcome", "catalog_slasample"):
            cursor.execute("SELECT lanehouse_ensure_month_partitions(%s::regclass, %s)", [table, at])
    ensure_attempt_partitions(at)


def _measured() -> dict[tuple[str, str], LaneHealth]:
    lanes = {}
    for slug, lane_id, dispatch_ms, p50_minutes, p95_minutes, attempt_count, error_count in _rows(_MEASURE):
        lanes[slug, lane_id] = LaneHealth(
            error_ppm=error_count * _PPM // attempt_count,
            p95_dispatch_ms=max(0, dispatch_ms),
            p50_completion_minutes=max(0, p50_minutes),
            p95_completion_minutes=max(0, p95_minutes),
            sample_count=attempt_count,
        )
    return lanes


def _with_tokens(health: LaneHealth, enqueued_tokens: int) -> LaneHealth:
    return replace(health, enqueued_tokens=enqueued_tokens)


def _rows(query: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchall()
