"""Fixtures that every test may ask for. ``db`` gives a clean database with really committed transactions."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.db import connections

from tests.harness.clock import Clock
from tests.harness.database import SessionDatabase, TestServer, clone_template, point_django_at

_session_database = pytest.StashKey[SessionDatabase]()


def pytest_configure(config: pytest.Config) -> None:
    """The process that leads the session owns the server; workers are told where it is."""
    if not hasattr(config, "workerinput"):
        config.stash[_session_database] = SessionDatabase()


class _TellsWorkers:
    """Hooks that only pytest-xdist knows."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["test_server"] = node.config.stash[_session_database].server().as_plain()


def pytest_plugin_registered(plugin: object, manager: pytest.PytestPluginManager) -> None:
    if type(plugin).__name__ == "DSession" and not manager.has_plugin("tells-workers"):
        manager.register(_TellsWorkers(), "tells-workers")


def pytest_unconfigure(config: pytest.Config) -> None:
    database = config.stash.get(_session_database, None)
    if database is not None:
        database.stop()


@pytest.fixture(scope="session")
def test_server(request: pytest.FixtureRequest) -> TestServer:
    """The session's server, with this process's own database."""
    config = request.config
    if hasattr(config, "workerinput"):
        server = TestServer(**config.workerinput["test_server"])
        return clone_template(server, f"test_{config.workerinput['workerid']}")
    return clone_template(config.stash[_session_database].server(), "test_main")


@pytest.fixture(scope="session")
def superuser_connection(test_server: TestServer) -> Iterator[psycopg.Connection]:
    """The harness's own connection; tests use it only to attack what even the owner may not do."""
    point_django_at(test_server.app_dsn)
    with psycopg.connect(test_server.superuser_dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture
def db(superuser_connection: psycopg.Connection, django_db_blocker: Any) -> Iterator[None]:
    """A clean database, used as the application role; every transaction really commits."""
    superuser_connection.execute("SELECT harness.reset()")
    shutil.rmtree(settings.STATE_DIR / "blobs", ignore_errors=True)
    with django_db_blocker.unblock():
        yield
        for connection in connections.all(initialized_only=True):
            connection.close()


@pytest.fixture
def transactional_db(db: None) -> None:
    """What pytest-django's live server asks for; every test's database is transactional here."""


@pytest.fixture
def clock(db: None, superuser_connection: psycopg.Connection) -> Iterator[Clock]:
    """The clock that SQL and Python share."""
    clock = Clock(superuser_connection)
    yield clock
    clock.restore()


@pytest.fixture
def owner_cursor(db: None, test_server: TestServer) -> Iterator[psycopg.Cursor]:
    """A cursor of the migrating role, for attacks with raw SQL."""
    with psycopg.connect(test_server.owner_dsn, autocommit=True) as connection, connection.cursor() as cursor:
        yield cursor


@pytest.fixture
def app_cursor(db: None, test_server: TestServer) -> Iterator[psycopg.Cursor]:
    """A cursor of the application role, for attacks with raw SQL."""
    with psycopg.connect(test_server.app_dsn, autocommit=True) as connection, connection.cursor() as cursor:
        yield cursor
