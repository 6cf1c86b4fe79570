"""Text of strangers for people's eyes: what cannot be seen, or turns the reading around, is written as its number."""

from __future__ import annotations

import re
from typing import Final

# Controls but tab and line feed, zero-width space and word joiner, line and paragraph separators, what overrides or
# isolates the direction, and the byte order mark. Joiners and direction marks stay: writing needs them.
_UNSEEN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2060\u2066-\u2069\ufeff]")


def visible(text: str) -> str:
    r"""Give a text with each unseen character as ``\u202e``: nothing is hidden in it, and nothing after it is moved."""
    return _UNSEEN.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
