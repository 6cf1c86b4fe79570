"""What the base page knows of its viewer: navigation by role, name, zone. And the request's id, for error pages."""

from __future__ import annotations

import zoneinfo
from functools import cache
from typing import Any, cast
from urllib.parse import unquote

from django.http import HttpRequest
from django.urls import reverse

from accounts.models import Membership, StaffRole, User
from accounts.selectors import membership_of
from ground.errors import NotFound


def navigation(request: HttpRequest) -> dict[str, Any]:
    """Give the base page's variables; for visitors who have not signed in, the request's id alone."""
    request_id = request.META.get("lanehouse.request_id", "")
    user = getattr(request, "user", None)
    if not isinstance(user, User):
        return {"request_id": request_id}
    membership = _membership(request, user)
    organisation = membership.organisation if membership else None
    return {
        "request_id": request_id,
        "nav_sections": _sections(user, membership),
        "viewer": {
            "name": user.name,
            "role": user.staff_role or (membership.role if membership else ""),
            "organisation": organisation.name if organisation else "",
            "sign_out_url": reverse("accounts:logout"),
        },
        "zone": _zone(
            user, unquote(request.COOKIES.get("zone", "")), organisation.reporting_zone if organisation else "UTC"
        ),
    }


def _membership(request: HttpRequest, user: User) -> Membership | None:
    """Give the viewer's membership, read once a request: the view may have put it there."""
    if "lanehouse.membership" not in request.META:
        try:
            request.META["lanehouse.membership"] = membership_of(user)
        except NotFound:
            request.META["lanehouse.membership"] = None
    return cast("Membership | None", request.META["lanehouse.membership"])


def _sections(user: User, membership: Membership | None) -> list[dict[str, Any]]:
    sections = []
    if membership is not None:
        batches = _link("batches", "Batches", "routing:batch-list", "stack-2", "g b")
        webhooks = _link("webhooks", "Webhooks", "webhooks:endpoint-list", "webhook", "g w")
        sections.append({"label": "", "links": [batches, webhooks]})
    if user.staff_role != StaffRole.NONE:
        lanes = _link("lanes", "Lanes", "catalog:lane-list", "route", "g l")
        sections.append({"label": "Operate", "links": [lanes]})
    return sections


def _link(key: str, label: str, url_name: str, icon: str, chord: str) -> dict[str, str]:
    return {"key": key, "label": label, "url": reverse(url_name), "icon": icon, "chord": chord}


@cache
def _zone_names() -> frozenset[str]:
    """Give the zones this machine knows; reading them takes milliseconds, so once a process."""
    return frozenset(zoneinfo.available_timezones())


def _zone(user: User, cookie: str, fallback: str) -> str:
    """Give the viewer's own zone, else the browser's guess if it is one, else the organisation's."""
    for name in (user.time_zone, cookie, fallback):
        if name in _zone_names():
            return name
    return "UTC"
