"""Buckets of time in a zone: whole days and hours as its clocks show them, cut at the ends of a range.

Pure. Borders are instants in UTC, so a day may have 23 or 25 hours and begins where that zone's clocks say midnight.
Since 1972 every zone is a multiple of fifteen minutes from UTC, so its borders are borders of quarters of an hour.
"""

from __future__ import annotations

import enum
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

QUARTER = timedelta(minutes=15)
_HOUR = timedelta(hours=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class BucketWidth(enum.StrEnum):
    """How long a bucket is."""

    QUARTER_HOUR = "15m"
    HOUR = "1h"
    DAY = "1d"


def quarter_before(at: datetime) -> datetime:
    """Give the last border of a quarter of an hour at or before an instant."""
    return at - (at - _EPOCH) % QUARTER


def quarter_after(at: datetime) -> datetime:
    """Give the first border of a quarter of an hour at or after an instant."""
    return at + (_EPOCH - at) % QUARTER


def day_starts_at(day: date, zone: ZoneInfo) -> datetime:
    """Give the instant at which a day begins in a zone, in UTC; the first midnight where a day has two."""
    return datetime.combine(day, time(), zone).astimezone(UTC)


def borders(since: datetime, until: datetime, width: BucketWidth, zone: ZoneInfo) -> tuple[datetime, ...]:
    """Give the borders of the buckets from ``since`` up to ``until``, both among them: one more than there are buckets.

    Args:
        since: Where the first bucket begins, in UTC, on a quarter of an hour.
        until: Where the last one ends; not before ``since``.
        width: How long a bucket is; the first and the last are cut at the range's ends.
        zone: Whose hours and days they are.
    """
    found = [since]
    while (border := _next_border(found[-1], width, zone)) < until:
        found.append(border)
    return (*found, until) if until > since else (since,)


def _next_border(at: datetime, width: BucketWidth, zone: ZoneInfo) -> datetime:
    if width is BucketWidth.QUARTER_HOUR:
        return at + QUARTER
    local = at.astimezone(zone)
    if width is BucketWidth.HOUR:
        return at + _HOUR - timedelta(minutes=local.minute)
    return day_starts_at(local.date() + timedelta(days=1), zone)
