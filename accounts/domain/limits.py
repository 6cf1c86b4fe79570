"""What an organisation may do in a minute: buckets that fill as time passes, seen at one instant.

A bucket is kept as the instant at which it will be full again: each unit that is taken moves it on by a minute's share.
So it fills by itself, may lie below zero, and needs no sweep. PostgreSQL decides who may take (one statement, exact
however many ask at once); what is here shows it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ground.errors import RateLimited

_MINUTE_US = 60_000_000
_MICROSECOND = timedelta(microseconds=1)


class BucketKind(enum.StrEnum):
    """What is counted; the words are those of OpenAI's headers."""

    REQUESTS = "requests"
    TOKENS = "tokens"
    ACCEPTS = "accepts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """A bucket of ``per_minute`` units that will be full in ``full_in_us`` microseconds."""

    kind: BucketKind
    per_minute: int
    full_in_us: int

    @classmethod
    def seen(cls, kind: BucketKind, per_minute: int, *, full_at: datetime, at: datetime) -> Bucket:
        """Give a bucket as it is at an instant."""
        return cls(kind=kind, per_minute=per_minute, full_in_us=max(0, (full_at - at) // _MICROSECOND))

    @property
    def remaining(self) -> int:
        """Give the whole units that are left, never below zero."""
        return max(0, (_MINUTE_US - self.full_in_us) * self.per_minute // _MINUTE_US)

    @property
    def wait_us(self) -> int:
        """Give after how many microseconds one more unit may be taken."""
        return max(0, self.full_in_us + _span_us(1, self.per_minute) - _MINUTE_US)

    def after(self, units: int) -> Bucket:
        """Give the bucket with so many units taken."""
        return replace(self, full_in_us=self.full_in_us + _span_us(units, self.per_minute))


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """Both buckets that a call meets, after it was counted; ``is_admitted`` says whether it was."""

    is_admitted: bool
    requests: Bucket
    tokens: Bucket

    def check(self) -> None:
        """Refuse a call that was not admitted.

        Raises:
            RateLimited: Names the bucket for which the wait is longest.
        """
        if not self.is_admitted:
            raise refusal(max(self.requests, self.tokens, key=lambda bucket: bucket.wait_us))


_WORDS = {
    BucketKind.REQUESTS: "The organisation may make {} calls a minute, and has made them.",
    BucketKind.TOKENS: "The organisation may have {} estimated input tokens priced a minute, and has had them.",
    BucketKind.ACCEPTS: "The organisation may accept {} quotes a minute, and has accepted them. Nothing was held.",
}


def refusal(bucket: Bucket) -> RateLimited:
    """Give the refusal of a bucket that has nothing left."""
    wait_ms = max(1, -(-bucket.wait_us // 1_000))
    said = _WORDS[bucket.kind].format(f"{bucket.per_minute:,}")
    return RateLimited(
        f"{said} Send the same again in {wait_ms / 1_000:.3f} s.",
        bucket=bucket.kind.value,
        per_minute=bucket.per_minute,
        wait_ms=wait_ms,
    )


def _span_us(units: int, per_minute: int) -> int:
    return units * _MINUTE_US // per_minute
