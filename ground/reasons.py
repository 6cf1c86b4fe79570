"""The reason that a person gives for what cannot be taken back: colleagues read it later."""

from __future__ import annotations

from typing import Final

from ground.errors import InvalidRequest

REASON_MIN_CHARACTERS: Final = 3
REASON_MAX_CHARACTERS: Final = 200


def checked_reason(text: str) -> str:
    """Give a reason without the blanks around it.

    Raises:
        InvalidRequest: It is not 3 to 200 characters then, or holds a NUL.
    """
    reason = text.strip()
    if not REASON_MIN_CHARACTERS <= len(reason) <= REASON_MAX_CHARACTERS or "\0" in reason:
        raise InvalidRequest(
            f"Give a reason of {REASON_MIN_CHARACTERS} to {REASON_MAX_CHARACTERS} characters, none of them NUL.",
            param="reason",
        )
    return reason
