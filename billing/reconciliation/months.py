"""Months as addresses, forms and programs write them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Final

FIRST: Final = date(2015, 1, 1)
LAST: Final = date(2100, 12, 1)


def month_of(text: str) -> date:
    """Give the first day of a month written as ``2026-10``.

    Raises:
        ValueError: It is no month, or none of our time.
    """
    month = datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC).date()
    if not FIRST <= month <= LAST:
        raise ValueError("no month of our time")
    return month
