"""Calling the SQL functions beside the migrations: one round trip each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import connection


def call_set(function: str, arguments: Sequence[Any], casts: str) -> list[tuple[Any, ...]]:
    """Call a function of ours and give its rows; ``casts`` are the arguments' SQL types, in order."""
    placeholders = ", ".join(f"%s::{cast}" for cast in casts.split())
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {function}({placeholders})", arguments)  # noqa: S608 -- names of our own
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def call(function: str, arguments: Sequence[Any], casts: str) -> tuple[Any, ...]:
    """Call a function that answers with exactly one row."""
    (row,) = call_set(function, arguments, casts)
    return row
