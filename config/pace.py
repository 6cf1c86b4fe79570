"""The least pace of bodies: how long a client may still keep us waiting, by what it has sent or taken so far."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class Pace:
    """One body on its way. Only the time in which we wait for the client counts, not what we do meanwhile.

    Args:
        grace_seconds: What a client has without moving a byte.
        bytes_per_second: Each so many bytes give it another second.
    """

    grace_seconds: float
    bytes_per_second: int
    moved_bytes: int = 0
    waited_seconds: float = 0.0

    def note(self, moved_bytes: int, waited_seconds: float) -> None:
        """Add what was moved, and how long we waited for it."""
        self.moved_bytes += moved_bytes
        self.waited_seconds += waited_seconds

    @property
    def left_seconds(self) -> float:
        """How long the client may keep us waiting from now on; nothing and less when it is too slow."""
        return self.grace_seconds + self.moved_bytes / self.bytes_per_second - self.waited_seconds
