"""The ``x-ratelimit-*`` headers, as OpenAI has them.

After a call that was admitted, ``reset`` says when the bucket will be full again. Of a bucket that refused one it says
the whole wait until the call would be admitted, which ``Retry-After`` cuts off below a minute.
"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase

from accounts.domain.limits import CallLimits
from ground.errors import RateLimited
from routing.api.answers import LIMITS


def say_limits(response: HttpResponseBase, request: HttpRequest) -> None:
    """Put both buckets of a call's organisation into its answer; nothing where the caller is not known."""
    limits: CallLimits | None = request.META.get(LIMITS)
    if limits is None:
        return
    for bucket in (limits.requests, limits.tokens):
        _say(response, bucket.kind.value, bucket.per_minute, bucket.remaining, -(-bucket.full_in_us // 1_000))


def say_refused(response: HttpResponseBase, refused: RateLimited) -> None:
    """Put the bucket that refused a call into the answer, with the whole wait."""
    _say(response, refused.bucket, refused.per_minute, 0, refused.wait_ms)


def _say(response: HttpResponseBase, bucket: str, per_minute: int, remaining: int, reset_ms: int) -> None:
    response.headers.setdefault(f"x-ratelimit-limit-{bucket}", str(per_minute))
    response.headers.setdefault(f"x-ratelimit-remaining-{bucket}", str(remaining))
    response.headers.setdefault(f"x-ratelimit-reset-{bucket}", duration_text(reset_ms))


def duration_text(duration_ms: int) -> str:
    """Write a span as OpenAI does: ``120ms``, ``1s``, ``1.5s``, ``6m0s``, ``1h0m0s``."""
    if 0 < duration_ms < 1_000:  # noqa: PLR2004 -- a second
        return f"{duration_ms}ms"
    seconds, milliseconds = divmod(duration_ms, 1_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{milliseconds:03}".rstrip("0") if milliseconds else ""
    tail = f"{seconds}{fraction}s"
    if hours:
        return f"{hours}h{minutes}m{tail}"
    return f"{minutes}m{tail}" if minutes else tail
