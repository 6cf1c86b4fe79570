"""Reads for the operators' wall: every lane's newest sample, and one lane's samples over a span."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db import connection
from django.db.models import OuterRef, Subquery

from catalog import models
from catalog.selectors import LaneOverview, lanes_overview

BUCKET_COUNT: Final = 120
_SPAN = """
    SELECT floor(extract(epoch FROM taken_at - %(since)s) / %(bucket_seconds)s)::int AS bucket,
        max(error_ppm) FILTER (WHERE sample_count > 0), max(p95_dispatch_ms) FILTER (WHERE sample_count > 0),
        max(p50_completion_minutes) FILTER (WHERE sample_count > 0),
        max(p95_completion_minutes) FILTER (WHERE sample_count > 0),
        max(sample_count) FILTER (WHERE sample_count > 0), max(enqueued_tokens)
    FROM catalog_slasample JOIN catalog_lane ON catalog_lane.id = catalog_slasample.lane_id
    JOIN catalog_model ON catalog_model.id = catalog_lane.model_id
    WHERE catalog_model.slug = %(model_slug)s AND catalog_lane.lane_id = %(lane)s AND source = 'measured'
        AND taken_at >= %(since)s AND taken_at < %(until)s
    GROUP BY 1 ORDER BY 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WallLane:
    """One lane of the wall; ``sampled_at`` is its newest sample's instant, None where it never had one."""

    overview: LaneOverview
    sampled_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneSpan:
    """A lane's health by bucket, the worst of each: None where nothing was measured."""

    since: datetime
    bucket: timedelta
    error_ppm: tuple[int | None, ...]
    p95_dispatch_ms: tuple[int | None, ...]
    p50_completion_minutes: tuple[int | None, ...]
    p95_completion_minutes: tuple[int | None, ...]
    sample_count: tuple[int | None, ...]
    enqueued_tokens: tuple[int | None, ...]


def sla_wall(text: str = "", provider: str = "", rotation: str = "") -> tuple[WallLane, ...]:
    """Give the lanes that match, those that take work first and among them the worst first: errors, then p95."""
    # One look into the key a lane: there are thousands of samples of each.
    of_lane = models.SlaSample.objects.filter(lane=OuterRef("pk")).order_by("-taken_at")
    lanes = models.Lane.objects.annotate(sampled_at=Subquery(of_lane.values("taken_at")[:1]))
    newest = {
        (slug, lane_id): sampled_at
        for slug, lane_id, sampled_at in lanes.values_list("model__slug", "lane_id", "sampled_at")
    }
    found = [
        WallLane(overview=overview, sampled_at=newest.get((overview.lane.model_slug, overview.lane.lane_id)))
        for overview in lanes_overview(text=text, provider=provider, rotation=rotation)
    ]
    # A stable sort: lanes come by rotation, and keep that order within.
    order = {rotation: number for number, rotation in enumerate(("in", "drain", "out"))}
    return tuple(
        sorted(
            found,
            key=lambda each: (
                order[each.overview.lane.rotation],
                not each.overview.health.sample_count,
                -each.overview.health.error_ppm,
                -each.overview.health.p95_completion_minutes,
            ),
        )
    )


def lane_span(model_slug: str, lane_id: str, *, until: datetime, span: timedelta) -> LaneSpan:
    """Give one lane's samples over a span that ends at an instant, as 120 buckets with the worst sample of each.

    The stated prior is no measurement: where nothing ran in the 24 h before, errors and times are a gap.
    """
    bucket, since = span / BUCKET_COUNT, until - span
    columns: list[list[int | None]] = [[None] * BUCKET_COUNT for _ in range(6)]
    with connection.cursor() as cursor:
        cursor.execute(
            _SPAN,
            {
                "since": since,
                "until": until,
                "bucket_seconds": bucket.total_seconds(),
                "model_slug": model_slug,
                "lane": lane_id,
            },
        )
        for number, *figures in cursor.fetchall():
            for column, figure in zip(columns, figures, strict=True):
                column[number] = figure
    errors, dispatch, p50, p95, counts, enqueued = map(tuple, columns)
    return LaneSpan(
        since=since,
        bucket=bucket,
        error_ppm=errors,
        p95_dispatch_ms=dispatch,
        p50_completion_minutes=p50,
        p95_completion_minutes=p95,
        sample_count=counts,
        enqueued_tokens=enqueued,
    )
