"""From a provider's "completed" to the customer's results: 1,200 rows over two models, the whole product, its defaults.

Measured from the instant at which the last of a batch's jobs was completed at the stand-in provider until a client has
read the results; it asks for them when, looking each 20 ms, it sees the batch ended. Beside it stands the period of the
sweeps: without any wake-up that is what a step waits for. The provider's pace differs from batch to batch, so that no
poll can be in step with it.
"""

from __future__ import annotations

import http.client
import sqlite3
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from bench.files import mixed_rows
from bench.measure import p50_ms, p95_ms
from config.schedule import SECONDS_BETWEEN
from tests.faults.product import ENDED, Customer, Product

_ROW_COUNT = 1_200
_BATCH_COUNT = 20
_ASKS_SECONDS = 0.02
_AIM_PERIODS = 3
# What the fault tests make shorter, as it is by default.
_DEFAULTS = {
    "LANEHOUSE_LEASE_SECONDS": "60",
    "LANEHOUSE_POLL_MIN_SECONDS": "1",
    "LANEHOUSE_POLL_MAX_SECONDS": "60",
    "LANEHOUSE_PROVIDER_TIMEOUT_SECONDS": "60",
}


def run() -> None:
    """Print the wait and how it stands to the sweeps."""
    period_ms = SECONDS_BETWEEN["routing.poll_jobs"] * 1_000
    with tempfile.TemporaryDirectory(prefix="lanehouse-bench-") as folder:
        product = Product(Path(folder), **_DEFAULTS)
        product.start()
        try:
            waits = [_wait_ms(product, number) for number in range(_BATCH_COUNT)]
        finally:
            product.stop()
    print(
        f"completed at the provider to results read, {_ROW_COUNT:,} rows: p50 {p50_ms(waits):6.0f} ms"
        f" = {p50_ms(waits) / period_ms:4.2f} periods   p95 {p95_ms(waits):6.0f} ms = {p95_ms(waits) / period_ms:4.2f}"
        f" periods (aim {_AIM_PERIODS})   longest {max(waits):6.0f} ms   period {period_ms:.0f} ms"
    )


def _wait_ms(product: Product, number: int) -> float:
    product.simulator.change_settings(rows_per_second=100 + 13 * number)
    batch_id = Customer(product).send(mixed_rows(_ROW_COUNT + number, bytes_per_row=830))
    values = product.values()
    # Watched in the database: so many calls are more than an organisation may make.
    with psycopg.connect(values["DATABASE_URL"], autocommit=True) as database:
        asked = "SELECT FROM routing_batch WHERE public_id = %s AND status = ANY(%s)"
        while database.execute(asked, [batch_id, list(ENDED)]).fetchone() is None:
            time.sleep(_ASKS_SECONDS)
    client = http.client.HTTPConnection(urlsplit(values["LANEHOUSE_URL"]).netloc, timeout=60)
    headers = {"Authorization": f"Bearer {values['LANEHOUSE_API_KEY']}"}
    client.request("GET", f"/v1/batches/{batch_id}/results", headers=headers)
    lines = client.getresponse().read().splitlines()
    read_at = time.time()
    client.close()
    assert len(lines) == _ROW_COUNT + number, "every row once"
    with sqlite3.connect(product.state / "simulators" / "openai" / "state.sqlite3") as provider:
        (completed_at,) = provider.execute("SELECT max(completed_at) FROM batches").fetchone()
    return (read_at - float(completed_at)) * 1_000
