"""The quote, as the server sees it (``Server-Timing`` total) and as a client on loopback sees it.

Floor: ``orjson.loads`` of each line of the same bytes, in this process, in turns with the calls. For one row: an empty
view behind the same server and middleware.
"""

from __future__ import annotations

import http.client
import time

import orjson

from bench.files import lively_rows, mixed_rows
from bench.measure import show, spans_ms
from bench.product import Product, running_product

_CALL_COUNT, _LARGE_CALL_COUNT, _SMALL_CALL_COUNT = 60, 20, 200
_LARGE_BYTES = 3_000_000


def run() -> None:
    """Print both figures for all sizes."""
    with running_product() as product:
        _measure(product, "1,200 mixed rows, 1 MB", mixed_rows(1_200, bytes_per_row=830))
        _measure(product, "1,200 lively rows, 1 MB", lively_rows(1_200, bytes_per_row=830))
        _measure(product, "5,000 mixed rows, 8 MB", mixed_rows(5_000, bytes_per_row=1_650))
        _measure_one_row(product, mixed_rows(1, bytes_per_row=830))


def _measure(product: Product, name: str, body: bytes) -> None:
    lines = body.splitlines()
    connection = product.client()
    server: list[float] = []

    def floor() -> None:
        for line in lines:
            orjson.loads(line)

    for _ in range(3):
        product.quote(connection, body)
    floor_spans: list[float] = []
    client_spans: list[float] = []
    cpu_seconds, floor_cpu_ns = -product.cpu_seconds(), 0
    for _ in range(_CALL_COUNT if len(body) < _LARGE_BYTES else _LARGE_CALL_COUNT):
        floor_cpu_ns -= time.thread_time_ns()
        floor_spans += spans_ms(floor, count=1, warm_up_count=0)
        floor_cpu_ns += time.thread_time_ns()
        client_spans += spans_ms(lambda: server.append(product.quote(connection, body)), count=1, warm_up_count=0)
    cpu_seconds += product.cpu_seconds()
    floor_name = "orjson.loads a line"
    show(f"quote, server: {name}", server, floor_spans, floor_name=floor_name)
    show(f"quote, client: {name}", client_spans, floor_spans, floor_name=floor_name)
    # What neighbours on the machine disturb least.
    cpu_ms, floor_cpu_ms = cpu_seconds / len(server) * 1_000, floor_cpu_ns / len(server) / 1e6
    print(f"{f'quote, processor time: {name}':<44} mean {cpu_ms:7.2f} ms = {cpu_ms / floor_cpu_ms:5.2f} x")


def _measure_one_row(product: Product, body: bytes) -> None:
    connection = product.client()

    def empty() -> None:
        connection.request("GET", "/healthz", headers={"Authorization": f"Bearer {product.api_key}"})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == http.HTTPStatus.OK

    empty_spans: list[float] = []
    client_spans: list[float] = []
    for _ in range(_SMALL_CALL_COUNT):
        empty_spans += spans_ms(empty, count=1, warm_up_count=0)
        client_spans += spans_ms(lambda: product.quote(connection, body), count=1, warm_up_count=0)
    show("quote, client: one row", client_spans, empty_spans, floor_name="an empty view")
