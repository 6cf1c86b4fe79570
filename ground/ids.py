"""Public ids: a prefix and 26 characters of Crockford's base 32, time first.

The first ten characters carry the creation time in Unix milliseconds, so an id of a table partitioned by time also
names its partition; the other sixteen are random. Layout: https://github.com/ulid/spec.
"""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime, timedelta

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
# two characters at once: each request has an id
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_VALUE = {character: value for value, character in enumerate(_ALPHABET)}
_TIME_CHARACTERS = 10
_RANDOM_CHARACTERS = 16
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHAPE = re.compile(r"[a-z]+[_-][0-7][0-9A-HJKMNP-TV-Z]{25}")


def new_public_id(prefix: str, at: datetime) -> str:
    """Give a new id such as ``qt_01JQ7M4ZK8W2T5...``; ``prefix`` includes its joint (``qt_``, ``file-``)."""
    milliseconds = (at - _EPOCH) // timedelta(milliseconds=1)
    return prefix + _encode(milliseconds, _TIME_CHARACTERS) + _encode(secrets.randbits(80), _RANDOM_CHARACTERS)


def is_public_id(text: str, prefix: str) -> bool:
    """Say whether ``text`` has the shape of one of our ids with this prefix; anything else cannot exist."""
    return text.startswith(prefix) and _SHAPE.fullmatch(text) is not None


def created_at_of(public_id: str) -> datetime:
    """Give the creation time carried by an id, to the millisecond (UTC).

    Raises:
        ValueError: The text is not one of our ids.
    """
    if _SHAPE.fullmatch(public_id) is None:
        raise ValueError(f"not a public id: {public_id[:40]!r}")
    milliseconds = 0
    for character in public_id[-26:-_RANDOM_CHARACTERS]:
        milliseconds = milliseconds << 5 | _VALUE[character]
    return _EPOCH + timedelta(milliseconds=milliseconds)


def _encode(value: int, length: int) -> str:
    return "".join([_PAIRS[value >> shift & 1_023] for shift in range(5 * length - 10, -1, -10)])
