"""Who may act on these pages."""

from __future__ import annotations

from typing import ParamSpec

from accounts.models import MemberRole, Membership
from accounts.pages import MemberView, View, role_page

Parameters = ParamSpec("Parameters")
_WRITERS = (MemberRole.ADMIN, MemberRole.DEVELOPER)


def writers_only(view: MemberView[Parameters]) -> View[Parameters]:
    """Let only admins and developers in; other members learn the role."""
    checked: View[Parameters] = role_page(*_WRITERS)(view)
    return checked


def may_write(membership: Membership) -> bool:
    """Say whether a member may make and change endpoints, and read what was sent to them."""
    return membership.role in _WRITERS
