"""What the base page knows of its viewer: navigation by role, name, zone."""

from __future__ import annotations

import zoneinfo
from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from accounts.models import StaffRole, User
from accounts.selectors import membership_of
from ground.errors import NotFound


def navigation(request: HttpRequest) -> dict[str, Any]:
    """Give the base page's variables; nothing for visitors who have not signed in, and nothing on a broken database."""
    user = getattr(request, "user", None)
    if not isinstance(user, User):
        return {}
    try:
        organisation = membership_of(user).organisation
    except NotFound:
        organisation = None
    sections = []
    if organisation is not None:
        sections.append(
            {
                "label": "",
                "links": [
                    {
                        "key": "batches",
                        "label": "Batches",
                        "url": reverse("routing:batch-list"),
                        "icon": "stack-2",
                        "chord": "g b",
                    }
                ],
            }
        )
    if user.staff_role != StaffRole.NONE:
        sections.append(
            {
                "label": "Operate",
                "links": [
                    {
                        "key": "lanes",
                        "label": "Lanes",
                        "url": reverse("catalog:lane-list"),
                        "icon": "route",
                        "chord": "g l",
                    }
                ],
            }
        )
    return {
        "nav_sections": sections,
        "viewer": {
            "name": user.name,
            "role": user.staff_role or "member",
            "organisation": organisation.name if organisation else "",
            "sign_out_url": reverse("accounts:logout"),
        },
        "zone": _zone(user, request.COOKIES.get("zone", ""), organisation.reporting_zone if organisation else "UTC"),
    }


def _zone(user: User, cookie: str, fallback: str) -> str:
    """Give the viewer's own zone, else the browser's guess if it is one, else the organisation's."""
    known = zoneinfo.available_timezones()
    for name in (user.time_zone, cookie, fallback):
        if name in known:
            return name
    return "UTC"
