"""The script that makes the data file, on a handful of facts."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from catalog.data.build import build_document
from catalog.domain.document import CatalogDocument, ModelEntry, parse_document


def _fact(provider: str, model_id: str, **more: Any) -> dict[str, Any]:
    return {
        "provider": provider,
        "model_id": model_id,
        "mode": "chat",
        "input_rate_micro_usd_per_mtok": 2_000,
        "output_rate_micro_usd_per_mtok": 4_000,
        "batch_input_rate_micro_usd_per_mtok": 1_000,
        "batch_output_rate_micro_usd_per_mtok": 2_000,
        "max_input_tokens": 1_000,
        "max_output_tokens": 100,
        **more,
    }


FACTS = [
    _fact("openai", "gpt-x"),
    _fact("openai", "gpt-x-2026-01-02"),
    _fact("azure", "azure/gpt-x-2026-01-02", max_input_tokens=900, deprecation_date="2027-01-01"),
    _fact("openai", "ft:gpt-x-2026-01-02"),
    _fact("openai", "gpt-4o-2024-08-06", batch_input_rate_micro_usd_per_mtok=1),
    _fact("openai", "gpt-old", deprecation_date="2026-06-01", successor_model="gpt-less-old"),
    _fact("openai", "gpt-less-old", deprecation_date="2026-11-29", successor_model="gpt-x"),
    _fact("anthropic", "claude-y-20260101", batch_cached_input_rate_micro_usd_per_mtok=100),
    _fact("bedrock", "anthropic.claude-y-20260101-v1:0"),
    _fact("bedrock", "eu.anthropic.claude-y-20260101-v1:0", batch_input_rate_micro_usd_per_mtok=1_100),
    _fact("bedrock", "us-gov.anthropic.claude-y-20260101-v1:0"),
    _fact("groq", "gpt-x"),
    {"provider": "openai", "model_id": "no-batch", "mode": "chat", "input_rate_micro_usd_per_mtok": 1},
]


@pytest.fixture(scope="module")
def built() -> CatalogDocument:
    return parse_document(orjson.dumps(build_document(FACTS)))


def _model(built: CatalogDocument, slug: str) -> ModelEntry:
    return next(model for model in built.models if model.slug == slug)


def test_a_dated_id_is_the_pin_and_the_undated_one_its_slug(built: CatalogDocument) -> None:
    model = _model(built, "gpt-x")
    assert model.model_snapshot == "gpt-x-2026-01-02"
    assert {name.name: name.kind for name in model.names} == {"gpt-x": "slug", "gpt-x-2026-01-02": "dated"}


def test_one_snapshot_at_two_providers_is_one_model_with_two_lanes(built: CatalogDocument) -> None:
    model = _model(built, "gpt-x")
    assert [(lane.lane_id, lane.model_id) for lane in model.lanes] == [
        ("openai-azure-global", "gpt-x-2026-01-02"),
        ("openai-direct", "gpt-x-2026-01-02"),
    ]
    assert model.max_input_tokens == 900
    assert model.retires_on is None


def test_a_region_prefix_makes_a_lane_of_the_makers_snapshot(built: CatalogDocument) -> None:
    lanes = {lane.lane_id: lane for lane in _model(built, "claude-y").lanes}
    assert list(lanes) == ["anthropic-bedrock-eu", "anthropic-bedrock-us-east-1", "anthropic-direct"]
    assert lanes["anthropic-bedrock-eu"].region == "eu"
    assert lanes["anthropic-bedrock-eu"].rates.provider_batch.input == 1_100
    assert lanes["anthropic-direct"].rates.provider_batch.cached_input == 100


def test_house_rates_win_over_facts(built: CatalogDocument) -> None:
    (lane,) = _model(built, "gpt-4o").lanes
    assert lane.rates.provider_batch.input == 1_250_000


def test_only_what_is_on_offer_has_lanes(built: CatalogDocument) -> None:
    house = {"gpt-4o", "gpt-4o-2024-11-20", "gpt-4o-mini", "claude-3-5-haiku", "anthropic.claude-3-5-sonnet"}
    assert {model.slug for model in built.models if model.lanes} == house | {"gpt-x", "claude-y"}


def test_a_chain_of_retired_models_leads_to_the_living_one(built: CatalogDocument) -> None:
    assert _model(built, "gpt-old").successor_slug == "gpt-x"
    assert _model(built, "gpt-less-old").successor_slug == "gpt-x"
    assert _model(built, "gpt-old").lanes == ()
