from __future__ import annotations

import psycopg

from tests.harness.database import TestServer, clone_template, manage


def test_the_migrations_go_back_and_forth(test_server: TestServer) -> None:
    copy = clone_template(test_server, "webhooks_back_and_forth")
    manage("migrate", "webhooks", "zero", "-v", "0", database_url=copy.owner_dsn)
    with psycopg.connect(copy.owner_dsn) as connection:
        left = connection.execute("SELECT relname FROM pg_class WHERE relname LIKE 'webhooks%'").fetchall()
    assert left == []
    manage("migrate", "webhooks", "-v", "0", database_url=copy.owner_dsn)
    with psycopg.connect(copy.app_dsn) as connection:
        assert connection.execute("SELECT count(*) FROM webhooks_deliveryattempt").fetchone() == (0,)
