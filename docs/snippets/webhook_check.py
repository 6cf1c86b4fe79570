"""Check that a delivery is from Lanehouse: Standard Webhooks, with the standard library alone."""

import base64
import hashlib
import hmac
import time

TOLERANCE_SECONDS = 300


def is_ours(headers, body, secret):
    """headers: by lower-case name; body: the bytes as they came, before any parsing; secret: whsec_..."""
    event_id = headers["webhook-id"]
    timestamp = headers["webhook-timestamp"]
    if abs(time.time() - int(timestamp)) > TOLERANCE_SECONDS:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{event_id}.{timestamp}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    # While a secret is being rotated there are two signatures; one that fits is enough.
    return any(hmac.compare_digest(expected, each) for each in headers["webhook-signature"].split())
