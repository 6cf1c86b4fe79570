"""Names that stand twice in one object of a JSON document."""

from __future__ import annotations

import json
from typing import Any

from ground.errors import InvalidRequest


class _Repeated(Exception):
    pass


def repeated_name(document: bytes) -> str | None:
    """Give the first name that an object of a JSON document holds twice, or None.

    Parsers disagree on which of two equal names counts: a proxy or a log before us may have read the other one.

    Args:
        document: Sound JSON, as another decoder has found.

    Raises:
        RecursionError: It nests deeper than Python follows.
    """
    try:
        _decode(document.decode())
    except _Repeated as found:
        return str(found)
    return None


def name_repeated(name: str) -> InvalidRequest:
    """Give the refusal of a command that holds a name twice."""
    shown = name[:80]
    return InvalidRequest(
        f"The body holds the name {shown!r} twice; which one counts would be a guess.",
        code="duplicate_key",
        param=shown,
    )


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> None:
    seen = set()
    for name, _ in pairs:
        if name in seen:
            raise _Repeated(name)
        seen.add(name)


# Numbers stay text: one of more digits than Python turns into an integer is not this module's matter.
_decode = json.JSONDecoder(object_pairs_hook=_refuse_repeated, parse_int=str, parse_float=str).decode
