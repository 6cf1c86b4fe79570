"""Database connections: how the pool sees that one is still good, statements that are prepared, and giving back."""

from __future__ import annotations

import select
import time
from typing import Any, Final

from django.db import connection
from django.db.backends.utils import CursorWrapper
from psycopg import Connection, Cursor

# A connection that was good so short ago is only looked at.
_TRUSTED_SECONDS: Final = 5.0


class PooledConnection(Connection[Any]):
    """A connection whose empty query, by which the pool checks it each time it gives it, mostly costs no round trip.

    A server that ends says so and closes: what stands there unread shows it. A network that swallows everything shows
    nothing; that is noticed by the round trip of a connection that has rested.
    """

    _good_at_seconds = -_TRUSTED_SECONDS

    def execute(self, query: Any, params: Any = None, **how: Any) -> Cursor[Any]:  # noqa: ANN401 -- as psycopg has it
        """Run a query; an empty one may stay unasked."""
        if query != "":
            return super().execute(query, params, **how)
        now_seconds = time.monotonic()
        if now_seconds - self._good_at_seconds < _TRUSTED_SECONDS and not self._has_something_to_say():
            return self.cursor()
        cursor = super().execute(query)
        self._good_at_seconds = now_seconds
        return cursor

    def _has_something_to_say(self) -> bool:
        poll = select.poll()
        poll.register(self.fileno(), select.POLLIN)
        return bool(poll.poll(0))


class _PreparingCursor(Cursor[Any]):
    """A cursor whose statements the server reads and plans once a connection."""

    def execute(self, query: Any, params: Any = None, **how: Any) -> _PreparingCursor:  # noqa: ANN401 -- as psycopg has it
        """Run a statement."""
        return super().execute(query, params, **{**how, "prepare": True})


def preparing_cursor() -> CursorWrapper:
    """Give Django's cursor for one of the few statements that every quote runs; all others are sent as text."""
    connection.ensure_connection()
    # As ``connection.cursor()`` does it, so that statements are counted and errors told alike.
    return connection._prepare_cursor(_PreparingCursor(connection.connection))  # type: ignore[attr-defined, no-any-return]  # noqa: SLF001


def give_back() -> None:
    """Give this thread's connection back to its pool; without a pool, or inside a transaction, it is kept.

    A thread that waits for a slow client would otherwise keep a connection from everybody else.
    """
    if connection.settings_dict["OPTIONS"].get("pool") and not connection.in_atomic_block:
        connection.close()
