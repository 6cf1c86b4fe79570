"""The map each process holds: one consistent state, replaced when a version or a date moves."""

from __future__ import annotations

import threading
from datetime import timedelta

import psycopg
import pytest
from django.db import connection, connections, transaction
from django.test.utils import CaptureQueriesContext

from accounts.models import User
from catalog.domain.records import Catalog, LaneHealth, Rotation
from catalog.models import Lane
from catalog.selectors import catalog_versions, current_catalog
from catalog.services.rotation import rotate_lane
from catalog.services.sla import record_sla_snapshot
from tests.harness.clock import Clock

A_LANE = "(SELECT id FROM catalog_lane WHERE provider_model_id = 'gpt-4o-2024-08-06')"
KEY = ("gpt-4o", "openai-direct")


def _sell_input(catalog: Catalog) -> int:
    card = catalog.lanes[KEY].rate_card
    assert card is not None
    return card.sell.input_rate_micro_usd_per_mtok


def _make_sell_version(cursor: psycopg.Cursor, valid_from: str, input_rate: int) -> None:
    with cursor.connection.transaction():
        cursor.execute(
            f"""INSERT INTO catalog_rateversion (lane_id, card, origin, valid_from, made_at, made_in_transaction)
                SELECT {A_LANE}, 'sell', 'operator', {valid_from}, lanehouse_now(), 0 RETURNING id"""
        )
        row = cursor.fetchone()
        assert row is not None
        cursor.execute(
            """INSERT INTO catalog_rateline (version_id, kind, context_from_tokens, published_rate_micro_usd_per_mtok,
                   discount_basis_points, rate_micro_usd_per_mtok, is_derived)
               SELECT %s, kind, 0, %s, 0, %s, false
               FROM unnest(ARRAY['input', 'cached_input', 'cache_write_5m', 'cache_write_1h', 'output']) kind""",
            (row[0], input_rate, input_rate),
        )


def test_a_known_version_costs_no_query(db: None) -> None:
    held = current_catalog()
    versions = catalog_versions()
    with CaptureQueriesContext(connection) as queries:
        assert current_catalog(versions) is held
    assert len(queries) == 0


def test_a_load_is_a_few_queries(operator: User) -> None:
    rotate_lane(*KEY, Rotation.DRAIN, "measuring", operator)
    with CaptureQueriesContext(connection) as queries:
        current_catalog()
    assert len(queries) <= 10


@pytest.mark.parametrize(
    ("change", "moves"),
    [
        ("UPDATE catalog_lane SET enqueued_tokens_limit = 5", (True, False)),
        ("UPDATE catalog_provider SET name = 'OpenAI, Inc.' WHERE slug = 'openai'", (True, False)),
        ("UPDATE catalog_model SET max_output_tokens = 1", (True, False)),
        ("DELETE FROM catalog_modelname WHERE kind = 'alias'", (True, False)),
        (
            """INSERT INTO catalog_slasample
               SELECT lane_id, taken_at + interval '1 second', 'measured', 1, 1, 1, 1, 1, 1 FROM catalog_slasample""",
            (False, True),
        ),
    ],
)
def test_hand_written_sql_moves_the_version(app_cursor: psycopg.Cursor, change: str, moves: tuple[bool, bool]) -> None:
    before = catalog_versions()
    app_cursor.execute(change)
    after = catalog_versions()
    assert (after[0] != before[0], after[1] != before[1]) == moves


def test_hand_written_rates_are_seen_at_once(app_cursor: psycopg.Cursor) -> None:
    assert _sell_input(current_catalog()) == 1_250_000
    _make_sell_version(app_cursor, "lanehouse_now()", 999)
    assert _sell_input(current_catalog()) == 999


def test_a_rate_that_begins_later_is_seen_at_its_instant(app_cursor: psycopg.Cursor, clock: Clock) -> None:
    _make_sell_version(app_cursor, "lanehouse_now() + interval '1 hour'", 999)
    versions = catalog_versions()
    assert _sell_input(current_catalog()) == 1_250_000
    clock.advance(minutes=59)
    assert _sell_input(current_catalog()) == 1_250_000
    clock.advance(minutes=2)
    assert _sell_input(current_catalog()) == 999
    assert catalog_versions() == versions


def test_a_lane_retires_at_its_instant(clock: Clock) -> None:
    Lane.objects.filter(model__slug="gpt-4o").update(retires_at=clock.now() + timedelta(hours=1))
    assert current_catalog().lanes[KEY].rotation == Rotation.IN
    clock.advance(hours=1, seconds=1)
    lane = current_catalog().lanes[KEY]
    assert (lane.rotation, lane.rotation_reason) == (Rotation.OUT, "retired")
    assert current_catalog().models["gpt-4o"].lanes == (lane,)


def test_what_a_transaction_that_failed_showed_is_never_taken_for_another(operator: User) -> None:
    before = catalog_versions()
    with transaction.atomic():
        rotate_lane(*KEY, Rotation.OUT, "about to fail", operator)
        assert current_catalog().lanes[KEY].rotation == Rotation.OUT
        transaction.set_rollback(True)
    assert catalog_versions() == before
    assert current_catalog().lanes[KEY].rotation == Rotation.IN
    rotate_lane(*KEY, Rotation.DRAIN, "this one holds", operator)
    assert current_catalog().lanes[KEY].rotation == Rotation.DRAIN


def test_an_sla_snapshot_replaces_health_and_leaves_the_models(clock: Clock) -> None:
    before = current_catalog()
    health = LaneHealth(
        error_ppm=20, p95_dispatch_ms=30, p50_completion_minutes=4, p95_completion_minutes=5, sample_count=600
    )
    taken_at = clock.now()
    assert record_sla_snapshot({KEY: health, ("gpt-4o", "gone"): health}, taken_at) == 1
    after = current_catalog()
    assert after.sla.health(*KEY) == health
    assert after.sla.taken_at == taken_at
    assert after.models is before.models
    assert after.sla.health("anthropic.claude-3-5-sonnet", "anthropic-direct").p95_completion_minutes == 47


def test_the_same_snapshot_again_changes_nothing(clock: Clock) -> None:
    health = LaneHealth(
        error_ppm=0, p95_dispatch_ms=1, p50_completion_minutes=1, p95_completion_minutes=1, sample_count=1
    )
    taken_at = clock.now()
    record_sla_snapshot({KEY: health}, taken_at)
    versions = catalog_versions()
    assert record_sla_snapshot({KEY: health}, taken_at) == 0
    assert catalog_versions() == versions


def test_many_threads_load_once(operator: User) -> None:
    current_catalog()
    rotate_lane(*KEY, Rotation.DRAIN, "all at once", operator)
    versions = catalog_versions()
    seen: list[Catalog] = []
    start = threading.Barrier(8)

    def read() -> None:
        start.wait()
        seen.append(current_catalog(versions))
        connections.close_all()

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 8
    assert len({id(catalog) for catalog in seen}) == 1
    assert seen[0].lanes[KEY].rotation == Rotation.DRAIN


def test_the_maps_cannot_be_changed(db: None) -> None:
    with pytest.raises(TypeError):
        current_catalog().models["gpt-4o"] = current_catalog().models["gpt-4o-mini"]  # type: ignore[index]
