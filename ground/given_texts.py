"""Texts that anybody can make up, in cursors, links and commands."""

from __future__ import annotations

import re
from typing import Final

# A NUL, which PostgreSQL takes in no text, and half of a surrogate pair, which no encoding carries.
_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")


def is_storable(text: str) -> bool:
    """Say whether the database can hold a text, or be asked for it."""
    return _UNSTORABLE.search(text) is None


def number_in(text: str, *, digits: int = 18) -> int | None:
    """Give the whole number that a text writes in up to so many ASCII digits, or none; 18 always fit into 64 bits.

    Python itself also reads digits of other scripts, and gives up at some thousands of them.
    """
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= digits else None
