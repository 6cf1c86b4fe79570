"""When each part of the running product was last heard of: one row a part, written by the part itself."""

from __future__ import annotations

from datetime import datetime

from django.db import connection

PARTS = ("worker", "deliveries", "beat")


def beat(part: str) -> None:
    """Say that a part is alive, by the database's clock."""
    assert part in PARTS, part
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO ground_heartbeat (part, heard_at) VALUES (%s, lanehouse_now())"
            " ON CONFLICT (part) DO UPDATE SET heard_at = EXCLUDED.heard_at",
            [part],
        )


def heard_at() -> dict[str, datetime]:
    """Give when each part was last heard of."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT part, heard_at FROM ground_heartbeat")
        return dict(cursor.fetchall())
