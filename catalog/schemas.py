"""Shapes of the catalog's API."""

from __future__ import annotations

from ninja import Schema

from catalog.domain.records import Lane, Model, Rates, Rotation, SlaSnapshot


class RatesOut(Schema):
    """One card: micro-USD per million tokens by kind; ``derived`` names the kinds that the provider did not publish."""

    input_rate_micro_usd_per_mtok: int
    cached_input_rate_micro_usd_per_mtok: int
    cache_write_5m_rate_micro_usd_per_mtok: int
    cache_write_1h_rate_micro_usd_per_mtok: int
    output_rate_micro_usd_per_mtok: int
    derived: list[str]


class LaneOut(Schema):
    """One lane of a model: what it charges (``rates``), what synchronous calls cost (``list_rates``), its health.

    ``sample_count`` 0: the health is a stated prior, not a measurement.
    """

    lane_id: str
    provider: str
    region: str
    rotation: str
    rotation_reason: str | None
    rates: RatesOut | None
    list_rates: RatesOut | None
    minimum_rows: int
    p95_completion_minutes: int
    recent_error_rate_24h: float
    sample_count: int


class ModelOut(Schema):
    """A model; the first four members are OpenAI's. ``available`` says whether a lane takes work now."""

    id: str
    object: str
    created: int
    owned_by: str
    model_snapshot: str
    names: list[str]
    endpoints: list[str]
    max_input_tokens: int
    max_output_tokens: int
    retires_at: int | None
    successor: str | None
    available: bool
    lanes: list[LaneOut]


class ModelListOut(Schema):
    """OpenAI's list of models."""

    object: str
    data: list[ModelOut]


def model_out(model: Model, names: list[str], sla: SlaSnapshot, shown_as: str) -> ModelOut:
    """Give a model's shape under the name that was asked for; what our providers bill us is not in it."""
    assert model.added_at is not None, "a loaded model knows when it was added"
    return ModelOut(
        id=shown_as,
        object="model",
        created=int(model.added_at.timestamp()),
        owned_by=model.maker,
        model_snapshot=model.lanes[0].model_snapshot,
        names=names,
        endpoints=sorted(endpoint.value for endpoint in model.endpoints),
        max_input_tokens=model.max_input_tokens,
        max_output_tokens=model.max_output_tokens,
        retires_at=int(model.retires_at.timestamp()) if model.retires_at else None,
        successor=model.successor_slug,
        available=any(lane.rotation == Rotation.IN and lane.rate_card is not None for lane in model.lanes),
        lanes=[_lane_out(lane, sla) for lane in model.lanes],
    )


def _lane_out(lane: Lane, sla: SlaSnapshot) -> LaneOut:
    health = sla.health(lane.model_slug, lane.lane_id)
    return LaneOut(
        lane_id=lane.lane_id,
        provider=lane.provider,
        region=lane.region,
        rotation=lane.rotation.value,
        rotation_reason=_public_reason(lane),
        rates=_rates_out(lane.rate_card.sell) if lane.rate_card else None,
        list_rates=_rates_out(lane.rate_card.list) if lane.rate_card else None,
        minimum_rows=lane.minimum_rows,
        p95_completion_minutes=health.p95_completion_minutes,
        recent_error_rate_24h=health.error_ppm / 1_000_000,
        sample_count=health.sample_count,
    )


def _public_reason(lane: Lane) -> str | None:
    """Give the reason code; an operator's own words are for the staff."""
    if lane.rotation == Rotation.IN:
        return None
    return lane.rotation_reason if lane.rotation_reason in {"no_adapter", "retired"} else "operator"


def _rates_out(rates: Rates) -> RatesOut:
    return RatesOut(
        input_rate_micro_usd_per_mtok=rates.input_rate_micro_usd_per_mtok,
        cached_input_rate_micro_usd_per_mtok=rates.cached_input_rate_micro_usd_per_mtok,
        cache_write_5m_rate_micro_usd_per_mtok=rates.cache_write_5m_rate_micro_usd_per_mtok,
        cache_write_1h_rate_micro_usd_per_mtok=rates.cache_write_1h_rate_micro_usd_per_mtok,
        output_rate_micro_usd_per_mtok=rates.output_rate_micro_usd_per_mtok,
        derived=sorted(kind.value for kind in rates.derived),
    )
