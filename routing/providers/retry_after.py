"""How long a provider asks us to wait."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import ceil, isfinite

MAXIMUM_RETRY_AFTER_SECONDS = 86_400


def retry_after_seconds(headers: Mapping[str, str], *, at: datetime) -> int | None:
    """Give the wait an answer asks for in whole seconds, rounded up, from 0 to a day; None where it asks for none.

    Args:
        headers: The answer's headers, with lower-case names.
        at: Now, for a ``retry-after`` that is a date.
    """
    value = headers.get("retry-after-ms")
    try:
        seconds = float(value) / 1_000 if value is not None else _wait(headers.get("retry-after", ""), at)
    except ValueError:
        return None
    return min(max(0, ceil(seconds)), MAXIMUM_RETRY_AFTER_SECONDS) if isfinite(seconds) else None


def _wait(value: str, at: datetime) -> float:
    """Read a ``retry-after`` header: seconds, or a date."""
    try:
        return float(value)
    except ValueError:
        date = parsedate_to_datetime(value)
        return ((date if date.tzinfo else date.replace(tzinfo=UTC)) - at).total_seconds()
