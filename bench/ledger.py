"""Holds and settlements against ``pgbench -N`` on the same server, and balances at any instant however many legs.

Floors: eight clients place holds, and settle batches, at half the transactions a second of ``pgbench -N`` or more, with
every write flushed. A balance at an instant among a million legs takes at most three times as long as among ten
thousand.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import django
import psycopg

from bench.measure import p50_ms, show, spans_ms
from config.postgres.installation import client_program
from tests.harness.database import SessionDatabase, point_django_at

_CLIENTS = 8
_SECONDS = int(os.environ.get("LANEHOUSE_BENCH_SECONDS", "8"))
_ORGANISATIONS = 500
_AT = datetime(2026, 11, 3, tzinfo=UTC)

_WORLD = """
CREATE SEQUENCE bench_batch;
GRANT USAGE ON SEQUENCE bench_batch TO lanehouse_app;
INSERT INTO accounts_organisation (public_id, slug, name, kind, reporting_zone, calls_per_minute,
        input_tokens_per_minute, accepts_per_minute, created_at)
    SELECT 'org_bench' || number, 'bench' || number, 'Bench', 'customer', 'UTC', 1, 1, 1, now()
    FROM generate_series(1, {organisations}) AS number;
SELECT billing_record_top_up(id, 'first', 1000000000000, now(), '', NULL) FROM accounts_organisation
    WHERE public_id LIKE 'org_bench%';
"""
# Begins each script: one statement and one commit find an organisation, number a new batch and do the work.
_PICK = r"""
\set number random(1, {organisations})
WITH picked AS (
    SELECT id AS organisation, nextval('bench_batch') AS batch FROM accounts_organisation
    WHERE public_id = 'org_bench' || :number
)
"""
_HOLD = """SELECT held.* FROM picked,
    billing_place_holds(organisation, 'bh_' || batch, ARRAY['a'], ARRAY[1000]::bigint[], NULL) AS held;
"""
# What a batch of 1,000 rows on one lane comes to: input, output, fee; one provider account; its usage.
_SETTLE = """SELECT billing_fold_usage(ARRAY[settled.receipt_id], ARRAY[0::bigint],
    ARRAY['[{"model_slug": "gpt-4o", "lane_id": "openai-direct", "request_count": 1000}]'::jsonb])
FROM picked, billing_settle_batch(organisation, 'bs_' || batch, 'rcpt_' || batch, ''::bytea, now(), 1800000,
    1750000, 0, 20000,
    '[{"group_key": "a", "lane_id": "openai-direct", "model_slug": "gpt-4o", "kind": "input", "tokens": 1000000,
       "rate_micro_usd_per_mtok": 1250000, "amount_micro_usd": 1250000, "exact_pico_usd": 1250000000000},
      {"group_key": "a", "lane_id": "openai-direct", "model_slug": "gpt-4o", "kind": "output", "tokens": 100000,
       "rate_micro_usd_per_mtok": 5000000, "amount_micro_usd": 500000, "exact_pico_usd": 500000000000},
      {"group_key": "a", "lane_id": "openai-direct", "model_slug": "gpt-4o", "kind": "control_plane_fee",
       "tokens": null, "rate_micro_usd_per_mtok": null, "amount_micro_usd": 20000, "exact_pico_usd": 20000000000}]',
    '{"a": 1770000}', '[{"code": "openai-ours", "amount_micro_usd": 1750000}]') AS settled;
"""
_LEGS = """
INSERT INTO billing_ledgertransaction (business_key, body_hash, kind, organisation_id, reference, effective_at,
        booked_at)
    SELECT 'bench:' || number, '', 'top_up', organisation.id, number::text,
           %(at)s::timestamptz + number * interval '1 second', %(at)s::timestamptz + number * interval '1 second'
    FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS number, accounts_organisation organisation
    WHERE public_id = 'org_bench1';
INSERT INTO billing_ledgerleg (transaction_id, leg_number, account_id, amount_micro_usd)
    SELECT header.id, leg, account.id, (2 * leg - 3) * (header.id %% 99991 + 1)
    FROM billing_ledgertransaction header, generate_series(1, 2) AS leg
    JOIN billing_ledgeraccount account ON account.code = (ARRAY['top_up_clearing:customer', 'wallet:org_bench1'])[leg]
    WHERE header.business_key LIKE 'bench:%%'
      AND header.booked_at >= %(at)s::timestamptz + %(first)s * interval '1 second';
"""


def run() -> None:
    """Print the ratios."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings.test"
    database = SessionDatabase(durable=True)
    try:
        server = database.server()
        point_django_at(server.app_dsn)
        django.setup()
        _show_postings(server.superuser_dsn, server.app_dsn)
        _show_balances(server.superuser_dsn)
    finally:
        database.stop()


def _show_postings(superuser_dsn: str, app_dsn: str) -> None:
    with psycopg.connect(superuser_dsn, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(_WORLD.format(organisations=_ORGANISATIONS).encode())
    _pgbench("-i", "-q", "-s", "10", dsn=superuser_dsn)
    with tempfile.TemporaryDirectory() as folder:
        for name, statement in (("hold", _HOLD), ("settle a batch of 1,000 rows", _SETTLE)):
            script = Path(folder) / "script.sql"
            script.write_text(_PICK.format(organisations=_ORGANISATIONS) + statement)
            floors, ours = [], []
            for _ in range(3):
                floors.append(_per_second("-N", dsn=superuser_dsn))
                ours.append(_per_second("-f", str(script), dsn=app_dsn))
            floor, own = sorted(floors)[1], sorted(ours)[1]
            print(f"{name:<44} {own:8.0f} a second = {own / floor:5.2f} x   floor {floor:7.0f} a second (pgbench -N)")


def _per_second(*arguments: str, dsn: str) -> float:
    said = _pgbench("-n", "-M", "prepared", "-c", str(_CLIENTS), "-j", "2", "-T", str(_SECONDS), *arguments, dsn=dsn)
    found = re.search(r"tps = ([0-9.]+)", said)
    assert found, said
    return float(found.group(1))


def _pgbench(*arguments: str, dsn: str) -> str:
    done = subprocess.run(  # noqa: S603 -- PostgreSQL's own program
        [client_program("pgbench"), *arguments, dsn], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _show_balances(superuser_dsn: str) -> None:
    from billing.books.selectors import Axis, account_by_code, balances_as_of

    spans: dict[int, list[float]] = {}
    dice = random.Random(1)
    written = 0
    with psycopg.connect(superuser_dsn, autocommit=True) as connection:
        for leg_count in (10_000, 1_000_000):
            while written < leg_count // 2:
                last = min(written + 5_000, leg_count // 2)
                connection.execute("SET session_replication_role = replica")
                with connection.transaction():
                    cursor = psycopg.ClientCursor(connection)
                    cursor.execute(_LEGS, {"at": _AT, "first": written + 1, "last": last})
                connection.execute("SELECT billing_take_snapshot(%s)", [_AT + timedelta(seconds=last)])
                written = last
            connection.execute("VACUUM ANALYZE billing_ledgertransaction")
            connection.execute("VACUUM ANALYZE billing_ledgerleg")
            wallet = account_by_code("wallet:org_bench1")

            def ask(wallet: object = wallet, most: int = written) -> None:
                at = _AT + timedelta(seconds=dice.randrange(1, most))
                balances_as_of(at, dice.choice(list(Axis)), [wallet])  # type: ignore[list-item]

            spans[leg_count] = spans_ms(ask, count=60)
    show("balance at an instant, 1,000,000 legs", spans[1_000_000], spans[10_000], floor_name="10,000 legs")
    assert p50_ms(spans[10_000]) > 0, "a query takes time"
