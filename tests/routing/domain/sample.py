"""A small catalog written by hand, with the house's four slugs at their sell rates."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson

from catalog.domain.records import (
    Catalog,
    Endpoint,
    Lane,
    LaneHealth,
    Model,
    ModelName,
    RateCard,
    Rates,
    Rotation,
    SlaSnapshot,
)

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
CHAT = frozenset({Endpoint.CHAT_COMPLETIONS, Endpoint.RESPONSES})
DIRECT = LaneHealth(
    error_ppm=3_000, p95_dispatch_ms=480, p50_completion_minutes=20, p95_completion_minutes=47, sample_count=900
)
BEDROCK = LaneHealth(
    error_ppm=11_000, p95_dispatch_ms=720, p50_completion_minutes=60, p95_completion_minutes=112, sample_count=900
)


def rates(input_rate: int, output_rate: int) -> Rates:
    return Rates(
        input_rate_micro_usd_per_mtok=input_rate,
        cached_input_rate_micro_usd_per_mtok=input_rate // 2,
        cache_write_5m_rate_micro_usd_per_mtok=input_rate * 5 // 4,
        cache_write_1h_rate_micro_usd_per_mtok=input_rate * 2,
        output_rate_micro_usd_per_mtok=output_rate,
    )


def card(input_rate: int, output_rate: int) -> RateCard:
    batch = rates(input_rate, output_rate)
    return RateCard(version_id=7, sell=batch, provider_batch=batch, list=rates(2 * input_rate, 2 * output_rate))


def lane(lane_id: str, slug: str, rate_card: RateCard | None, **other: Any) -> Lane:
    plain = Lane(
        lane_id=lane_id,
        model_slug=slug,
        provider=lane_id.split("-", maxsplit=1)[0],
        region="us",
        model_id=f"{slug}@{lane_id}",
        model_snapshot=f"{slug}-2024-08-06",
        rotation=Rotation.IN,
        rotation_reason="",
        rate_card=rate_card,
        enqueued_tokens_limit=0,
        minimum_rows=1,
        maximum_rows_per_job=50_000,
        maximum_bytes_per_job=200_000_000,
    )
    return replace(plain, **other)


def model(slug: str, *lanes: Lane, **other: Any) -> Model:
    plain = Model(
        slug=slug,
        endpoints=CHAT,
        vocabulary="o200k" if slug.startswith("gpt") else "claude",
        vocabulary_is_public=slug.startswith("gpt"),
        max_input_tokens=128_000,
        max_output_tokens=16_384,
        retires_at=None,
        successor_slug=None,
        lanes=lanes,
    )
    return replace(plain, **other)


def catalog(*models: Model, health: dict[tuple[str, str], LaneHealth] | None = None) -> Catalog:
    names = {}
    for item in models:
        for name in (item.slug, f"{item.slug}-2024-08-06"):
            names[name] = ModelName(name=name, model_slug=item.slug, model_snapshot=f"{item.slug}-2024-08-06")
    return Catalog(
        version=3,
        models={item.slug: item for item in models},
        names=names,
        lanes={(lane.model_slug, lane.lane_id): lane for item in models for lane in item.lanes},
        sla=SlaSnapshot(taken_at=AT, version=5, lanes=health or {}),
    )


GPT_4O = model("gpt-4o", lane("openai-direct", "gpt-4o", card(1_250_000, 5_000_000)))
GPT_4O_MINI = model("gpt-4o-mini", lane("openai-direct", "gpt-4o-mini", card(75_000, 300_000)))
HAIKU = model("claude-3-5-haiku", lane("anthropic-direct", "claude-3-5-haiku", card(400_000, 2_000_000)))
SONNET_SLUG = "anthropic.claude-3-5-sonnet"
SONNET = model(
    SONNET_SLUG,
    lane("anthropic-direct", SONNET_SLUG, card(1_500_000, 7_500_000)),
    lane("anthropic-bedrock-us-east-1", SONNET_SLUG, card(1_500_000, 7_500_000)),
)
EMBEDDER = model(
    "text-embedding-3-small",
    lane("openai-direct", "text-embedding-3-small", card(10_000, 0)),
    endpoints=frozenset({Endpoint.EMBEDDINGS}),
    vocabulary="cl100k",
    vocabulary_is_public=True,
)
SONNET_HEALTH = {
    (SONNET_SLUG, "anthropic-direct"): DIRECT,
    (SONNET_SLUG, "anthropic-bedrock-us-east-1"): BEDROCK,
}
HOUSE = catalog(GPT_4O, GPT_4O_MINI, HAIKU, SONNET, EMBEDDER, health=SONNET_HEALTH)


def row(custom_id: str = "a", /, *, url: str = "/v1/chat/completions", **body: Any) -> dict[str, Any]:
    plain = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Name one river."}], "max_tokens": 50}
    if url != "/v1/chat/completions":
        plain = {"model": "gpt-4o-mini"}
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": {**plain, **body}}


def jsonl(*rows: Any) -> bytes:
    return b"".join(orjson.dumps(item) + b"\n" for item in rows)
