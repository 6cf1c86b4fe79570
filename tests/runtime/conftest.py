from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import ground.wake
from config.settings.base import broker_options
from tests.harness.database import TestServer


@pytest.fixture
def broker(db: None, test_server: TestServer, settings: Any) -> Iterator[psycopg.Connection]:
    """The queues of the test database, empty, with the product pointed at them."""
    settings.CELERY_BROKER_URL = test_server.broker_dsn.replace("postgresql:", "pgmq:", 1)
    settings.CELERY_BROKER_TRANSPORT_OPTIONS = broker_options(settings.CELERY_BROKER_URL)
    with psycopg.connect(test_server.broker_dsn, autocommit=True) as connection:
        for queue in ("engine", "deliveries"):
            connection.execute("SELECT pgmq.purge_queue(%s)", [queue])
        yield connection
        ground.wake.drain(seconds=5)
