"""The quote where it is not alone: many clients, slow ones, a large file's memory, and a process that has just begun.

Each figure stands beside the same call in the same product without that.
"""

from __future__ import annotations

import socket
import statistics
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import orjson

from bench.files import mixed_rows
from bench.measure import p50_ms, p95_ms, show, spans_ms
from bench.product import Product, Site, running_site, running_web

_CLIENT_COUNT, _QUOTES_A_CLIENT, _ROUNDS = 16, 12, 3
_DRIPPING_COUNTS, _DRIP_SECONDS, _WATCHED_COUNT = (8, 24, 200), 0.2, 80
_FRESH_COUNT = 5


def run() -> None:
    """Print every figure."""
    body = mixed_rows(1_200, bytes_per_row=830)
    with running_site() as site:
        with running_web(site, web_workers=2) as product:
            _share(product, body)
        with running_web(site) as product:
            _drip(product, body)
            _grow(product, mixed_rows(5_000, bytes_per_row=1_650))
        _begin(site, body)


def _share(product: Product, body: bytes) -> None:
    """Print the web processes' processor time of a quote among many clients, beside that of one client."""
    _quote_often(product, body, 20)
    alone, shared = [], []
    for _ in range(_ROUNDS):
        alone.append(_cpu_ms(product, body, client_count=1, quote_count=_CLIENT_COUNT * 2))
        shared.append(_cpu_ms(product, body, client_count=_CLIENT_COUNT, quote_count=_QUOTES_A_CLIENT))
    alone_ms, shared_ms = statistics.median(alone), statistics.median(shared)
    print(
        f"quote, {_CLIENT_COUNT} clients on 2 workers: {shared_ms:.2f} ms of processor time a quote"
        f" = {shared_ms / alone_ms:.2f} x   alone {alone_ms:.2f} ms"
    )


def _cpu_ms(product: Product, body: bytes, *, client_count: int, quote_count: int) -> float:
    begun = product.cpu_seconds()
    with ThreadPoolExecutor(client_count) as clients:
        for each in [clients.submit(_quote_often, product, body, quote_count) for _ in range(client_count)]:
            each.result()
    return (product.cpu_seconds() - begun) / (client_count * quote_count) * 1_000


def _quote_often(product: Product, body: bytes, count: int) -> list[float]:
    connection = product.client()
    return spans_ms(lambda: product.quote(connection, body), count=count, warm_up_count=0)


def _drip(product: Product, body: bytes) -> None:
    """Print what a client waits for while others send their files a few bytes at a time."""
    _quote_often(product, body, 10)
    for count in _DRIPPING_COUNTS:
        before = _quote_often(product, body, _WATCHED_COUNT)
        with _dripping(product, len(body), count):
            beside = _quote_often(product, body, _WATCHED_COUNT)
        floor_ms = p95_ms(before + _quote_often(product, body, _WATCHED_COUNT))
        print(
            f"quote, client: beside {count} dripping uploads: p50 {p50_ms(beside):.2f} ms"
            f"   p95 {p95_ms(beside):.2f} ms = {p95_ms(beside) / floor_ms:.2f} x   without them p95 {floor_ms:.2f} ms"
        )


@contextmanager
def _dripping(product: Product, size_bytes: int, count: int) -> Iterator[None]:
    """Send quotes a few bytes at a time until the block ends."""
    ended = threading.Event()
    head = (
        f"POST /v1/quotes/model HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {product.api_key}\r\n"
        f"Content-Length: {size_bytes}\r\n\r\n"
    ).encode()

    def drip(clients: list[socket.socket]) -> None:
        while not ended.wait(_DRIP_SECONDS):
            for client in clients:
                client.sendall(b"{      ")

    with ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection(("127.0.0.1", product.port))) for _ in range(count)]
        for client in clients:
            client.sendall(head)
        dripper = threading.Thread(target=drip, args=(clients,))
        dripper.start()
        try:
            yield
        finally:
            ended.set()
            dripper.join()


def _grow(product: Product, body: bytes) -> None:
    """Print how far the highest memory of the web processes rises for a large file."""
    _quote_often(product, mixed_rows(10, bytes_per_row=830), 5)
    before_megabytes = product.watch_memory()
    _quote_often(product, body, 5)
    grown, size = product.peak_megabytes() - before_megabytes, len(body) / 2**20
    print(f"quote, {size:.1f} MiB: the web server's memory grew by {grown:.1f} MiB = {grown / size:.2f} x the body")


def _begin(site: Site, body: bytes) -> None:
    """Print the first quote of a process beside the floor of all."""
    server, client = [], []
    for _ in range(_FRESH_COUNT):
        with running_web(site) as product:
            server_ms, client_ms = _first_quote(product, body)
            server.append(server_ms)
            client.append(client_ms)
    lines = body.splitlines()
    floor = spans_ms(lambda: [orjson.loads(line) for line in lines], count=20)
    show("quote, server: first of a process", server, floor, floor_name="orjson.loads a line")
    show("quote, client: first of a process", client, floor, floor_name="orjson.loads a line")


def _first_quote(product: Product, body: bytes) -> tuple[float, float]:
    """Give what the server says, and what a client waits."""
    connection = product.client()
    server: list[float] = []
    (client_ms,) = spans_ms(lambda: server.append(product.quote(connection, body)), count=1, warm_up_count=0)
    return server[0], client_ms
