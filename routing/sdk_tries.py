"""What an official SDK says of a call that it may make several times by itself, without an ``Idempotency-Key``.

A retry is the call that it repeats, and so is a first try that a retry overtook: one that was on its way already when
the retry made something. A program's next call is not, for it comes after the answer. The database decides, by its own
clock (``routing_keep_file``, ``routing_create_file_batch``).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

# An SDK that repeats a call by itself does so soon.
RETRIED_WITHIN: Final = timedelta(minutes=15)


@dataclass(frozen=True, slots=True, kw_only=True)
class SdkTry:
    """One try; ``started_ns`` is when it had come, by ``perf_counter_ns``."""

    is_retry: bool
    started_ns: int

    def running_for(self) -> timedelta:
        """Give how long it has been here."""
        return timedelta(microseconds=(time.perf_counter_ns() - self.started_ns) // 1_000)


def as_arguments(sdk_try: SdkTry | None) -> tuple[Any, ...]:
    """Give what functions of the database ask: whether it is a retry, how long it runs, how far back to look."""
    if sdk_try is None:
        return (False, None, RETRIED_WITHIN)
    return (sdk_try.is_retry, sdk_try.running_for(), RETRIED_WITHIN)
