"""The catalog as the quote path sees it: frozen records, one map per version.

A process holds one :class:`Catalog` and replaces it whole when the version in the database moves, so a quote
reads a single consistent state without locks.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


class Rotation(enum.StrEnum):
    """Whether a lane takes work: ``in`` takes all, ``drain`` is not quoted but keeps its work, ``out`` takes none."""

    IN = "in"
    DRAIN = "drain"
    OUT = "out"


class Endpoint(enum.StrEnum):
    """The endpoints a row may name in ``url``."""

    CHAT_COMPLETIONS = "/v1/chat/completions"
    RESPONSES = "/v1/responses"
    EMBEDDINGS = "/v1/embeddings"


class TokenKind(enum.StrEnum):
    """Kinds of tokens that have a rate of their own."""

    INPUT = "input"
    CACHED_INPUT = "cached_input"
    CACHE_WRITE_5M = "cache_write_5m"
    CACHE_WRITE_1H = "cache_write_1h"
    OUTPUT = "output"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """One card's rates in micro-USD per million tokens, by kind; ``derived`` names kinds that were not published."""

    input_rate_micro_usd_per_mtok: int
    cached_input_rate_micro_usd_per_mtok: int
    cache_write_5m_rate_micro_usd_per_mtok: int
    cache_write_1h_rate_micro_usd_per_mtok: int
    output_rate_micro_usd_per_mtok: int
    derived: frozenset[TokenKind] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class RateCard:
    """The rates of one lane that hold now: what we sell at, what the provider bills, the published synchronous list.

    ``version_id`` is the version of the sell card, the one that a quote pins and a customer pays.
    """

    version_id: int
    sell: Rates
    provider_batch: Rates
    list: Rates


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneHealth:
    """One lane in one SLA snapshot. ``sample_count`` 0 means the stated prior, not a measurement.

    ``error_ppm`` is the error rate of the last 24 h in parts per million; ``enqueued_tokens`` are estimated input
    tokens in flight.
    """

    error_ppm: int
    p95_dispatch_ms: int
    p50_completion_minutes: int
    p95_completion_minutes: int
    sample_count: int
    enqueued_tokens: int = 0


PRIOR_HEALTH = LaneHealth(
    error_ppm=10_000, p95_dispatch_ms=1_000, p50_completion_minutes=30, p95_completion_minutes=30, sample_count=0
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One model at one provider in one region. ``lane_id`` names the route and is unique within its model.

    A lane past ``retires_at`` stands here as ``out``, reason ``retired``. All lanes of a model share its snapshot.
    """

    lane_id: str
    model_slug: str
    provider: str
    region: str
    model_id: str
    model_snapshot: str
    rotation: Rotation
    rotation_reason: str
    rate_card: RateCard | None
    enqueued_tokens_limit: int
    minimum_rows: int
    maximum_rows_per_job: int
    maximum_bytes_per_job: int
    retires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What a customer may name in a row. ``vocabulary`` chooses the token table; ``retires_at`` None means no date.

    A model past ``retires_at`` stays here without lanes in rotation, so that its name can be answered by its successor.
    """

    slug: str
    endpoints: frozenset[Endpoint]
    vocabulary: str
    vocabulary_is_public: bool
    max_input_tokens: int
    max_output_tokens: int
    retires_at: datetime | None
    successor_slug: str | None
    lanes: tuple[Lane, ...]
    maker: str = ""
    added_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelName:
    """What one accepted spelling (slug, alias or dated id) stands for; ``model_snapshot`` is the pin it resolves to."""

    name: str
    model_slug: str
    model_snapshot: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlaSnapshot:
    """Health of every lane at one instant, by ``(model_slug, lane_id)``. A missing lane has :data:`PRIOR_HEALTH`."""

    taken_at: datetime
    version: int
    lanes: Mapping[tuple[str, str], LaneHealth] = field(default_factory=dict)

    def health(self, model_slug: str, lane_id: str) -> LaneHealth:
        """Give the lane's health, or the stated prior where there is none."""
        return self.lanes.get((model_slug, lane_id), PRIOR_HEALTH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """All models and spellings of one catalog version, and the SLA snapshot beside it.

    ``lanes`` is keyed by ``(model_slug, lane_id)``: a ``lane_id`` names a route such as ``openai-direct``.
    """

    version: int
    models: Mapping[str, Model]
    names: Mapping[str, ModelName]
    lanes: Mapping[tuple[str, str], Lane]
    sla: SlaSnapshot
