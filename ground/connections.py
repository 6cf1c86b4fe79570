"""Giving a database connection back while a thread waits for somebody outside."""

from __future__ import annotations

from django.db import connection


def give_back() -> None:
    """Give this thread's connection back to its pool; without a pool, or inside a transaction, it is kept.

    A thread that waits for a slow client would otherwise keep a connection from everybody else.
    """
    if connection.settings_dict["OPTIONS"].get("pool") and not connection.in_atomic_block:
        connection.close()
