"""The worked example of Standard Webhooks, and vectors of public test suites."""

from __future__ import annotations

import base64
import hashlib

import pytest

from webhooks.domain.signing import key_of, secret_text, signature_header

NEW = "whsec_ExPMy4pQyWelL0w/tFMeivQ09H7D7B0yv8Cp9TkGlCY="
OLD = "whsec_b/H8xaZqnBWhNvMiWdztD1qzWk08Ym5c6xmiZnmzbXA="
EXAMPLE = (
    b'{"type":"batches.completed","timestamp":"2026-09-21T14:13:20Z","data":{"batches":[{"id":"batch_demo_1",'
    b'"status":"completed","lanes":[{"lane":"primary","requests":2},{"lane":"fallback","requests":1}]}]}}'
)
BY_NEW = "v1,KojWaH6ctsanIQpr/nasaCpy0uFEGvP8tf2KiFh6og0="
BY_OLD = "v1,K6aEs9AF8loV7W/8FFz2zilXzZHLLwVpVqU7LYfke2o="


def signed(payload: bytes, *secrets: str, event_id: str = "msg_demo0000000000000000001", at: int = 1790000000) -> str:
    keys = tuple(map(key_of, secrets))
    return signature_header(event_id=event_id, timestamp_seconds=at, payload=payload, keys=keys)


def test_the_worked_example() -> None:
    assert hashlib.sha256(EXAMPLE).hexdigest() == "3a3c3461e8df19fe1f29025132cf6347923988a2b7e85caed0fe331004ca28f3"
    assert signed(EXAMPLE, NEW) == BY_NEW
    assert signed(EXAMPLE, OLD) == BY_OLD


def test_while_two_keys_overlap_the_newest_signs_first_and_one_space_joins_them() -> None:
    assert signed(EXAMPLE, NEW, OLD) == f"{BY_NEW} {BY_OLD}"


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (b"{}", "v1,aBxSRcaLgeBYognMVxKCU3QSIYdtauuC4pjUFoR3k6Q="),
        ('{"name":"Größe ☃"}'.encode(), "v1,g4VBdNPG/LujmCK/efFo6Yjq/y7Lm1C6pbElFGzoWYU="),
        (rb'{"name":"Gr\u00f6\u00dfe \u2603"}', "v1,b+jYcJqTyJRUU7uciPFXl0Es6Pok9cXrsD2n5ssn0Kw="),
    ],
)
def test_the_bytes_are_signed_as_they_are(payload: bytes, expected: str) -> None:
    assert signed(payload, NEW) == expected


@pytest.mark.parametrize(
    ("secret", "event_id", "at", "payload", "expected"),
    [
        (
            *("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330),
            *(b'{"test": 2432232314}', "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
        ),
        (
            *("whsec_plJ3nmyCDGBKInavdOK15jsl", "msg_loFOjxBNrRLzqYUf", 1731705121),
            *(
                b'{"event_type":"ping","data":{"success":true}}',
                "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=",
            ),
        ),
    ],
)
def test_vectors_of_others(secret: str, event_id: str, at: int, payload: bytes, expected: str) -> None:
    assert signed(payload, secret, event_id=event_id, at=at) == expected


def test_a_secret_is_standard_base64_with_its_padding() -> None:
    key = bytes(range(224, 256))
    text = secret_text(key)
    assert text == "whsec_" + base64.b64encode(key).decode()
    assert key_of(text) == key
