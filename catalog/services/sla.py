"""Record what was measured about the lanes at one instant."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from django.db import transaction

from catalog.domain.records import LaneHealth
from catalog.models import Lane, SampleSource, SlaSample


@transaction.atomic
def record_sla_snapshot(lanes: Mapping[tuple[str, str], LaneHealth], taken_at: datetime) -> int:
    """Store one snapshot and move the SLA version once; give the number of samples stored.

    The newest sample of each lane is its health. A lane left out keeps its last one, so a lane whose figures no longer
    stand (no attempt in 24 h) must be given :data:`~catalog.domain.records.PRIOR_HEALTH`. The same instant again
    changes nothing. Lanes that are unknown are passed over: they left the catalog while they were measured.

    Args:
        lanes: Health by ``(model_slug, lane_id)``.
        taken_at: The instant measured (aware).
    """
    keys = {
        (slug, lane_id): key
        for key, slug, lane_id in Lane.objects.values_list("pk", "model__slug", "lane_id")
        if (slug, lane_id) in lanes
    }
    if not keys or SlaSample.objects.filter(taken_at=taken_at).exists():
        return 0
    SlaSample.objects.bulk_create(
        SlaSample(
            lane_id=keys[name],
            taken_at=taken_at,
            source=SampleSource.MEASURED,
            error_ppm=health.error_ppm,
            p95_dispatch_ms=health.p95_dispatch_ms,
            p50_completion_minutes=health.p50_completion_minutes,
            p95_completion_minutes=health.p95_completion_minutes,
            sample_count=health.sample_count,
            enqueued_tokens=health.enqueued_tokens,
        )
        for name, health in lanes.items()
        if name in keys
    )
    return len(keys)
