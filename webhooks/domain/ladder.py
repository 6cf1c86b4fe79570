"""When a delivery is tried again."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

# After the first failure, the second, ...; there is no attempt after the seventh failure.
DELAYS_SECONDS = (30, 120, 600, 3_600, 21_600, 86_400)
ATTEMPTS_MAX_COUNT = len(DELAYS_SECONDS) + 1
RETRY_AFTER_MAX_SECONDS = 86_400
_JITTER_PPM = 100_000
_PPM = 1_000_000
_SECONDS = re.compile(r"[0-9]{1,18}")


def next_attempt_at(
    *, failed_at: datetime, failure_count: int, delivery_id: str, retry_after_seconds: int | None = None
) -> datetime | None:
    """Give when the next attempt is due, or None when the ladder is used up.

    Each delay counts from the failure before it and is moved by up to a tenth, so that what failed together does not
    come back together; the move follows from the delivery's id and is the same whoever computes it. A receiver that
    asks for more time gets it, up to 24 h; one that asks for less does not get more knocks.

    Args:
        failed_at: when the attempt failed (aware).
        failure_count: how many steps are used, this failure included, from 1.
        delivery_id: the delivery's public id.
        retry_after_seconds: what the receiver asked for.
    """
    assert failure_count >= 1, "there is no next attempt before a failure"
    if failure_count >= ATTEMPTS_MAX_COUNT:
        return None
    step_seconds = DELAYS_SECONDS[failure_count - 1]
    delay = timedelta(microseconds=step_seconds * (_PPM + _jitter_ppm(delivery_id, failure_count)))
    asked = timedelta(seconds=min(retry_after_seconds or 0, RETRY_AFTER_MAX_SECONDS))
    return failed_at + max(delay, asked)


def retry_after_seconds(text: str, at: datetime) -> int | None:
    """Read ``Retry-After``, seconds or an HTTP date, as whole seconds from ``at``; None where it is not usable."""
    text = text.strip()
    if _SECONDS.fullmatch(text):
        return min(int(text), RETRY_AFTER_MAX_SECONDS)
    try:
        asked_at = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if asked_at.tzinfo is None:
        asked_at = asked_at.replace(tzinfo=UTC)
    seconds = -((at - asked_at) // timedelta(seconds=1))
    return min(seconds, RETRY_AFTER_MAX_SECONDS) if seconds > 0 else None


def _jitter_ppm(delivery_id: str, failure_count: int) -> int:
    """Give a number from -100,000 to 100,000, spread evenly over ids and steps."""
    digest = hashlib.blake2b(f"{delivery_id}.{failure_count}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) % (2 * _JITTER_PPM + 1) - _JITTER_PPM
