"""What a lane has shown lately: measured each 30 s from real jobs and attempts, and given to the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.db import connection, transaction

from billing.services.attempts import ensure_partitions as ensure_attempt_partitions
from catalog.domain.records import PRIOR_HEALTH, LaneHealth
from catalog.selectors import current_catalog
from catalog.services.sla import record_sla_snapshot
from ground import clock

# The error rate is the lane's: what the row itself caused does not count against it, nor does our own cancelling.
# A test twin's work runs on stand-ins and says nothing about a lane.
_MEASURE = """
    WITH recent AS (
        SELECT job.id, sub_lane.model_slug, sub_lane.lane_id, job.intended_at, job.submitted_at, job.completed_at,
            job.cancel_asked_at IS NOT NULL OR job.ending = 'cancelled' AS was_cancelled
        FROM routing_providerjob job JOIN routing_sublane sub_lane ON sub_lane.id = job.sub_lane_id
        JOIN routing_provideraccount account ON account.id = job.account_id AND account.kind = 'customer'
        WHERE job.completed_at > lanehouse_now() - interval '24 hours' AND job.state <> 'abandoned'
    ), spans AS (
        SELECT model_slug, lane_id,
            ceil(percentile_cont(0.95) WITHIN GROUP (
                ORDER BY extract(epoch FROM submitted_at - intended_at) * 1000))::bigint AS p95_dispatch_ms,
            ceil(percentile_cont(0.5) WITHIN GROUP (
                ORDER BY extract(epoch FROM completed_at - submitted_at) / 60))::bigint AS p50_completion_minutes,
            ceil(percentile_cont(0.95) WITHIN GROUP (
                ORDER BY extract(epoch FROM completed_at - submitted_at) / 60))::bigint AS p95_completion_minutes
        FROM recent WHERE submitted_at IS NOT NULL AND NOT was_cancelled GROUP BY 1, 2
    ), attempts AS (
        SELECT recent.model_slug, recent.lane_id, count(*) AS attempt_count,
            count(*) FILTER (WHERE fact.outcome IN ('failed', 'expired')
                AND fact.code NOT IN ('context_length_exceeded', 'content_filtered')) AS error_count
        FROM attempt_fact fact JOIN recent ON recent.id = fact.job_id
        WHERE fact.completed_at > lanehouse_now() - interval '24 hours' AND fact.outcome <> 'cancelled' GROUP BY 1, 2
    )
    SELECT model_slug, lane_id, spans.p95_dispatch_ms, spans.p50_completion_minutes, spans.p95_completion_minutes,
           attempts.attempt_count, attempts.error_count
    FROM attempts LEFT JOIN spans USING (model_slug, lane_id)
"""
_IN_FLIGHT = """
    SELECT sub_lane.model_slug, sub_lane.lane_id, sum(job.estimated_input_tokens)::bigint
    FROM routing_providerjob job JOIN routing_sublane sub_lane ON sub_lane.id = job.sub_lane_id
    JOIN routing_provideraccount account ON account.id = job.account_id AND account.kind = 'customer'
    WHERE job.state IN ('submitting', 'unknown', 'running') GROUP BY 1, 2
"""
_PPM = 1_000_000
_Key = tuple[str, str]


def measure_lanes() -> int:
    """Take an SLA snapshot of the lanes that have anything to say, and give how many samples were stored.

    A lane that was measured before and has no attempt in 24 h falls back to the stated prior; a lane that never ran
    keeps what it was given with the catalog.
    """
    known = current_catalog().sla.lanes
    measured = _measured(known)
    enqueued = {(slug, lane_id): int(tokens) for slug, lane_id, tokens in _rows(_IN_FLIGHT)}
    lanes = dict(measured)
    for key in known.keys() | enqueued.keys():
        health = known.get(key, PRIOR_HEALTH)
        if key not in lanes and (health.sample_count or health.enqueued_tokens != enqueued.get(key, 0)):
            lanes[key] = PRIOR_HEALTH if health.sample_count else health
    lanes = {key: replace(health, enqueued_tokens=enqueued.get(key, 0)) for key, health in lanes.items()}
    return record_sla_snapshot(lanes, clock.now()) if lanes else 0


@transaction.atomic
def ensure_partitions() -> None:
    """Make the partitions of this month and the next two, of every table that is kept by month."""
    at = clock.now()
    with connection.cursor() as cursor:
        for table in ("routing_quote", "routing_rowoutcome", "catalog_slasample", "webhooks_deliveryattempt"):
            cursor.execute("SELECT lanehouse_ensure_month_partitions(%s::regclass, %s)", [table, at])
    ensure_attempt_partitions(at)


def _measured(known: Mapping[_Key, LaneHealth]) -> dict[_Key, LaneHealth]:
    """Give what was measured; a lane whose jobs were all refused keeps its times, for it has shown none."""
    lanes = {}
    for slug, lane_id, dispatch_ms, p50_minutes, p95_minutes, attempt_count, error_count in _rows(_MEASURE):
        health = known.get((slug, lane_id), PRIOR_HEALTH)
        if dispatch_ms is not None:
            health = replace(
                health,
                p95_dispatch_ms=max(0, dispatch_ms),
                p50_completion_minutes=max(0, p50_minutes),
                p95_completion_minutes=max(0, p95_minutes),
            )
        lanes[slug, lane_id] = replace(
            health, error_ppm=error_count * _PPM // attempt_count, sample_count=attempt_count
        )
    return lanes


def _rows(query: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        found: list[tuple[Any, ...]] = cursor.fetchall()
    return found
