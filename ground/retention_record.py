"""The record of the retention clock: what its sweeps removed, by kind and day (UTC).

A sweep adds to it in the transaction that marks or removes its rows, so a sweep that is killed and done again counts
what it removed once. A turn that finds nothing is a turn of the clock too.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum

from django.db import connection


class Kept(StrEnum):
    """What is kept for a time only."""

    FILES = "files"
    PAYLOADS = "payloads"
    BATCHES = "batches"
    EXPORTS = "exports"
    KEPT_CALLS = "kept_calls"
    SESSIONS = "sessions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """What was removed of a kind since a day; ``size_bytes`` is None where their number is not known."""

    kind: Kept
    count: int
    size_bytes: int | None
    last_ran_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedOnDay:
    """What was removed of a kind on one day, UTC."""

    kind: Kept
    day: date
    count: int
    size_bytes: int | None


def add(kind: Kept, count: int, *, size_bytes: int | None = None) -> None:
    """Add what a turn removed to its day, by the database's clock; to be called in the transaction of the removal."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO ground_retention_day AS kept (kind, day, removed_count, removed_bytes, ran_at)
            VALUES (%s, (lanehouse_now() AT TIME ZONE 'UTC')::date, %s, %s, lanehouse_now())
            ON CONFLICT (kind, day) DO UPDATE SET removed_count = kept.removed_count + EXCLUDED.removed_count,
                removed_bytes = kept.removed_bytes + EXCLUDED.removed_bytes,
                ran_at = greatest(kept.ran_at, EXCLUDED.ran_at)
            """,
            [kind, count, size_bytes],
        )


def removed_by_day(at: datetime, days: int) -> list[RemovedOnDay]:
    """Give what was removed in the last days, the latest day first; days without removals are left out."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT kind, day, removed_count, removed_bytes FROM ground_retention_day"
            " WHERE day > %s AND removed_count > 0 ORDER BY day DESC, kind",
            [_day_before(at, days)],
        )
        return [
            RemovedOnDay(kind=Kept(kind), day=day, count=count, size_bytes=_whole(size))
            for kind, day, count, size in cursor.fetchall()
        ]


def removed_in_all(at: datetime, days: int) -> dict[Kept, Removed]:
    """Give, by kind, what was removed in the last days, and when its sweep last ran."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT kind, coalesce(sum(removed_count) FILTER (WHERE day > %(since)s), 0),
                sum(removed_bytes) FILTER (WHERE day > %(since)s), max(ran_at)
            FROM ground_retention_day GROUP BY kind
            """,
            {"since": _day_before(at, days)},
        )
        return {
            Kept(kind): Removed(kind=Kept(kind), count=int(count), size_bytes=_whole(size), last_ran_at=ran_at)
            for kind, count, size, ran_at in cursor.fetchall()
        }


def _day_before(at: datetime, days: int) -> date:
    return at.date() - timedelta(days=days)


def _whole(size: object) -> int | None:
    return None if size is None else int(str(size))
