"""One snapshot of the database for one file: a connection of its own, that reads and never writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections
from psycopg import Connection

ROWS_PER_FETCH = 10_000


@contextmanager
def snapshot() -> Iterator[Connection[Any]]:
    """Give a connection inside one read-only transaction: all its queries see the same moment.

    Apart from the thread's own connection, which keeps the lease meanwhile.
    """
    reader = connections.create_connection(DEFAULT_DB_ALIAS)
    try:
        reader.ensure_connection()
        raw: Connection[Any] = reader.connection
        with raw.transaction():
            raw.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield raw
    finally:
        reader.close()


def streamed(raw: Connection[Any], query: str, values: dict[str, Any]) -> Iterator[list[tuple[Any, ...]]]:
    """Give the rows of a query by a cursor on the server, in lists of bounded length."""
    with raw.cursor(name="export") as cursor:
        cursor.execute(query, values)
        while rows := cursor.fetchmany(ROWS_PER_FETCH):
            yield rows
