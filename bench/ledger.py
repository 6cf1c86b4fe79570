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
from statistics import median

import django
import psycopg

from bench.measure import p50_ms, show, spans_ms
from config.postgres.installation import client_program
from tests.harness.database import SessionDatabase, point_django_at

_CLIENTS = 8
_ROUNDS = 3
_SECONDS = int(os.environ.get("LANEHOUSE_BENCH_SECONDS", "8"))
_BATCHES_PER_CLIENT = 100 * _SECONDS
_ORGANISATIONS = 500
_AT = datetime(2026, 11, 3, tzinfo=UTC)

_WORLD = """
INSERT INTO accounts_organisation (public_id, slug, name, kind, reporting_zone, calls_per_minute,
        input_tokens_per_minute, accepts_per_minute, created_at)
    SELECT 'org_bench' || number, 'bench' || number, 'Bench', 'customer', 'UTC', 1, 1, 1, now()
    FROM generate_series(0, {organisations} - 1) AS number;
SELECT billing_record_top_up(id, 'first', 1000000000000, now(), '', NULL) FROM accounts_organisation
    WHERE public_id LIKE 'org_bench%';
"""
# Begins each script: the batch is the client's next, and belongs to one of the organisations.
_NEXT = r"""
\set done :done + 1
\set batch :first + :client_id * {per_client} + :done
\set organisation :organisation + :batch % {organisations}
"""
_HOLD = """SELECT * FROM billing_place_holds(:organisation::bigint, 'b_' || :batch::text, ARRAY['a'],
    ARRAY[1900000]::bigint[], NULL);
"""
# What a batch of 1,000 rows on one lane comes to: input, output, fee; one provider account; its usage; its hold closed.
_SETTLE = """SELECT * FROM billing_settle_batch(:organisation::bigint, 'b_' || :batch::text, 'rcpt_' || :batch::text,
    ''::bytea, now(), NULL, 1800000, 1750000, 0, 20000,
    '[{"line_number": 1, "group_key": "a", "lane_id": "openai-direct", "model_slug": "gpt-4o", "kind": "input",
       "tokens": 1000000, "rate_micro_usd_per_mtok": 1250000, "amount_micro_usd": 1250000,
       "exact_pico_usd": 1250000000000},
      {"line_number": 2, "group_key": "a", "lane_id": "openai-direct", "model_slug": "gpt-4o", "kind": "output",
       "tokens": 100000, "rate_micro_usd_per_mtok": 5000000, "amount_micro_usd": 500000,
       "exact_pico_usd": 500000000000},
      {"line_number": 3, "group_key": "a", "lane_id": "openai-direct", "model_slug": "gpt-4o",
       "kind": "control_plane_fee", "tokens": null, "rate_micro_usd_per_mtok": null, "amount_micro_usd": 20000,
       "exact_pico_usd": 20000000000}]',
    '{"a": 1770000}', ARRAY['openai-ours'], ARRAY[1750000]::bigint[],
    '[{"model_slug": "gpt-4o", "lane_id": "openai-direct", "request_count": 1000, "input_tokens": 1000000,
       "cached_input_tokens": 0, "cache_write_tokens": 0, "output_tokens": 100000, "usage_charge_micro_usd": 1750000,
       "fee_micro_usd": 20000}]');
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
    database = SessionDatabase(durable=True, for_tests=False)
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
        connection.execute(_WORLD.format(organisations=_ORGANISATIONS).encode())
        (first_organisation,) = connection.execute(
            "SELECT min(id) FROM accounts_organisation WHERE public_id LIKE 'org_bench%'"
        ).fetchone() or (0,)
    _pgbench("-i", "-q", "-s", "10", dsn=superuser_dsn)
    begin = _NEXT.format(per_client=_BATCHES_PER_CLIENT, organisations=_ORGANISATIONS).replace(
        "set organisation :organisation", f"set organisation {first_organisation}"
    )
    floors: list[float] = []
    rates: dict[str, list[float]] = {"hold": [], "settle a batch of 1,000 rows": []}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(_ROUNDS):
            floors.append(_per_second("-N", "-T", str(_SECONDS), dsn=superuser_dsn))
            # What a round holds, it settles.
            for (name, known), statement in zip(rates.items(), (_HOLD, _SETTLE), strict=True):
                script = Path(folder) / f"{name.split()[0]}.sql"
                script.write_text(begin + statement)
                first = number * _CLIENTS * _BATCHES_PER_CLIENT
                counts = ("-t", str(_BATCHES_PER_CLIENT), "-D", f"first={first}", "-D", "done=0")
                known.append(_per_second("-f", str(script), *counts, dsn=app_dsn))
    floor = median(floors)
    for name, known in rates.items():
        own = median(known)
        print(f"{name:<44} {own:8.0f} a second = {own / floor:5.2f} x   floor {floor:7.0f} a second (pgbench -N)")
        ratios = ", ".join(f"{each / beside:.2f}" for each, beside in zip(known, floors, strict=True))
        print(f"{'':<44} round by round: {ratios} x")


def _per_second(*arguments: str, dsn: str) -> float:
    said = _pgbench("-n", "-M", "prepared", "-c", str(_CLIENTS), "-j", "2", *arguments, dsn=dsn)
    found = re.search(r"tps = ([0-9.]+)", said)
    assert found, said
    assert "number of failed transactions: 0" in said, said
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
