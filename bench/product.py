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

import psycopg

from tests.harness.database import ROOT, SessionDatabase, manage

_START_SECONDS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A running web server, the process that leads it, and a key for it."""

    port: int
    api_key: str
    web_pid: int

    def client(self) -> http.client.HTTPConnection:
        """Give a connection that is kept open, as clients keep theirs."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)


@contextmanager
def running_product(*, web_workers: int = 1) -> Iterator[Product]:
    """Run PostgreSQL and granian until the block ends."""
    database = SessionDatabase()
    with tempfile.TemporaryDirectory(prefix="lanehouse-bench-") as state_dir, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        try:
            server = database.server()
            environment = {
                **os.environ,
                "DATABASE_URL": server.app_dsn,
                "LANEHOUSE_STATE_DIR": state_dir,
                "DJANGO_SETTINGS_MODULE": "config.settings.base",
                "LANEHOUSE_LOG_LEVEL": "WARNING",
            }
            printed = manage("bootstrap_sample", database_url=server.app_dsn)
            with psycopg.connect(server.app_dsn, autocommit=True) as connection:
                # What is measured is the product, not a customer's limits.
                connection.execute(
                    "UPDATE accounts_organisation SET calls_per_minute = 1000000,"
                    " input_tokens_per_minute = 100000000000, accepts_per_minute = 1000000"
                )
            values = dict(line.split("=", 1) for line in printed.splitlines() if "=" in line)
            web = subprocess.Popen(  # noqa: S603 -- our own server
                [
                    *(sys.executable, "-m", "granian", "--interface", "wsgi", "--host", "127.0.0.1"),
                    *("--port", str(port), "--workers", str(web_workers), "--http", "1", "--no-ws"),
                    *("--blocking-threads", "64", "--log-level", "warning", "config.wsgi:application"),
                ],
                cwd=ROOT,
                env=environment,
            )
            try:
                product = Product(port=port, api_key=values["LANEHOUSE_API_KEY"], web_pid=web.pid)
                _wait(product)
                yield product
            finally:
                web.terminate()
                web.wait(20)
        finally:
            database.stop()


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
