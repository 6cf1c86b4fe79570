"""Second lanes with the same pin, for tests: at the stand-in provider, with rates and health of their own."""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction

from catalog.domain.records import LaneHealth, Rotation, TokenKind
from catalog.models import Card, Lane, Provider, RateLine, RateOrigin, RateVersion, SlaSample
from catalog.models import Model as CatalogModel
from catalog.services.sla import record_sla_snapshot
from ground import clock
from routing.models import Batch, SubLane
from routing.services.quotes import create_quote
from routing.workflows import DEFAULT_WORKFLOW
from tests.routing.engine.kit import MODEL, Engine, chat_file

FIRST = "openai-direct"
SECOND = "openai-second"
THIRD = "openai-third"
# Micro-USD per Mtok that the provider bills on a second lane, in and out; the first lane's are 75,000 and 300,000.
DEARER = (100_000, 400_000)


@transaction.atomic
def add_lane(
    lane_id: str = SECOND,
    *,
    model: str = MODEL,
    rates: tuple[int, int] = DEARER,
    p95_minutes: int = 90,
    p50_minutes: int = 30,
    **values: object,
) -> Lane:
    """Give a model one more lane at the same provider; its health makes it the second choice, or the third."""
    at = clock.now()
    first = Lane.objects.get(model__slug=model, lane_id=FIRST)
    named = {
        "provider_model_id": first.provider_model_id,
        "maximum_rows_per_job": first.maximum_rows_per_job,
        "enqueued_tokens_limit": first.enqueued_tokens_limit,
    }
    lane = Lane.objects.create(
        model=CatalogModel.objects.get(slug=model),
        provider=Provider.objects.get(slug="openai"),
        lane_id=lane_id,
        # One provider has one lane for a region and a model id.
        region=lane_id,
        rotation=Rotation.IN.value,
        rotation_changed_at=at,
        maximum_bytes_per_job=first.maximum_bytes_per_job,
        **{**named, **values},
    )
    for card in Card.values:
        version = RateVersion.objects.create(
            lane=lane, card=card, origin=RateOrigin.OPERATOR, valid_from=at, made_at=at
        )
        RateLine.objects.bulk_create(
            RateLine(version=version, kind=kind, published_rate_micro_usd_per_mtok=rate, rate_micro_usd_per_mtok=rate)
            for kind, rate in {**dict.fromkeys(TokenKind, rates[0]), TokenKind.OUTPUT: rates[1]}.items()
        )
    set_health(lane_id, model=model, p95_minutes=p95_minutes, p50_minutes=p50_minutes)
    return lane


def set_health(lane_id: str, *, model: str = MODEL, p95_minutes: int, p50_minutes: int) -> None:
    """Let a lane be as slow as that, measured now."""
    health = LaneHealth(
        error_ppm=10_000,
        p95_dispatch_ms=1_000,
        p50_completion_minutes=p50_minutes,
        p95_completion_minutes=p95_minutes,
        sample_count=5,
    )
    # Samples are kept by instant; several lanes are given theirs in one second of a stopped clock.
    taken_at = clock.now()
    while SlaSample.objects.filter(taken_at=taken_at).exists():
        taken_at += timedelta(milliseconds=1)
    record_sla_snapshot({(model, lane_id): health}, taken_at)


def rotate(lane_id: str, rotation: Rotation, *, model: str = MODEL) -> None:
    """Set a lane's rotation, as an operator does."""
    Lane.objects.filter(model__slug=model, lane_id=lane_id).update(
        rotation=rotation.value, rotation_reason="maintenance"
    )


def lanes_of(batch: Batch) -> dict[str, SubLane]:
    """A batch's sub-lanes by lane; of one model group only."""
    return {sub_lane.lane_id: sub_lane for sub_lane in SubLane.objects.filter(batch=batch).order_by("number")}


def counts_of(batch: Batch) -> dict[str, tuple[int, int, int, int, int]]:
    """Rows, completed, failed, moved out and re-dispatched of each lane."""
    return {
        lane_id: (
            lane.row_count,
            lane.completed_count,
            lane.failed_count,
            lane.moved_out_count,
            lane.re_dispatched_count,
        )
        for lane_id, lane in lanes_of(batch).items()
    }


def fan_out(engine: Engine, *contents: str) -> Batch:
    """Accept rows of one size over two lanes, half of them on each."""
    body = chat_file(*contents)
    probe = create_quote(caller=engine.tenant.caller, body=body, workflow=DEFAULT_WORKFLOW)
    row_tokens = probe.answer["estimate"]["input_tokens"] // len(contents)
    half_tokens = row_tokens * (len(contents) // 2)
    add_lane()
    Lane.objects.filter(model__slug=MODEL, lane_id=FIRST).update(enqueued_tokens_limit=half_tokens * 10 // 9 + 1)
    return engine.accept(body)
