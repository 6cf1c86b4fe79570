"""The words and records that sending is told in."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

# A body that every receiver takes; what is longer is split, or names where to read it.
PAYLOAD_MAX_BYTES = 20_000


class Trigger(StrEnum):
    """Why an attempt was made: its delivery was due, a person asked for it again, or it is a test."""

    AUTO = "auto"
    MANUAL = "manual"
    TEST = "test"


class Outcome(StrEnum):
    """How an attempt ended; the values are the ``result`` of ``webhook.delivery.attempts``."""

    DELIVERED = "delivered"
    HTTP_3XX = "http_3xx"
    HTTP_4XX = "http_4xx"
    HTTP_429 = "http_429"
    HTTP_5XX = "http_5xx"
    TIMEOUT = "timeout"
    DNS = "dns"
    CONNECT = "connect"
    TLS = "tls"
    PROTOCOL = "protocol"
    # The name leads to an address that is not allowed; nothing was connected to.
    BLOCKED = "blocked"
    # The sender ended between its claim and its record: the receiver may have had the event.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """What a sender needs to know of one delivery; ``keys`` sign it, newest first."""

    url: str
    event_id: str
    payload: bytes = field(repr=False)
    keys: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one attempt met: an answer's head and the beginning of its body, or what went wrong before it.

    ``failure`` is None exactly when ``status_code`` is not. Texts are safe to store and to show as text.
    """

    started_at: datetime
    duration_ms: int
    status_code: int | None = None
    headers: tuple[tuple[str, str], ...] = ()
    body: str = ""
    failure: Outcome | None = None
    # One sentence for the receiver's people; never an address.
    detail: str = ""
    # What was connected to; empty before that.
    address: str = ""

    def header(self, name: str) -> str:
        """Give the first value of a header (lower case), or nothing."""
        return next((value for key, value in self.headers if key.lower() == name), "")
