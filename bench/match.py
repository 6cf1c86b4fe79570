"""Matching 1,000,000 attempts against a bill of 100,000 lines.

Floor: one SQL group-by over the same attempts, in the same run. The match is the product's own step, from the claim of
the invoice to the commit of its breaks; memory is the high-water mark of its process and of its database connection,
beside that of a match of a tenth of the rows.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import django

from tests.harness.database import ROOT, SessionDatabase

_ATTEMPTS = 1_000_000
_LINES = 100_000
_REPEATED = 5
_FLOOR = """
SELECT lane_id, provider_project, outcome, (completed_at AT TIME ZONE 'UTC')::date AS day, count(*), sum(input_tokens),
       sum(cached_input_tokens), sum(cache_write_5m_tokens), sum(cache_write_1h_tokens), sum(output_tokens),
       sum(cost_pico_usd)
FROM attempt_fact WHERE completed_at >= '2026-10-01' AND completed_at < '2026-11-01'
  AND provider = 'openai' AND provider_account = 'bench' GROUP BY 1, 2, 3, 4
"""
# Jobs of 500 rows, over 31 days, 4 models and 8 projects.
_MAKE_ATTEMPTS = """
INSERT INTO attempt_fact (completed_at, job_id, "row", attempt_number, organisation_id, batch_id, lane_id, provider,
    provider_account, provider_project, outcome, code, input_tokens, cached_input_tokens, cache_write_5m_tokens,
    cache_write_1h_tokens, output_tokens, cost_pico_usd)
SELECT '2026-10-01T12:00:00Z'::timestamptz + (job %% 31) * interval '1 day', job, place, 1, 1, job, 'openai-direct',
    'openai', 'bench', 'project-' || (job / 124) %% 8, CASE WHEN place %% 100 = 7 THEN 'failed' ELSE 'succeeded' END,
    '', 400 + place %% 50, place %% 30, 0, 0, 100 + place %% 9,
    (400 + place %% 50) * 75000 + (place %% 30) * 37500 + (100 + place %% 9) * 300000
FROM generate_series(0, %(jobs)s - 1) AS job, generate_series(0, 499) AS place
"""
_MAKE_TERMS = """
INSERT INTO billing_collectedjobfact SELECT job, 'batch_' || job, 'model-' || (job / 31) %% 4, 'model', 'batch', FALSE,
    75000, 37500, 93750, 150000, 300000 FROM generate_series(0, %(jobs)s - 1) AS job
"""
# What was run, cut into equal lines; in one place of fifty the first line asks for a little more.
_MAKE_LINES = """
WITH place AS (
    SELECT (completed_at AT TIME ZONE 'UTC')::date AS day, terms.model_snapshot AS model, provider_project AS project,
           part.token_class, sum(part.tokens) AS tokens, sum(part.tokens) * part.rate AS pico_usd,
           row_number() OVER () AS number
    FROM attempt_fact fact JOIN billing_collectedjobfact terms USING (job_id)
    CROSS JOIN LATERAL (VALUES ('input_uncached', input_tokens, 75000),
        ('input_cache_read', cached_input_tokens, 37500),
        ('output', output_tokens, 300000)) part (token_class, tokens, rate)
    GROUP BY 1, 2, 3, 4, part.rate
), cut AS (SELECT greatest(1, %(lines)s / count(*)) AS cut_count FROM place)
INSERT INTO billing_invoiceline (file_id, line, account, window_start, window_end, model_name, tier, token_class,
    project, quantity, unit, amount_pico_usd, currency, charge_kind, is_long_context, reference, format_note, raw,
    raw_row_hash)
SELECT %(file)s, number * 100 + piece, '', day::timestamp AT TIME ZONE 'UTC', (day + 1)::timestamp AT TIME ZONE 'UTC',
    model, 'batch', token_class, project, div(tokens, cut_count) + CASE WHEN piece = 1 THEN mod(tokens, cut_count)
    ELSE 0 END, 'tokens', div(pico_usd, cut_count) + CASE WHEN piece = 1 THEN mod(pico_usd, cut_count)
    + CASE WHEN number %% 50 = 0 THEN 77 ELSE 0 END ELSE 0 END, 'USD', 'usage', FALSE, '', '', '{}',
    sha256((number || ':' || piece)::bytea)
FROM place, cut, generate_series(1, cut_count) AS piece
"""


def run() -> None:
    """Print the figure."""
    small, large = _measured(_ATTEMPTS // 10, _LINES // 10), _measured(_ATTEMPTS, _LINES)
    print(
        f"{'match 1,000,000 attempts, 100,000 lines':<44} p50 {large['match_ms']:8.0f} ms ="
        f" {large['match_ms'] / large['floor_ms']:5.2f} x   floor {large['floor_ms']:7.0f} ms (one SQL group-by)"
        f"   {large['places']:,} places, {large['breaks']:,} breaks"
    )
    print(
        f"{'':<44} memory {large['megabytes']:.0f} MB, database {large['database_megabytes']:.0f} MB;"
        f" a tenth of the rows: {small['megabytes']:.0f} MB, {small['database_megabytes']:.0f} MB"
    )


def _measured(attempts: int, lines: int) -> dict[str, Any]:
    database = SessionDatabase()
    try:
        server = database.server()
        with tempfile.TemporaryDirectory(prefix="lanehouse-bench-") as folder:
            environment = {
                **os.environ,
                "DJANGO_SETTINGS_MODULE": "config.settings.test",
                "DATABASE_URL": server.app_dsn,
                "LANEHOUSE_STATE_DIR": folder,
                "LANEHOUSE_DATABASE_POOL_MAX_SIZE": "0",
            }
            command = [sys.executable, "-m", "bench.match", str(attempts), str(lines)]
            done = subprocess.run(  # noqa: S603 -- our own module
                command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True
            )
    finally:
        database.stop()
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured


def _worker(attempts: int, lines: int) -> None:
    django.setup()
    from datetime import UTC, date, datetime

    from django.db import connection

    from billing.reconciliation.models import Break, FileState, InvoiceFile, ProviderInvoice
    from billing.reconciliation.services.matching import ask_to_match, match_next_invoice
    from billing.services.attempts import ensure_partitions

    at = datetime(2026, 10, 1, tzinfo=UTC)
    ensure_partitions(at)
    invoice = ProviderInvoice.objects.create(
        public_id="inv_bench", provider="openai", provider_account="bench", period=date(2026, 10, 1), created_at=at
    )
    file = InvoiceFile.objects.create(
        public_id="invf_bench", invoice=invoice, report_format="focus", has_money=True, state=FileState.READ,
        file_name="bench", size_bytes=1, sha256=bytes(32), blob_name="none", uploaded_at=at, amount_decimals_count=12,
    )  # fmt: skip
    values = {"jobs": attempts // 500, "lines": lines, "file": file.pk}
    with connection.cursor() as cursor:
        for statement in (_MAKE_ATTEMPTS, _MAKE_TERMS, _MAKE_LINES):
            cursor.execute(statement, values)
        cursor.execute("ANALYZE")
        cursor.execute("SELECT sum(amount_pico_usd), pg_backend_pid() FROM billing_invoiceline")
        total, backend = cursor.fetchone() or (0, 0)

    def floor() -> None:
        with connection.cursor() as cursor:
            cursor.execute(_FLOOR)
            cursor.fetchall()

    def match() -> None:
        ask_to_match(invoice)
        assert match_next_invoice()

    file.total_pico_usd = total
    file.save()
    floor_ms = _median_ms(floor)
    match_ms = _median_ms(match)
    invoice.refresh_from_db()
    print(
        json.dumps(
            {
                "floor_ms": floor_ms,
                "match_ms": match_ms,
                "places": invoice.bucket_count,
                "breaks": Break.objects.count(),
                "megabytes": _megabytes("self"),
                "database_megabytes": _megabytes(str(backend)),
            }
        )
    )


def _median_ms(act: Callable[[], None]) -> float:
    spans = []
    for _ in range(_REPEATED):
        started = time.perf_counter()
        act()
        spans.append((time.perf_counter() - started) * 1_000)
    return statistics.median(spans)


def _megabytes(pid: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


if __name__ == "__main__":
    _worker(int(sys.argv[1]), int(sys.argv[2]))
