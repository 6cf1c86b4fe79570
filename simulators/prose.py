"""Plausible text from a seed: every piece is one token in the common vocabularies."""

import hashlib
import random


def _words(text: str) -> tuple[str, ...]:
    return tuple(" " + word for word in text.split())


_ARTICLES = _words("the a each every this")
_ADJECTIVES = _words(
    "small large quiet bright early late simple clear careful common recent local modern ancient steady direct "
    "open useful strong light heavy narrow broad warm cold fresh"
)
_NOUNS = _words(
    "river bridge garden city market letter window table story road village season morning evening answer question "
    "reader teacher worker student doctor engine signal paper record number result report summary detail example "
    "reason method process system model source price value weight measure order customer product service team plan "
    "project problem solution decision change history language word sentence page book library water sound music "
    "color surface mountain forest field island train station street house door wall machine tool battery network"
)
_VERBS = _words(
    "shows gives takes keeps brings holds moves turns follows opens closes joins explains describes suggests "
    "supports improves reduces covers connects reaches needs uses makes finds"
)
_LINKS = _words("in on with for from near under over between because while when and but so")
_FIRSTS = ("The", "A", "Each", "Most", "Some", "This")


def seed_of(*parts: bytes) -> int:
    """A seed that depends on every byte of `parts` and on where they are divided."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return int.from_bytes(digest.digest()[:8], "big")


def natural_tokens(seed: int) -> int:
    """How long an answer would be without a limit: 16 to 175 tokens."""
    return 16 + seed % 160


def pieces(seed: int, count: int) -> list[str]:
    """`count` pieces that join to sentences; each piece is one token."""
    dice = random.Random(seed)  # noqa: S311  # text that can be repeated, not a secret
    choice = dice.choice
    text: list[str] = []
    while len(text) < count:
        first = choice(_FIRSTS)
        text.append(" " + first if text else first)
        text += (choice(_ADJECTIVES), choice(_NOUNS), choice(_VERBS), choice(_ARTICLES), choice(_NOUNS))
        for _ in range(dice.randrange(3)):
            text += (choice(_LINKS), choice(_ARTICLES), choice(_NOUNS))
        text.append(".")
    return text[:count]
