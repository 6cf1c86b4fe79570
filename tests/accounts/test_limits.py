"""Buckets at one instant, and how their headers are written."""

from __future__ import annotations

import pytest

from accounts.domain.limits import Bucket, BucketKind, CallLimits
from config.limits import duration_text
from ground.errors import RateLimited


def bucket(kind: BucketKind, per_minute: int, *, taken: int = 0) -> Bucket:
    return Bucket(kind=kind, per_minute=per_minute, full_in_us=0).after(taken)


def test_each_call_of_600_a_minute_costs_a_tenth_of_a_second() -> None:
    one = bucket(BucketKind.REQUESTS, 600, taken=1)
    assert (one.remaining, one.full_in_us, one.wait_us) == (599, 100_000, 0)


def test_an_empty_bucket_has_one_left_after_its_share_of_the_minute() -> None:
    empty = bucket(BucketKind.REQUESTS, 600, taken=600)
    assert (empty.remaining, empty.full_in_us, empty.wait_us) == (0, 60_000_000, 100_000)


@pytest.mark.parametrize("per_minute", [7, 37, 59, 599])
def test_a_limit_that_divides_no_minute_is_kept_exactly(per_minute: int) -> None:
    taken = [bucket(BucketKind.REQUESTS, per_minute, taken=count).remaining for count in range(per_minute + 1)]
    assert taken == list(range(per_minute, -1, -1))


def test_a_bucket_of_tokens_may_lie_below_zero() -> None:
    # 75 million of 50: 90 s until it is full, 30 until it is above zero.
    overdrawn = bucket(BucketKind.TOKENS, 50_000_000, taken=75_000_000)
    assert (overdrawn.remaining, overdrawn.full_in_us, overdrawn.wait_us) == (0, 90_000_000, 30_000_001)


def test_a_refusal_names_the_bucket_with_the_longest_wait() -> None:
    limits = CallLimits(
        is_admitted=False,
        requests=bucket(BucketKind.REQUESTS, 600, taken=600),
        tokens=bucket(BucketKind.TOKENS, 1_000, taken=3_000),
    )
    with pytest.raises(RateLimited) as refused:
        limits.check()
    # 3,000 of 1,000 a minute: two minutes until it stands at zero, and 60 ms for one token.
    assert (refused.value.bucket, refused.value.per_minute, refused.value.wait_ms) == ("tokens", 1_000, 120_060)
    assert refused.value.retry_after_seconds == 121


@pytest.mark.parametrize(
    ("span_ms", "text"),
    [
        *((0, "0s"), (1, "1ms"), (120, "120ms"), (1_000, "1s"), (1_500, "1.5s"), (59_999, "59.999s")),
        *((60_000, "1m0s"), (360_000, "6m0s"), (90_250, "1m30.25s"), (3_600_000, "1h0m0s"), (7_261_000, "2h1m1s")),
    ],
)
def test_a_span_is_written_as_openai_does(span_ms: int, text: str) -> None:
    assert duration_text(span_ms) == text
