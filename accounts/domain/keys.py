"""API keys: ``sk-lh-{namespace}-{secret}{checksum}``, for a test twin ``sk-lh-test-{namespace}-{secret}{checksum}``.

The checksum lets a mistyped key be refused, and a leaked one be recognised by scanners, without the database.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import string
import zlib
from dataclasses import dataclass, field

_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
_SECRET_CHARACTERS = 40
_CHECKSUM_CHARACTERS = 6
_SHAPE = re.compile(r"sk-lh-(?:test-)?[a-z0-9]{1,32}-[A-Za-z0-9]{46}")
_VISIBLE_SECRET_CHARACTERS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A key at the only moment its text exists; what is stored of it is the rest."""

    text: str = field(repr=False)
    key_hash: bytes
    prefix: str
    last_four: str


def make_key(namespace: str, *, is_test: bool) -> NewKey:
    """Make a new random key for an organisation's namespace."""
    start = f"sk-lh-{'test-' if is_test else ''}{namespace}-"
    secret = "".join(secrets.choice(_ALPHABET) for _ in range(_SECRET_CHARACTERS))
    text = start + secret + _checksum(start + secret)
    return NewKey(
        text=text,
        key_hash=hash_key(text),
        prefix=start + secret[:_VISIBLE_SECRET_CHARACTERS],
        last_four=text[-4:],
    )


def hash_key(text: str) -> bytes:
    """Give the 32 bytes under which a key is stored (SHA-256: the secret has 238 random bits, so no salt is needed)."""
    return hashlib.sha256(text.encode()).digest()


def is_well_formed(text: str) -> bool:
    """Say whether a text can be a key of ours: its shape and its checksum are right."""
    if _SHAPE.fullmatch(text) is None:
        return False
    return secrets.compare_digest(_checksum(text[:-_CHECKSUM_CHARACTERS]), text[-_CHECKSUM_CHARACTERS:])


def _checksum(text: str) -> str:
    value = zlib.crc32(text.encode())
    characters = []
    for _ in range(_CHECKSUM_CHARACTERS):
        value, digit = divmod(value, len(_ALPHABET))
        characters.append(_ALPHABET[digit])
    return "".join(reversed(characters))
