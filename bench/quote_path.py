"""The quote, as the server sees it (``Server-Timing`` total) and as a client on loopback sees it.

Floor: ``orjson.loads`` of each line of the same bytes, in this process, in turns with the calls.
"""

from __future__ import annotations

import http.client

import orjson

from bench.files import mixed_rows
from bench.measure import show, spans_ms
from bench.product import Product, running_product

_CASES = (("1,200 mixed rows, 1 MB", 1_200, 830, 40), ("5,000 mixed rows, 8 MB", 5_000, 1_650, 15))


def run() -> None:
    """Print both figures for both sizes."""
    with running_product() as product:
        for name, row_count, bytes_per_row, call_count in _CASES:
            _measure(product, name, mixed_rows(row_count, bytes_per_row=bytes_per_row), call_count)


def _measure(product: Product, name: str, body: bytes, call_count: int) -> None:
    lines = body.splitlines()
    server: list[float] = []
    connection = product.client()

    def quote() -> None:
        connection.request(
            "POST",
            "/v1/quotes/model",
            body,
            {"Authorization": f"Bearer {product.api_key}", "Content-Type": "text/plain"},
        )
        answer = connection.getresponse()
        content = answer.read()
        assert answer.status == http.HTTPStatus.CREATED, content[:300]
        server.append(float(answer.headers["Server-Timing"].rpartition("dur=")[2]))

    def floor() -> None:
        for line in lines:
            orjson.loads(line)

    floor_spans: list[float] = []
    client_spans: list[float] = []
    for _ in range(3):
        quote()
    server.clear()
    for _ in range(call_count):
        floor_spans += spans_ms(floor, count=1, warm_up_count=0)
        client_spans += spans_ms(quote, count=1, warm_up_count=0)
    floor_name = "orjson.loads a line"
    show(f"quote, server: {name}", server, floor_spans, floor_name=floor_name)
    show(f"quote, client: {name}", client_spans, floor_spans, floor_name=floor_name)
