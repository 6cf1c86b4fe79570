"""What the database itself refuses, attacked with raw SQL as the application and as the owner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
import pytest

A_LANE = "(SELECT id FROM catalog_lane WHERE provider_model_id = 'gpt-4o-2024-08-06')"
A_VERSION = f"(SELECT min(id) FROM catalog_rateversion WHERE lane_id = {A_LANE})"

ATTACKS = [
    "UPDATE catalog_rateversion SET valid_from = lanehouse_now()",
    "DELETE FROM catalog_rateversion",
    "UPDATE catalog_rateline SET rate_micro_usd_per_mtok = 1, published_rate_micro_usd_per_mtok = 1",
    "DELETE FROM catalog_rateline",
    "UPDATE catalog_lanerotation SET reason = 'somebody else did it'",
    "DELETE FROM catalog_lanerotation",
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_application_may_not_edit_the_record(app_cursor: psycopg.Cursor, attack: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        app_cursor.execute(attack)


@pytest.mark.parametrize("attack", [*ATTACKS, "TRUNCATE catalog_rateline", "TRUNCATE catalog_lanerotation"])
def test_not_even_the_owner_may_edit_the_record(owner_cursor: psycopg.Cursor, attack: str) -> None:
    with pytest.raises(psycopg.errors.RestrictViolation, match="make a new version"):
        owner_cursor.execute(attack)


@pytest.mark.parametrize("table", ["catalog_catalogversion", "catalog_slasample"])
def test_the_application_may_not_move_versions_or_samples_by_hand(app_cursor: psycopg.Cursor, table: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        app_cursor.execute(f"DELETE FROM {table}")


def test_a_made_version_takes_no_further_line(app_cursor: psycopg.Cursor) -> None:
    with pytest.raises(psycopg.errors.RestrictViolation, match="takes no further line"):
        app_cursor.execute(
            f"""INSERT INTO catalog_rateline (version_id, kind, context_from_tokens, published_rate_micro_usd_per_mtok,
                    discount_basis_points, rate_micro_usd_per_mtok, is_derived)
                VALUES ({A_VERSION}, 'input', 200000, 1, 0, 1, false)"""
        )


_VERSION = """INSERT INTO catalog_rateversion (lane_id, card, origin, valid_from, made_at, made_in_transaction)
    VALUES ({lane}, 'sell', 'operator', {valid_from}, {made_at}, 9223372036854775807)
    RETURNING id, made_in_transaction"""
_LINES = """INSERT INTO catalog_rateline (version_id, kind, context_from_tokens, published_rate_micro_usd_per_mtok,
        discount_basis_points, rate_micro_usd_per_mtok, is_derived)
    SELECT %s, kind, %s, 1, 0, 1, false FROM unnest(%s::text[]) kind"""
_KINDS = ["input", "cached_input", "cache_write_5m", "cache_write_1h", "output"]


def _make_version(
    cursor: psycopg.Cursor,
    valid_from: str,
    *,
    made_at: str = "lanehouse_now()",
    kinds: Sequence[str] = _KINDS,
    from_tokens: int = 0,
) -> int:
    """Make a version by hand, and give the transaction that it says it is of."""
    with cursor.connection.transaction():
        cursor.execute(_VERSION.format(lane=A_LANE, valid_from=valid_from, made_at=made_at))
        row = cursor.fetchone()
        assert row is not None
        cursor.execute(_LINES, (row[0], from_tokens, list(kinds)))
    return int(row[1])


def test_a_version_cannot_claim_to_be_of_another_transaction(app_cursor: psycopg.Cursor) -> None:
    assert _make_version(app_cursor, "lanehouse_now()") < 9_223_372_036_854_775_807


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        # A gap: from then on the lane would have no rate, or none for some of its tokens.
        ({"kinds": []}, "rate_version_has_every_rate"),
        ({"kinds": _KINDS[:4]}, "rate_version_has_every_rate"),
        ({"from_tokens": 200_000}, "rate_version_has_every_rate"),
        # An overlap: what held yesterday would be held by two.
        (
            {"valid_from": "lanehouse_now() - interval '1 day'", "made_at": "lanehouse_now() - interval '1 day'"},
            "rate_version_is_not_backdated",
        ),
        ({"valid_from": "lanehouse_now() - interval '1 second'"}, "rate_version_is_not_backdated"),
    ],
)
def test_no_version_leaves_a_gap_or_changes_what_held(
    owner_cursor: psycopg.Cursor, more: dict[str, Any], rule: str
) -> None:
    with pytest.raises(psycopg.errors.IntegrityError) as caught:
        _make_version(owner_cursor, **{"valid_from": "lanehouse_now()", **more})
    assert caught.value.diag.constraint_name == rule


def test_versions_are_one_chain_whatever_order_they_are_made_in(app_cursor: psycopg.Cursor) -> None:
    for days in (30, 10, 20, 5):
        _make_version(app_cursor, f"lanehouse_now() + interval '{days} days'")
    app_cursor.execute(
        f"""SELECT count(*), count(*) FILTER (WHERE upper_inf(holds)), range_agg(holds) FROM catalog_ratespan
            WHERE lane_id = {A_LANE} AND card = 'sell'"""
    )
    row = app_cursor.fetchone()
    assert row is not None
    # One without an end, and all of them together one range without a hole.
    assert (row[0], row[1], len(row[2])) == (5, 1, 1)
    app_cursor.execute(
        f"""SELECT count(*) FROM catalog_ratespan one JOIN catalog_ratespan other USING (lane_id, card)
            WHERE lane_id = {A_LANE} AND one.version_id < other.version_id AND one.holds && other.holds"""
    )
    assert app_cursor.fetchone() == (0,)


@pytest.mark.parametrize(
    ("attack", "rule"),
    [
        (
            (
                "INSERT INTO catalog_rateversion (lane_id, card, origin, valid_from, made_at, made_in_transaction)"
                f" SELECT {A_LANE}, 'sell', 'operator', lanehouse_now() - interval '1 day', lanehouse_now(), 0"
            ),
            "rate_version_is_not_backdated",
        ),
        (
            (
                "INSERT INTO catalog_rateversion (lane_id, card, origin, valid_from, made_at, made_in_transaction)"
                f" SELECT {A_LANE}, 'sell', 'operator', lanehouse_now(), lanehouse_now(), 0 FROM generate_series(1, 2)"
            ),
            "rate_version_is_one_per_start",
        ),
        (
            f"UPDATE catalog_lane SET rotation = 'out', rotation_reason = '' WHERE id = {A_LANE}",
            "lane_out_of_rotation_has_a_reason",
        ),
        (
            f"UPDATE catalog_lane SET rotation = 'off', rotation_reason = 'x' WHERE id = {A_LANE}",
            "lane_rotation_is_known",
        ),
        (
            f"UPDATE catalog_lane SET minimum_rows = 60000 WHERE id = {A_LANE}",
            "lane_takes_at_least_its_minimum_rows",
        ),
        (
            "INSERT INTO catalog_modelname (name, kind, model_id) SELECT 'gpt-4o', 'alias', max(id) FROM catalog_model",
            "model_name_means_one_model",
        ),
        (
            (
                "INSERT INTO catalog_modelname (name, kind, model_id)"
                " SELECT 'gpt-4o-too', 'slug', id FROM catalog_model WHERE slug = 'gpt-4o'"
            ),
            "model_has_one_slug_among_its_names",
        ),
        ("UPDATE catalog_model SET successor_id = id", "model_does_not_succeed_itself"),
    ],
)
def test_a_broken_rule_is_named(app_cursor: psycopg.Cursor, attack: str, rule: str) -> None:
    with pytest.raises(psycopg.errors.IntegrityError) as caught:
        app_cursor.execute(attack)
    assert caught.value.diag.constraint_name == rule


def test_an_effective_rate_is_the_published_one_less_its_discount(app_cursor: psycopg.Cursor) -> None:
    made = f"""
        WITH version AS (
            INSERT INTO catalog_rateversion (lane_id, card, origin, valid_from, made_at, made_in_transaction)
            SELECT {A_LANE}, 'sell', 'operator', lanehouse_now(), lanehouse_now(), 0 RETURNING id
        ) SELECT id FROM version"""
    line = """INSERT INTO catalog_rateline (version_id, kind, context_from_tokens, published_rate_micro_usd_per_mtok,
                  discount_basis_points, rate_micro_usd_per_mtok, is_derived)
              VALUES (%s, %s, 0, 3000001, 1000, %s, false)"""
    with app_cursor.connection.transaction():
        app_cursor.execute(made)
        row = app_cursor.fetchone()
        assert row is not None
        app_cursor.execute(line, (row[0], "input", 2_700_001))
        with pytest.raises(psycopg.errors.CheckViolation), app_cursor.connection.transaction():
            app_cursor.execute(line, (row[0], "output", 2_700_002))
        # It has one rate of five, and so is never made.
        raise psycopg.Rollback


@pytest.mark.parametrize(
    "attack",
    [
        "UPDATE catalog_model SET model_snapshot = 'another' WHERE slug = 'gpt-4o'",
        "UPDATE catalog_model SET slug = 'another' WHERE slug = 'gpt-4o'",
        f"UPDATE catalog_lane SET provider_model_id = 'gpt-4o-mini' WHERE id = {A_LANE}",
        f"UPDATE catalog_lane SET lane_id = 'elsewhere' WHERE id = {A_LANE}",
    ],
)
def test_what_receipts_name_keeps_its_meaning(owner_cursor: psycopg.Cursor, attack: str) -> None:
    with pytest.raises(psycopg.errors.RestrictViolation, match="keeps what it stands for"):
        owner_cursor.execute(attack)


def test_samples_are_partitioned_by_month(owner_cursor: psycopg.Cursor) -> None:
    owner_cursor.execute("SELECT count(*) FROM pg_inherits WHERE inhparent = 'catalog_slasample'::regclass")
    row = owner_cursor.fetchone()
    assert row is not None
    assert row[0] >= 4
