"""The product for a measurement: a database of its own, one organisation, the real web server."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg

from tests.harness.database import ROOT, SessionDatabase, manage

_START_SECONDS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A database with one organisation, and a key of it."""

    environment: dict[str, str]
    api_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A running web server, the process that leads it, and a key for it."""

    port: int
    api_key: str
    web_pid: int

    def client(self) -> http.client.HTTPConnection:
        """Give a connection that is kept open, as clients keep theirs."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def quote(self, connection: http.client.HTTPConnection, body: bytes) -> float:
        """Have a file priced, and give the milliseconds that the server says it took."""
        headers = {"Authorization": f"Bearer {self.api_key}", "Content-Type": "text/plain"}
        connection.request("POST", "/v1/quotes/model", body, headers)
        answer = connection.getresponse()
        content = answer.read()
        assert answer.status == http.HTTPStatus.CREATED, content[:300]
        return float(answer.headers["Server-Timing"].rpartition("dur=")[2])

    def cpu_seconds(self) -> float:
        """Give the processor time that the web processes have had."""
        return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in self._pids())

    def watch_memory(self) -> float:
        """Begin to watch for the highest memory of the web processes, and give the megabytes they have now."""
        for pid in self._pids():
            Path(f"/proc/{pid}/clear_refs").write_text("5")
        return sum(_megabytes(pid, "VmRSS") for pid in self._pids())

    def peak_megabytes(self) -> float:
        """Give the highest memory since it is watched."""
        return sum(_megabytes(pid, "VmHWM") for pid in self._pids())

    def _pids(self) -> list[int]:
        web = psutil.Process(self.web_pid)
        return [each.pid for each in (web, *web.children(recursive=True))]


def _megabytes(pid: int, name: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024


@contextmanager
def running_product(*, web_workers: int = 1) -> Iterator[Product]:
    """Run PostgreSQL and the web server until the block ends."""
    with running_site() as site, running_web(site, web_workers=web_workers) as product:
        yield product


@contextmanager
def running_site() -> Iterator[Site]:
    """Run PostgreSQL until the block ends."""
    database = SessionDatabase()
    with tempfile.TemporaryDirectory(prefix="lanehouse-bench-") as state_dir:
        try:
            dsn = database.server().app_dsn
            printed = manage("bootstrap_sample", database_url=dsn)
            with psycopg.connect(dsn, autocommit=True) as connection:
                # What is measured is the product, not a customer's limits.
                connection.execute(
                    "UPDATE accounts_organisation SET calls_per_minute = 1000000,"
                    " input_tokens_per_minute = 100000000000, accepts_per_minute = 1000000"
                )
            values = dict(line.split("=", 1) for line in printed.splitlines() if "=" in line)
            environment = {
                **os.environ,
                "DATABASE_URL": dsn,
                "LANEHOUSE_STATE_DIR": state_dir,
                "DJANGO_SETTINGS_MODULE": "config.settings.base",
                "LANEHOUSE_LOG_LEVEL": "WARNING",
                "LANEHOUSE_STORED_QUOTES_MAX_BYTES": str(10**12),
                # as the supervisor has it
                "MALLOC_ARENA_MAX": "1",
            }
            yield Site(environment=environment, api_key=values["LANEHOUSE_API_KEY"])
        finally:
            database.stop()


@contextmanager
def running_web(site: Site, *, web_workers: int = 1) -> Iterator[Product]:
    """Run the web server, freshly started, until the block ends."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    web = subprocess.Popen(  # noqa: S603 -- our own server
        [
            *(sys.executable, "-m", "config.web", "--port", str(port), "--workers", str(web_workers)),
        ],
        cwd=ROOT,
        env=site.environment,
    )
    try:
        product = Product(port=port, api_key=site.api_key, web_pid=web.pid)
        _wait(product)
        yield product
    finally:
        web.terminate()
        web.wait(20)


def _wait(product: Product) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            connection = product.client()
            connection.request("GET", "/healthz")
            if connection.getresponse().status == http.HTTPStatus.OK:
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
