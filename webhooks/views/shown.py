"""What the pages say of endpoints, deliveries and attempts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

import orjson
from django.conf import settings

from webhooks.domain.outcomes import Reason
from webhooks.domain.records import Outcome
from webhooks.models import Delivery, DeliveryAttempt, DeliveryState, Endpoint, EndpointState

_SOON = timedelta(minutes=1)
_SOON_MS, _LATER_MS = 2_000, 15_000
_OUTCOMES = {
    Outcome.DELIVERED: "Delivered",
    Outcome.HTTP_3XX: "Redirect, not followed",
    Outcome.HTTP_4XX: "Refused by the receiver",
    Outcome.HTTP_429: "Receiver asks for time",
    Outcome.HTTP_5XX: "Receiver failed",
    Outcome.TIMEOUT: "No answer in time",
    Outcome.DNS: "Name not resolved",
    Outcome.CONNECT: "No connection",
    Outcome.TLS: "TLS failed",
    Outcome.PROTOCOL: "Not an HTTP answer",
    Outcome.BLOCKED: "Address not allowed",
    Outcome.UNKNOWN: "Sender interrupted",
}
_REASONS = {
    Reason.REDIRECTED: "The receiver answered with a redirect, which is not followed. Give the endpoint its final URL.",
    Reason.GONE: "The receiver answered 410 Gone, which switched the endpoint off.",
    Reason.ADDRESS_NOT_ALLOWED: "The host leads to an address that is not allowed. The endpoint was switched off.",
    Reason.ATTEMPTS_USED_UP: "All attempts failed. Send it again when the receiver is well.",
    Reason.ENDPOINT_DELETED: "The endpoint was deleted before it arrived.",
}
_TRIGGERS = {"auto": "", "manual": "sent again by hand", "test": "test"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Badge:
    """A state's tone and word."""

    tone: str
    word: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointRow:
    """A line of the list of endpoints."""

    endpoint: Endpoint
    badge: Badge
    counts: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRow:
    """A line of a list of deliveries."""

    delivery: Delivery
    badge: Badge
    host: str
    last_answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """One attempt as the page of its delivery tells it."""

    attempt: DeliveryAttempt
    badge: Badge
    trigger: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """``version`` names all that the region shows; ``every_ms`` is None when nothing is about to happen."""

    version: str
    every_ms: int | None


def endpoint_badge(endpoint: Endpoint) -> Badge:
    """Give an endpoint's state; one that is on and fails has a word of its own."""
    if endpoint.state == EndpointState.DELETED:
        return Badge(tone="off", word="Deleted")
    if endpoint.state == EndpointState.DISABLED:
        return Badge(tone="off", word="Disabled")
    return Badge(tone="warn", word="Failing") if endpoint.failure_streak_count else Badge(tone="ok", word="Enabled")


def endpoint_title(endpoint: Endpoint) -> str:
    """Give what a person calls an endpoint: its description, else its host."""
    return endpoint.name or urlsplit(endpoint.url).netloc


def delivery_badge(delivery: Delivery) -> Badge:
    """Give a delivery's state; one that has failed and is tried again has a word of its own."""
    if delivery.state == DeliveryState.PENDING:
        return Badge(tone="warn", word="Retrying") if delivery.failure_count else Badge(tone="run", word="Pending")
    return {
        DeliveryState.DELIVERED: Badge(tone="ok", word="Delivered"),
        DeliveryState.FAILED: Badge(tone="bad", word="Gave up"),
        DeliveryState.ENDED: Badge(tone="off", word="Ended"),
    }[DeliveryState(delivery.state)]


def reason_words(delivery: Delivery) -> str:
    """Give why a delivery is over without having arrived; nothing otherwise."""
    return _REASONS[Reason(delivery.state_reason)] if delivery.state_reason else ""


def delivery_row(delivery: Delivery) -> DeliveryRow:
    """Give a line of a list."""
    words = _OUTCOMES[Outcome(delivery.last_outcome)] if delivery.last_outcome else ""
    return DeliveryRow(
        delivery=delivery,
        badge=delivery_badge(delivery),
        host=urlsplit(delivery.endpoint.url).netloc,
        last_answer=str(delivery.last_status_code or words),
    )


def attempt_row(attempt: DeliveryAttempt) -> AttemptRow:
    """Give an attempt's words."""
    outcome = Outcome(attempt.outcome)
    tone = {Outcome.DELIVERED: "ok", Outcome.UNKNOWN: "warn"}.get(outcome, "bad")
    trigger = _TRIGGERS[attempt.trigger]
    if attempt.requested_by:
        trigger = f"{trigger} ({attempt.requested_by})"
    return AttemptRow(attempt=attempt, badge=Badge(tone=tone, word=_OUTCOMES[outcome]), trigger=trigger)


def readable(payload: bytes) -> str:
    """Give JSON laid out for reading; anything else as it is."""
    try:
        return orjson.dumps(orjson.loads(payload), option=orjson.OPT_INDENT_2).decode()
    except orjson.JSONDecodeError:
        return payload.decode("utf-8", "replace")


def poll_of(deliveries: Sequence[Delivery], at: datetime, *shown: object) -> Poll:
    """Give what a region that shows these deliveries polls with: often while one is about to be sent."""
    due = [
        delivery.due_at
        for delivery in deliveries
        if delivery.due_at is not None and delivery.endpoint.state == EndpointState.ENABLED
    ]
    every_ms = None
    if due:
        every_ms = settings.PAGE_POLL_MILLISECONDS or (_SOON_MS if min(due) - at < _SOON else _LATER_MS)
    state = [
        (delivery.pk, delivery.state, delivery.attempt_count, delivery.due_at, delivery.resend_requested_at)
        for delivery in deliveries
    ]
    version = hashlib.blake2b(repr((every_ms, state, shown)).encode(), digest_size=8).hexdigest()
    return Poll(version=version, every_ms=every_ms)
