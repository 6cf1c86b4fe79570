"""What a person sets for themselves."""

from __future__ import annotations

from accounts.models import User


def set_preferences(user: User, *, time_zone: str, shortcuts_off: bool) -> None:
    """Keep a person's preferences.

    Args:
        user: Whose they are.
        time_zone: A name of the zone list; empty for the browser's guess.
        shortcuts_off: Whether single keys on pages do nothing.
    """
    user.time_zone = time_zone
    user.shortcuts_off = shortcuts_off
    user.save(update_fields=["time_zone", "shortcuts_off"])
