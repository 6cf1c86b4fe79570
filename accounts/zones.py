"""The time zone in which a viewer reads a page."""

from __future__ import annotations

import zoneinfo
from functools import cache
from typing import cast
from urllib.parse import unquote

from django.http import HttpRequest

from accounts.models import Organisation, User


@cache
def zone_names() -> frozenset[str]:
    """Give the zones this machine knows; reading them takes milliseconds, so once a process.

    Not the machine's own under the name ``localtime``: PostgreSQL has none of that name.
    """
    return frozenset(zoneinfo.available_timezones() - {"localtime"})


def zone_named(name: str) -> zoneinfo.ZoneInfo | None:
    """Give a zone of the IANA list that this machine knows; None for any other name."""
    return zoneinfo.ZoneInfo(name) if name in zone_names() else None


def reporting_zone_of(organisation: Organisation) -> zoneinfo.ZoneInfo:
    """Give the zone in which an organisation's days are counted."""
    return zone_named(organisation.reporting_zone) or zoneinfo.ZoneInfo("UTC")


def zone_of(request: HttpRequest, organisation: Organisation | None) -> zoneinfo.ZoneInfo:
    """Give a member's or staff's own zone, else the browser's guess if it is one, else the organisation's, else UTC."""
    user = cast(User, request.user)
    guess = unquote(request.COOKIES.get("zone", ""))
    for name in (user.time_zone, guess, organisation.reporting_zone if organisation else ""):
        if name in zone_names():
            return zoneinfo.ZoneInfo(name)
    return zoneinfo.ZoneInfo("UTC")


def zone_choices() -> list[tuple[str, str]]:
    """Give the zones for a form to choose from, by name."""
    return [(name, name.replace("_", " ")) for name in sorted(zone_names())]
