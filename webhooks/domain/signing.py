"""Standard Webhooks 1.0.0 signatures (https://www.standardwebhooks.com)."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence

SECRET_BYTES = 32
_PREFIX = "whsec_"


def secret_text(key: bytes) -> str:
    """Give a key as it is shown to its owner: ``whsec_`` and Base64 of the standard alphabet, padded."""
    assert len(key) == SECRET_BYTES, "a webhook key has 32 bytes"
    return _PREFIX + base64.b64encode(key).decode()


def key_of(secret: str) -> bytes:
    """Give the key that a secret's text stands for: its decoded bytes, never the text."""
    assert secret.startswith(_PREFIX), "a webhook secret begins with whsec_"
    return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)


def signature_header(*, event_id: str, timestamp_seconds: int, payload: bytes, keys: Sequence[bytes]) -> str:
    """Give ``webhook-signature``: one entry for each key, newest first, joined by single spaces.

    Args:
        event_id: ``webhook-id``; it holds no full stop.
        timestamp_seconds: ``webhook-timestamp``, whole Unix seconds of this attempt.
        payload: the body exactly as it is sent.
        keys: the current key, then the previous one while it overlaps.
    """
    assert "." not in event_id, "a full stop would move the borders of what is signed"
    signed = f"{event_id}.{timestamp_seconds}.".encode() + payload
    return " ".join("v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode() for key in keys)


def is_signed(header: str, *, event_id: str, timestamp_seconds: int, payload: bytes, keys: Sequence[bytes]) -> bool:
    """Tell whether one of the entries of a ``webhook-signature`` was made with one of the keys, in constant time.

    Args:
        header: As it came; entries of other versions than ``v1`` are passed over.
        event_id: ``webhook-id``.
        timestamp_seconds: ``webhook-timestamp``; its age is the caller's to judge.
        payload: the body exactly as it came.
        keys: those that may have signed.
    """
    if "." in event_id:
        return False
    meant = signature_header(event_id=event_id, timestamp_seconds=timestamp_seconds, payload=payload, keys=keys)
    entries = [entry.encode() for entry in header.split()]
    return any(hmac.compare_digest(entry, each.encode()) for entry in entries for each in meant.split())
