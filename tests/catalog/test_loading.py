"""Loading a document: idempotent, and only what differs."""

from __future__ import annotations

from typing import Any

import msgspec
import psycopg
import pytest
from django.core.management import call_command
from django.db import IntegrityError

from accounts.models import User
from catalog.domain.document import CatalogDocument, ModelEntry
from catalog.domain.records import Rotation
from catalog.models import Card, Lane, LaneRotation, Model, ModelName, RateOrigin, RateVersion
from catalog.selectors import catalog_versions, current_catalog
from catalog.services.loading import load_catalog
from catalog.services.rotation import rotate_lane
from tests.harness.clock import Clock


def _with_model(document: CatalogDocument, slug: str, **changes: Any) -> CatalogDocument:
    models = tuple(msgspec.structs.replace(m, **changes) if m.slug == slug else m for m in document.models)
    return msgspec.structs.replace(document, models=models)


def _model(document: CatalogDocument, slug: str) -> ModelEntry:
    return next(model for model in document.models if model.slug == slug)


def _with_input_rate(document: CatalogDocument, slug: str, rate: int) -> CatalogDocument:
    (lane,) = _model(document, slug).lanes
    batch = msgspec.structs.replace(lane.rates.provider_batch, input=rate)
    rates = msgspec.structs.replace(lane.rates, provider_batch=batch)
    return _with_model(document, slug, lanes=(msgspec.structs.replace(lane, rates=rates),))


def _input_rate(slug: str) -> int:
    card = current_catalog().lanes[slug, "openai-direct"].rate_card
    assert card is not None
    return card.sell.input_rate_micro_usd_per_mtok


def test_loading_again_changes_nothing_and_moves_no_version(db: None, document: CatalogDocument) -> None:
    before = catalog_versions()
    report = load_catalog(document)
    assert (report.rows_made, report.rows_changed, report.rate_versions_made) == (0, 0, 0)
    assert catalog_versions() == before


def test_the_command_loads_the_data_file(db: None, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("load_catalog")
    assert "0 rows made, 0 changed, 0 rate versions" in capsys.readouterr().out


def test_a_changed_rate_becomes_a_new_version_and_the_old_one_stays(clock: Clock, document: CatalogDocument) -> None:
    report = load_catalog(_with_input_rate(document, "gpt-4o", 1_300_000))
    # The provider's card and the one we sell at follow it; the published list does not.
    assert (report.rows_made, report.rows_changed, report.rate_versions_made) == (0, 0, 2)
    assert _input_rate("gpt-4o") == 1_300_000
    versions = RateVersion.objects.filter(lane__model__slug="gpt-4o", card=Card.SELL).order_by("valid_from")
    rates = [version.lines.get(kind="input").rate_micro_usd_per_mtok for version in versions]
    assert rates == [1_250_000, 1_300_000]


def test_an_operators_own_rates_outlive_a_reload(
    owner_cursor: psycopg.Cursor, clock: Clock, document: CatalogDocument
) -> None:
    with owner_cursor.connection.transaction():
        owner_cursor.execute(
            """INSERT INTO catalog_rateversion (lane_id, card, origin, valid_from, made_at, made_in_transaction)
            SELECT id, 'sell', 'operator', lanehouse_now(), lanehouse_now(), 0 FROM catalog_lane
            WHERE provider_model_id = 'gpt-4o-2024-08-06'"""
        )
        owner_cursor.execute(
            """INSERT INTO catalog_rateline (version_id, kind, context_from_tokens, published_rate_micro_usd_per_mtok,
                discount_basis_points, rate_micro_usd_per_mtok, is_derived)
            SELECT version.id, kind, 0, 7, 0, 7, false FROM catalog_rateversion version,
                unnest(ARRAY['input', 'cached_input', 'cache_write_5m', 'cache_write_1h', 'output']) kind
            WHERE version.origin = 'operator'"""
        )
    assert load_catalog(document).rate_versions_made == 0
    assert RateVersion.objects.filter(origin=RateOrigin.OPERATOR).count() == 1


def test_an_operators_rotation_and_ceiling_outlive_a_reload(operator: User, document: CatalogDocument) -> None:
    rotate_lane("gpt-4o", "openai-direct", Rotation.OUT, "rate limited all morning", operator)
    Lane.objects.filter(model__slug="gpt-4o").update(enqueued_tokens_limit=7)
    assert load_catalog(document).rows_changed == 0
    lane = current_catalog().lanes["gpt-4o", "openai-direct"]
    assert (lane.rotation, lane.rotation_reason) == (Rotation.OUT, "rate limited all morning")
    assert lane.enqueued_tokens_limit == 7


def test_a_new_adapter_brings_only_lanes_in_that_waited_for_it(operator: User, document: CatalogDocument) -> None:
    load_catalog(msgspec.structs.replace(document, providers_with_adapter=("openai",)))
    wider = msgspec.structs.replace(document, providers_with_adapter=("openai", "anthropic"))
    load_catalog(wider)
    lanes = current_catalog().lanes
    haiku = lanes["claude-3-5-haiku", "anthropic-direct"]
    assert (haiku.rotation, haiku.rotation_reason) == (Rotation.IN, "adapter_available")
    assert lanes["anthropic.claude-3-5-sonnet", "anthropic-bedrock-us-east-1"].rotation_reason == "no_adapter"
    entry = LaneRotation.objects.filter(lane__model__slug="claude-3-5-haiku").latest("pk")
    assert (entry.from_rotation, entry.to_rotation, entry.changed_by) == ("out", "in", None)
    rotate_lane("claude-3-5-haiku", "anthropic-direct", Rotation.OUT, "not this week", operator)
    load_catalog(wider)
    assert current_catalog().lanes["claude-3-5-haiku", "anthropic-direct"].rotation == Rotation.OUT


def test_a_lane_beyond_its_adapter_stays_out_and_is_taken_out(db: None, document: CatalogDocument) -> None:
    beyond = _with_model(
        document,
        "claude-3-5-haiku",
        lanes=tuple(
            msgspec.structs.replace(lane, is_carried=False) for lane in _model(document, "claude-3-5-haiku").lanes
        ),
    )
    load_catalog(beyond)
    lane = current_catalog().lanes["claude-3-5-haiku", "anthropic-direct"]
    assert (lane.rotation, lane.rotation_reason) == (Rotation.OUT, "no_adapter")
    load_catalog(document)
    assert current_catalog().lanes["claude-3-5-haiku", "anthropic-direct"].rotation == Rotation.IN


def test_a_lost_adapter_takes_its_lanes_out(db: None, document: CatalogDocument) -> None:
    load_catalog(msgspec.structs.replace(document, providers_with_adapter=()))
    assert {lane.rotation for lane in current_catalog().lanes.values()} == {Rotation.OUT}


def test_an_alias_moves_to_another_snapshot(db: None, document: CatalogDocument) -> None:
    old = _model(document, "claude-3-5-haiku")
    moved = next(name for name in old.names if name.name == "claude-3-5-haiku-latest")
    new = _model(document, "claude-haiku-4-5")
    document = _with_model(document, old.slug, names=tuple(name for name in old.names if name != moved))
    load_catalog(_with_model(document, new.slug, names=(*new.names, moved)))
    assert current_catalog().names["claude-3-5-haiku-latest"].model_snapshot == "claude-haiku-4-5-20251001"


def test_a_model_may_not_become_another_snapshot(db: None, document: CatalogDocument) -> None:
    before = catalog_versions()
    with pytest.raises(IntegrityError):
        load_catalog(_with_model(document, "gpt-4o", model_snapshot="gpt-4o-2099-01-01"))
    assert catalog_versions() == before


def test_what_a_document_no_longer_names_stays(db: None, document: CatalogDocument) -> None:
    models, names = Model.objects.count(), ModelName.objects.count()
    rest = tuple(model for model in document.models if model.slug != "gpt-4o-mini")
    load_catalog(msgspec.structs.replace(document, models=rest))
    assert (Model.objects.count(), ModelName.objects.count()) == (models, names)
