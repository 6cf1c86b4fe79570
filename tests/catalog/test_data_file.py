"""The data file as loaded: what the product offers before anybody touches it."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import pytest

import catalog.data
from catalog.domain.document import CatalogDocument, parse_document
from catalog.domain.records import Catalog, Endpoint, Lane, LaneHealth, Rotation, TokenKind
from catalog.selectors import current_catalog
from ground import clock

OUT_OF_REACH = (Rotation.OUT, "no_adapter")
GATHERED = datetime(2026, 11, 29, tzinfo=UTC)


@pytest.fixture
def offered(db: None) -> Catalog:
    return current_catalog()


@pytest.fixture(scope="module")
def document() -> CatalogDocument:
    return parse_document(Path(catalog.data.__file__).with_name("catalog.json").read_bytes())


def _sell(lane: Lane) -> tuple[int, int, int, int, int]:
    assert lane.rate_card is not None
    rates = lane.rate_card.sell
    return (
        rates.input_rate_micro_usd_per_mtok,
        rates.cached_input_rate_micro_usd_per_mtok,
        rates.cache_write_5m_rate_micro_usd_per_mtok,
        rates.cache_write_1h_rate_micro_usd_per_mtok,
        rates.output_rate_micro_usd_per_mtok,
    )


@pytest.mark.parametrize(
    ("model", "lane", "rates"),
    [
        ("gpt-4o", "openai-direct", (1_250_000, 625_000, 1_562_500, 2_500_000, 5_000_000)),
        ("gpt-4o-2024-11-20", "openai-direct", (1_250_000, 625_000, 1_562_500, 2_500_000, 5_000_000)),
        ("gpt-4o-mini", "openai-direct", (75_000, 37_500, 93_750, 150_000, 300_000)),
        ("claude-3-5-haiku", "anthropic-direct", (400_000, 40_000, 500_000, 800_000, 2_000_000)),
        ("anthropic.claude-3-5-sonnet", "anthropic-direct", (1_500_000, 1_500_000, 1_875_000, 3_000_000, 7_500_000)),
        (
            "anthropic.claude-3-5-sonnet",
            "anthropic-bedrock-us-east-1",
            (1_500_000, 1_500_000, 1_875_000, 3_000_000, 7_500_000),
        ),
    ],
)
def test_house_lanes_sell_at_their_fixed_rates(
    offered: Catalog, model: str, lane: str, rates: tuple[int, int, int, int, int]
) -> None:
    assert _sell(offered.lanes[model, lane]) == rates
    assert offered.models[model].retires_at is None
    assert offered.lanes[model, lane].retires_at is None


def test_house_models_have_the_lanes_that_were_decided(offered: Catalog) -> None:
    lanes = {slug: [lane.lane_id for lane in offered.models[slug].lanes] for slug in ("gpt-4o", "gpt-4o-mini")}
    assert lanes == {"gpt-4o": ["openai-direct"], "gpt-4o-mini": ["openai-direct"]}
    assert [lane.lane_id for lane in offered.models["claude-3-5-haiku"].lanes] == ["anthropic-direct"]
    assert [lane.lane_id for lane in offered.models["anthropic.claude-3-5-sonnet"].lanes] == [
        "anthropic-bedrock-us-east-1",
        "anthropic-direct",
    ]


def test_rates_that_nobody_published_are_marked(offered: Catalog) -> None:
    haiku = offered.lanes["claude-3-5-haiku", "anthropic-direct"].rate_card
    sonnet = offered.lanes["anthropic.claude-3-5-sonnet", "anthropic-direct"].rate_card
    assert haiku is not None
    assert sonnet is not None
    assert haiku.sell.derived == {TokenKind.CACHE_WRITE_1H}
    assert haiku.list.derived == set(TokenKind)
    assert sonnet.sell.derived == {TokenKind.CACHED_INPUT, TokenKind.CACHE_WRITE_5M, TokenKind.CACHE_WRITE_1H}


def test_the_list_rate_is_the_published_synchronous_one(offered: Catalog) -> None:
    card = offered.lanes["gpt-4o-mini", "openai-direct"].rate_card
    assert card is not None
    assert (card.list.input_rate_micro_usd_per_mtok, card.list.output_rate_micro_usd_per_mtok) == (150_000, 600_000)
    assert not card.list.derived & {TokenKind.INPUT, TokenKind.OUTPUT, TokenKind.CACHED_INPUT}


def test_alias_and_dated_id_are_quoted_at_one_rate(offered: Catalog) -> None:
    alias, dated = offered.names["gpt-4o"], offered.names["gpt-4o-2024-08-06"]
    assert alias.model_snapshot == dated.model_snapshot == "gpt-4o-2024-08-06"
    assert alias.model_slug == dated.model_slug == "gpt-4o"
    other = offered.names["gpt-4o-2024-11-20"]
    assert other.model_snapshot == "gpt-4o-2024-11-20"
    assert _sell(offered.lanes[other.model_slug, "openai-direct"]) == _sell(offered.lanes["gpt-4o", "openai-direct"])


def test_a_lane_is_sent_the_pin_not_the_alias(offered: Catalog) -> None:
    assert offered.lanes["gpt-4o", "openai-direct"].model_id == "gpt-4o-2024-08-06"
    assert offered.lanes["gpt-4o-mini", "openai-direct"].model_id == "gpt-4o-mini-2024-07-18"


def test_equal_snapshots_share_a_pin_over_providers(offered: Catalog) -> None:
    lanes = offered.models["claude-haiku-4-5"].lanes
    assert {lane.provider for lane in lanes} == {"anthropic", "bedrock"}
    assert {lane.model_snapshot for lane in lanes} == {"claude-haiku-4-5-20251001"}
    spellings = {lane.lane_id: lane.model_id for lane in lanes}
    assert spellings["anthropic-direct"] == "claude-haiku-4-5-20251001"
    assert spellings["anthropic-bedrock-us"] == "us.anthropic.claude-haiku-4-5-20251001-v1:0"
    azure = {lane.provider for lane in offered.models["gpt-4.1"].lanes}
    assert azure == {"openai", "azure"}


def test_a_region_prefix_is_the_region_of_a_lane(offered: Catalog) -> None:
    regions = {lane.region for lane in offered.models["claude-opus-5"].lanes if lane.provider == "bedrock"}
    assert regions == {"us-east-1", "us", "eu", "apac", "au", "jp", "global"}


def test_about_a_hundred_models_are_offered_and_none_has_retired(offered: Catalog) -> None:
    on_offer = [model for model in offered.models.values() if model.lanes]
    assert len(on_offer) == 100
    assert {lane.provider for lane in offered.lanes.values()} == {"openai", "anthropic", "bedrock", "azure"}
    assert all(lane.rate_card is not None for lane in offered.lanes.values())
    assert all(model.retires_at is None or model.retires_at > GATHERED for model in on_offer)


def test_a_retired_model_has_no_lane_and_names_a_living_successor(offered: Catalog) -> None:
    retired = offered.models[offered.names["gpt-4-turbo"].model_slug]
    assert retired.lanes == ()
    assert retired.retires_at == datetime(2026, 10, 23, tzinfo=UTC)
    assert retired.successor_slug == "gpt-5.6-sol"
    successors = {model.successor_slug for model in offered.models.values()} - {None}
    assert all(offered.models[slug].lanes for slug in successors if slug)


def test_lanes_that_an_adapter_carries_are_in_rotation(offered: Catalog) -> None:
    for lane in offered.lanes.values():
        is_ours = lane.provider == "bedrock" and lane.lane_id == "anthropic-bedrock-us-east-1"
        expected = (Rotation.IN, "") if lane.provider in {"openai", "anthropic"} or is_ours else OUT_OF_REACH
        if lane.retires_at is not None and lane.retires_at <= clock.now():
            expected = (Rotation.OUT, "retired")
        assert (lane.rotation, lane.rotation_reason) == expected


def test_bedrock_s_adapter_carries_claude_in_one_region_alone(document: CatalogDocument) -> None:
    carried = {lane.model_id for model in document.models for lane in model.lanes if lane.is_carried}
    assert {model_id for model_id in carried if "anthropic." in model_id} == {
        "anthropic.claude-3-5-sonnet-20241022-v2:0",
        "anthropic.claude-haiku-4-5-20251001-v1:0",
        "anthropic.claude-opus-5",
        "anthropic.claude-sonnet-4-5-20250929-v1:0",
    }
    assert not {model_id for model_id in carried if "nova" in model_id or "llama" in model_id}


def test_the_published_example_gives_only_health(offered: Catalog) -> None:
    health = offered.sla.health("anthropic.claude-3-5-sonnet", "anthropic-direct")
    assert asdict(health) == asdict(
        LaneHealth(
            error_ppm=3_000,
            p95_dispatch_ms=480,
            p50_completion_minutes=47,
            p95_completion_minutes=47,
            sample_count=0,
        )
    )
    other = offered.sla.health("anthropic.claude-3-5-sonnet", "anthropic-bedrock-us-east-1")
    assert (other.error_ppm, other.p95_dispatch_ms, other.p95_completion_minutes) == (11_000, 720, 112)
    prior = offered.sla.health("gpt-4o", "openai-direct")
    assert (prior.error_ppm, prior.p95_completion_minutes, prior.sample_count) == (10_000, 30, 0)


def test_limits_are_the_providers(offered: Catalog) -> None:
    openai = offered.lanes["gpt-4o-mini", "openai-direct"]
    assert (openai.minimum_rows, openai.maximum_rows_per_job, openai.maximum_bytes_per_job) == (1, 50_000, 200_000_000)
    anthropic = offered.lanes["claude-3-5-haiku", "anthropic-direct"]
    assert (anthropic.maximum_rows_per_job, anthropic.maximum_bytes_per_job) == (100_000, 256_000_000)
    assert offered.lanes["anthropic.claude-3-5-sonnet", "anthropic-bedrock-us-east-1"].minimum_rows == 100


def test_endpoints_follow_what_a_model_is(offered: Catalog) -> None:
    assert offered.models["gpt-4o"].endpoints == {Endpoint.CHAT_COMPLETIONS, Endpoint.RESPONSES}
    assert offered.models["gpt-5-pro"].endpoints == {Endpoint.RESPONSES}
    assert offered.models["text-embedding-3-small"].endpoints == {Endpoint.EMBEDDINGS}
    assert offered.models["claude-3-5-haiku"].endpoints == {Endpoint.CHAT_COMPLETIONS}


def test_a_model_retires_with_its_last_lane(document: CatalogDocument) -> None:
    for model in document.models:
        dates = [lane.retires_on for lane in model.lanes]
        if dates:
            assert model.retires_on == (None if None in dates else max(date for date in dates if date))


def test_each_name_means_one_model_and_each_model_one_slug(document: CatalogDocument) -> None:
    names = [name.name for model in document.models for name in model.names]
    assert len(names) == len(set(names))
    for model in document.models:
        assert [name.name for name in model.names if name.kind == "slug"] == [model.slug]
        assert {model.slug, model.model_snapshot} <= {name.name for name in model.names}
