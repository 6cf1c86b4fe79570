"""A PostgreSQL for the session, a migrated template, and a clone for each test process."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from config.embedded_postgres import EmbeddedPostgres

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = "lanehouse"


@dataclass(frozen=True, slots=True, kw_only=True)
class TestServer:
    """Where the session's server is; plain text, so that it can be handed to other processes."""

    __test__ = False
    superuser_dsn: str
    owner_dsn: str
    app_dsn: str
    broker_dsn: str

    def as_plain(self) -> dict[str, str]:
        """Give the values as they travel to a worker process."""
        return asdict(self)

    def of(self, database: str) -> TestServer:
        """Give the same addresses for another database of the server."""
        return TestServer(**{name: replace_database(dsn, database) for name, dsn in self.as_plain().items()})


def replace_database(dsn: str, database: str) -> str:
    """Give a database address (``postgresql://...``) with another database's name."""
    start, _, tail = dsn.rpartition("/")
    _, mark, query = tail.partition("?")
    return f"{start}/{database}{mark}{query}"


class SessionDatabase:
    """Starts the server, makes the template once, and stops the server at the end.

    Args:
        durable: Writes are flushed.
        for_tests: The database has what only tests need, a clock that they can set among it; that one costs each
            ``lanehouse_now()`` a read, so measurements of statements leave it out.
    """

    def __init__(self, *, durable: bool = False, for_tests: bool = True) -> None:
        self._for_tests = for_tests
        self._folder = tempfile.TemporaryDirectory(prefix="lanehouse-tests-", ignore_cleanup_errors=True)
        self._postgres = EmbeddedPostgres(Path(self._folder.name) / "postgres", durable=durable)
        self._server: TestServer | None = None

    def server(self) -> TestServer:
        """Give the running server, started and migrated at the first call."""
        if self._server is None:
            self._postgres.start()
            server = TestServer(
                superuser_dsn=replace_database(self._postgres.superuser_dsn, TEMPLATE),
                owner_dsn=self._postgres.dsn("lanehouse_owner", TEMPLATE),
                app_dsn=self._postgres.dsn("lanehouse_app", TEMPLATE),
                broker_dsn=self._postgres.dsn("lanehouse_broker", TEMPLATE),
            )
            _make_template(server, for_tests=self._for_tests)
            self._server = server
        return self._server

    def stop(self) -> None:
        """Stop the server and remove its files."""
        if self._server is not None:
            self._postgres.destroy()
            self._server = None
        self._folder.cleanup()


def _make_template(server: TestServer, *, for_tests: bool) -> None:
    for command in (["migrate", "-v", "0"], ["load_catalog"]):
        manage(*command, database_url=server.owner_dsn)
    if not for_tests:
        return
    with psycopg.connect(server.superuser_dsn, autocommit=True) as connection:
        connection.execute((Path(__file__).parent / "harness.sql").read_bytes())
        connection.execute("SELECT harness.snapshot()")


def manage(*arguments: str, database_url: str, **environment: str) -> str:
    """Run a management command in a process of its own and give what it printed.

    Raises:
        RuntimeError: The command failed; the message holds its output.
    """
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "config.settings.test",
            "DATABASE_URL": database_url,
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"manage.py {' '.join(arguments)} failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def clone_template(server: TestServer, database: str) -> TestServer:
    """Make a database like the template for one test process."""
    maintenance = replace_database(server.superuser_dsn, "postgres")
    with psycopg.connect(maintenance, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(database)))
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER lanehouse_owner STRATEGY FILE_COPY").format(
                sql.Identifier(database), sql.Identifier(TEMPLATE)
            )
        )
    return server.of(database)


def point_django_at(dsn: str) -> None:
    """Make this process's Django use the database at ``dsn``, as the application role."""
    import dj_database_url
    from django.db import connections

    parsed: dict[str, Any] = dict(dj_database_url.parse(dsn))
    for name in ("NAME", "USER", "PASSWORD", "HOST", "PORT"):
        connections.settings["default"][name] = parsed[name]
    for alias in connections:
        connections[alias].close()
        connections[alias].settings_dict.update(connections.settings["default"])
