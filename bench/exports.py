"""A million ledger rows as CSV against PostgreSQL's own COPY of the same columns, with the memory it takes; and usage.

The rows are written with triggers off: what is measured is the reading. Floors: an export runs at 0.3 of COPY's speed
or more and takes 200 MB at most; usage is folded at 50,000 receipt lines a second or more; 400 days of ten million
requests are summed within a second.
"""

from __future__ import annotations

import os
import resource
import tempfile
import time
from datetime import UTC, datetime, timedelta
from typing import IO
from zoneinfo import ZoneInfo

import django
import psycopg

from tests.harness.database import SessionDatabase, point_django_at

_ROWS = 1_000_000
_MEMORY_MAX_MB = 200
_AT = datetime(2026, 11, 3, tzinfo=UTC)

_BOOKS = """
INSERT INTO accounts_organisation (public_id, slug, name, kind, reporting_zone, calls_per_minute,
        input_tokens_per_minute, accepts_per_minute, created_at)
    SELECT 'org_bench', 'bench', 'Bench', 'customer', 'Asia/Kathmandu', 1, 1, 1, now();
INSERT INTO billing_ledgeraccount (code, kind, book, organisation_id, created_at)
    SELECT 'wallet:org_bench', 'customer_wallet', 'customer', id, now() FROM accounts_organisation
    WHERE slug = 'bench' UNION ALL SELECT 'revenue_usage:bench', 'revenue_usage', 'customer', NULL, now();
INSERT INTO billing_ledgertransaction (id, business_key, body_hash, kind, organisation_id, reference, effective_at,
        booked_at)
    SELECT number, 'settle:batch_' || number, '', 'settlement', organisation.id, 'batch_' || number,
           '2026-11-03Z'::timestamptz + number * interval '1 second',
           '2026-11-03Z'::timestamptz + number * interval '1 second'
    FROM generate_series(1, {rows} / 2) AS number, accounts_organisation organisation WHERE slug = 'bench';
INSERT INTO billing_ledgerleg (transaction_id, leg_number, account_id, amount_micro_usd)
    SELECT number, leg, account.id, (2 * leg - 3) * (number % 99991)
    FROM generate_series(1, {rows} / 2) AS number, generate_series(1, 2) AS leg
    JOIN billing_ledgeraccount account ON account.code = (ARRAY['wallet:org_bench', 'revenue_usage:bench'])[leg];
"""
_RECEIPTS = """
INSERT INTO billing_receipt (id, public_id, organisation_id, batch_public_id, transaction_id, settled_at, line_count,
        usage_charge_micro_usd, fee_micro_usd, total_micro_usd, reserved_micro_usd, released_micro_usd,
        receivable_micro_usd, estimate_total_micro_usd)
    SELECT id, 'rcpt_' || id, organisation_id, 'batch_' || id, id, effective_at, 2, 3, 0, 3, 0, 0, 0, 0
    FROM billing_ledgertransaction WHERE id <= {receipts};
INSERT INTO billing_receiptline (receipt_id, line_number, group_key, lane_id, model_slug, kind, tokens,
        rate_micro_usd_per_mtok, amount_micro_usd, exact_pico_usd)
    SELECT receipt.id, line, 'a', 'lane-' || receipt.id % 3, 'model-' || receipt.id % 5,
           (ARRAY['input', 'output'])[line], 1000, 1000, line, line * 1000000
    FROM billing_receipt receipt, generate_series(1, 2) AS line;
"""
_USAGE = """
INSERT INTO usage_rollup (organisation_id, bucket_at, api_key_id, model_slug, lane_id, request_count, input_tokens,
        cached_input_tokens, cache_write_tokens, output_tokens, usage_charge_micro_usd, fee_micro_usd)
    SELECT organisation.id, bucket_at, key, 'model-' || model, 'lane-' || model % 3, 26, 1000000, 0, 0, 1000, 999, 20
    FROM accounts_organisation organisation, generate_series(1, 2) AS key, generate_series(1, 5) AS model,
         generate_series('2025-10-01Z'::timestamptz, '2026-11-05Z', interval '15 minutes') AS bucket_at
    WHERE organisation.slug = 'bench'
"""


def run() -> None:
    """Print the figures."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.test")
    django.setup()
    database = SessionDatabase()
    try:
        server = database.server()
        with psycopg.connect(server.superuser_dsn, autocommit=True) as superuser:
            superuser.execute("SET session_replication_role = replica")
            superuser.execute(_BOOKS.format(rows=_ROWS))
            superuser.execute(_RECEIPTS.format(receipts=100_000))
            superuser.execute("VACUUM ANALYZE")
        point_django_at(server.app_dsn)
        _show_ledger(server.app_dsn)
        _show_folding(server.app_dsn)
        with psycopg.connect(server.superuser_dsn, autocommit=True) as superuser:
            superuser.execute(_USAGE)
            superuser.execute("VACUUM ANALYZE usage_rollup")
        _show_days()
    finally:
        database.stop()


def _show_ledger(dsn: str) -> None:
    from billing.exports.scope import ExportFormat, ExportKind, ExportScope
    from billing.exports.tables import table_of
    from billing.exports.writing import write_export

    scope = ExportScope(
        kind=ExportKind.LEDGER, organisation_id=None, since=None, until=None, zone=ZoneInfo("Asia/Kathmandu")
    )
    table = table_of(scope)
    plain = f"COPY (SELECT {', '.join(each.sql for each in table.columns)} {table.body}) TO STDOUT (FORMAT csv)"
    copied, exported = [], []
    with psycopg.connect(dsn) as connection, tempfile.TemporaryFile() as file:
        for _ in range(3):
            started = time.perf_counter()
            with connection.cursor() as cursor, cursor.copy(plain, table.values) as copy:
                for line in copy:
                    file.write(line)
            copied.append(time.perf_counter() - started)
            before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            started = time.perf_counter()
            written = write_export(scope, ExportFormat.CSV, lambda some: _write(file, some), lambda _count: None)
            exported.append(time.perf_counter() - started)
    assert written.row_count == _ROWS
    grown_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb) / 1024
    whole_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{'export of 1,000,000 ledger rows as CSV':<44} {min(exported):6.2f} s = {min(copied) / min(exported):5.2f} x"
        f" the speed of COPY ({min(copied):.2f} s; floor 0.3), memory of the process {whole_mb:.0f} MB"
        f" (floor {_MEMORY_MAX_MB}), grown by {grown_mb:.0f}"
    )


def _write(file: IO[bytes], some: bytes) -> None:
    file.write(some)


def _show_folding(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        started = time.perf_counter()
        connection.execute(
            "SELECT billing_fold_usage(array_agg(id), array_agg(NULL::bigint), array_agg('[]'::jsonb))"
            " FROM billing_receipt"
        )
        seconds = time.perf_counter() - started
    print(f"{'usage folded of 200,000 receipt lines':<44} {200_000 / seconds:9,.0f} lines a second (floor 50,000)")


def _show_days() -> None:
    from accounts.models import Organisation
    from billing.domain.calendar import BucketWidth, borders, day_starts_at
    from billing.usage.reading import Dimension, usage_rows

    organisation = Organisation.objects.get(slug="bench")
    zone = ZoneInfo("Asia/Kathmandu")
    first = (_AT - timedelta(days=399)).date()
    days = borders(day_starts_at(first, zone), day_starts_at(_AT.date(), zone), BucketWidth.DAY, zone)
    spans = []
    for _ in range(3):
        started = time.perf_counter()
        rows = usage_rows(organisation, days, by=(Dimension.MODEL,), limit=10_000)
        spans.append(time.perf_counter() - started)
    request_count = sum(row.sums.request_count for row in rows)
    print(
        f"{'usage of 400 days, by day and model':<44} {min(spans) * 1000:6.0f} ms over {request_count:,} requests in"
        f" {len(rows):,} sums (floor 1,000)"
    )
