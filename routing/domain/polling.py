"""When a provider is asked how a job is doing: rarely at first, often near the end that its like came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# Between the first and the last end that are likely, so many looks; without experience, so many in a job's age.
_LOOKS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long a provider took for jobs of about this size: one in ten was quicker, one in ten slower."""

    early_seconds: float
    late_seconds: float


def poll_wait_seconds(age_seconds: float, pace: Pace | None, *, least: float, most: float) -> float:
    """Give how long to wait before a job is asked about again.

    Before the early end the way there is halved each time; until the late one there are twenty looks; after it they
    become rare again. Where nothing is known it is a twentieth of the job's age.

    Args:
        age_seconds: Since it was sent.
        pace: What was learned, or None.
        least: The shortest wait.
        most: The longest.
    """
    if pace is None:
        wanted = age_seconds / _LOOKS
    elif age_seconds < pace.early_seconds:
        wanted = (pace.early_seconds - age_seconds) / 2
    else:
        overdue_seconds = max(0.0, age_seconds - pace.late_seconds)
        wanted = (pace.late_seconds - pace.early_seconds + overdue_seconds) / _LOOKS
    return min(most, max(least, wanted))
