"""Read the catalog's tables into the records of the domain."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from types import MappingProxyType

from django.db import connection
from django.db.models import Min

from catalog import models
from catalog.domain.rates import RateFigure, rates_of
from catalog.domain.records import (
    Catalog,
    Endpoint,
    Lane,
    LaneHealth,
    Model,
    ModelName,
    RateCard,
    Rotation,
    SlaSnapshot,
    TokenKind,
)

RETIRED = "retired"
_KINDS = {kind.value: kind for kind in TokenKind}


def read_catalog(version: int, sla: SlaSnapshot, at: datetime) -> Catalog:
    """Give the catalog as it holds at an instant, under a version that the caller has checked."""
    cards = _cards_in_force(at)
    lanes: dict[tuple[str, str], Lane] = {}
    lanes_of: defaultdict[str, list[Lane]] = defaultdict(list)
    for row in models.Lane.objects.select_related("model", "provider").order_by("model__slug", "lane_id"):
        lane = _lane(row, cards.get(row.pk), at)
        lanes[lane.model_slug, lane.lane_id] = lane
        lanes_of[lane.model_slug].append(lane)
    entries = {
        row.slug: _model(row, tuple(lanes_of[row.slug]))
        for row in models.Model.objects.select_related("successor").order_by("slug")
    }
    names = {
        row.name: ModelName(name=row.name, model_slug=row.model.slug, model_snapshot=row.model.model_snapshot)
        for row in models.ModelName.objects.select_related("model").order_by("name")
    }
    return Catalog(
        version=version,
        models=MappingProxyType(entries),
        names=MappingProxyType(names),
        lanes=MappingProxyType(lanes),
        sla=sla,
    )


def _lane(row: models.Lane, card: RateCard | None, at: datetime) -> Lane:
    retired = row.retires_at is not None and row.retires_at <= at
    return Lane(
        lane_id=row.lane_id,
        model_slug=row.model.slug,
        provider=row.provider.slug,
        region=row.region,
        model_id=row.provider_model_id,
        model_snapshot=row.model.model_snapshot,
        rotation=Rotation.OUT if retired else Rotation(row.rotation),
        rotation_reason=RETIRED if retired else row.rotation_reason,
        rate_card=card,
        enqueued_tokens_limit=row.enqueued_tokens_limit,
        minimum_rows=row.minimum_rows,
        maximum_rows_per_job=row.maximum_rows_per_job,
        maximum_bytes_per_job=row.maximum_bytes_per_job,
        retires_at=row.retires_at,
    )


def _model(row: models.Model, lanes: tuple[Lane, ...]) -> Model:
    return Model(
        slug=row.slug,
        endpoints=frozenset(map(Endpoint, row.endpoints)),
        vocabulary=row.vocabulary,
        vocabulary_is_public=row.vocabulary_is_public,
        max_input_tokens=row.max_input_tokens,
        max_output_tokens=row.max_output_tokens,
        retires_at=row.retires_at,
        successor_slug=row.successor.slug if row.successor else None,
        lanes=lanes,
        maker=row.maker,
        added_at=row.added_at,
    )


def figures_in_force(
    at: datetime, origin: models.RateOrigin | None = None
) -> dict[tuple[int, str], tuple[int, tuple[RateFigure, ...]]]:
    """Give, by (lane's key, card), the version that holds at an instant: its key and its figures.

    Args:
        at: The instant (aware).
        origin: Look at versions of this origin only, as if there were no others.
    """
    versions = models.RateVersion.objects.filter(valid_from__lte=at)
    if origin is not None:
        versions = versions.filter(origin=origin)
    in_force = versions.order_by("lane", "card", "-valid_from").distinct("lane", "card").values("pk")
    figures: defaultdict[tuple[int, str, int], list[RateFigure]] = defaultdict(list)
    # Plain tuples: some two thousand lines, read while quotes wait.
    for lane, card, version, kind, published, discount, rate, is_derived, tier in models.RateLine.objects.filter(
        version__in=in_force
    ).values_list(
        "version__lane_id",
        "version__card",
        "version_id",
        "kind",
        "published_rate_micro_usd_per_mtok",
        "discount_basis_points",
        "rate_micro_usd_per_mtok",
        "is_derived",
        "context_from_tokens",
    ):
        figures[lane, card, version].append(
            RateFigure(
                kind=_KINDS[kind],
                published_rate_micro_usd_per_mtok=published,
                discount_basis_points=discount,
                rate_micro_usd_per_mtok=rate,
                is_derived=is_derived,
                context_from_tokens=tier,
            )
        )
    return {(lane, card): (version, tuple(lines)) for (lane, card, version), lines in figures.items()}


def _cards_in_force(at: datetime) -> dict[int, RateCard]:
    """Give the lanes' rate cards by key; a lane that lacks a whole card lacks a rate, so it has none here."""
    figures = figures_in_force(at)
    cards: dict[int, RateCard] = {}
    for lane in {lane for lane, _ in figures}:
        versions = [
            figures.get((lane, card), (0, ()))
            for card in (models.Card.SELL, models.Card.PROVIDER_BATCH, models.Card.LIST)
        ]
        sell, provider_batch, listed = (rates_of(lines) for _, lines in versions)
        if sell and provider_batch and listed:
            cards[lane] = RateCard(version_id=versions[0][0], sell=sell, provider_batch=provider_batch, list=listed)
    return cards


def next_change_at(at: datetime) -> datetime | None:
    """Give the next instant at which a date, not a version, changes the catalog."""
    dates = (
        models.RateVersion.objects.filter(valid_from__gt=at).aggregate(at=Min("valid_from"))["at"],
        models.Lane.objects.filter(retires_at__gt=at).aggregate(at=Min("retires_at"))["at"],
    )
    return min((date for date in dates if date is not None), default=None)


_NEWEST_SAMPLES = """
    SELECT model.slug, lane.lane_id, sample.error_ppm, sample.p95_dispatch_ms, sample.p50_completion_minutes,
           sample.p95_completion_minutes, sample.sample_count, sample.enqueued_tokens, sample.taken_at
    FROM catalog_lane lane
    JOIN catalog_model model ON model.id = lane.model_id
    CROSS JOIN LATERAL (
        SELECT * FROM catalog_slasample WHERE lane_id = lane.id ORDER BY taken_at DESC LIMIT 1
    ) sample
"""


def sla_snapshot(version: int, at: datetime) -> SlaSnapshot:
    """Give each lane's newest sample. A lane that a snapshot left out keeps the one before; ``at`` where none is."""
    lanes: dict[tuple[str, str], LaneHealth] = {}
    taken_at: datetime | None = None
    with connection.cursor() as cursor:
        cursor.execute(_NEWEST_SAMPLES)
        for slug, lane_id, error_ppm, dispatch_ms, p50, p95, count, enqueued_tokens, sampled_at in cursor.fetchall():
            taken_at = sampled_at if taken_at is None else max(taken_at, sampled_at)
            lanes[slug, lane_id] = LaneHealth(
                error_ppm=error_ppm,
                p95_dispatch_ms=dispatch_ms,
                p50_completion_minutes=p50,
                p95_completion_minutes=p95,
                sample_count=count,
                enqueued_tokens=enqueued_tokens,
            )
    return SlaSnapshot(taken_at=taken_at or at, version=version, lanes=MappingProxyType(lanes))
