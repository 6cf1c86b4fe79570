"""The operators' page of the retention clock: what is kept how long, when each sweep last ran, and what it removed."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from accounts.models import StaffRole, User
from accounts.pages import staff_page
from accounts.services.kept_calls import KEPT_FOR
from console.kept import kept_now
from ground import clock
from ground.retention_record import Kept, removed_by_day, removed_in_all
from routing.services.quotes import PAYLOAD_KEPT_AFTER_EXPIRY

_DAYS: Final = 30
_WORDS: Final = {
    Kept.FILES: "Uploaded files",
    Kept.PAYLOADS: "Requests of quotes",
    Kept.BATCHES: "Files of batches",
    Kept.EXPORTS: "Exports",
    Kept.KEPT_CALLS: "Answers of repeated calls",
    Kept.SESSIONS: "Sign-in sessions",
}


@require_safe
@staff_page(StaffRole.OPERATOR, StaffRole.SUPPORT)
def retention_page(request: HttpRequest, _user: User) -> HttpResponse:
    """Show each kind: how long it is kept, what is there, its last sweep, and the removals of 30 days by day."""
    at = clock.now()
    removed, now = removed_in_all(at, _DAYS), kept_now()
    context = {
        "active_nav": "retention",
        "at": at,
        "day_count": _DAYS,
        "kinds": [
            {"word": word, "kept": _kept_for(kind), "now": now[kind], "removed": removed.get(kind)}
            for kind, word in _WORDS.items()
        ],
        "days": [{"word": _WORDS[each.kind], "removed": each} for each in removed_by_day(at, _DAYS)],
    }
    return render(request, "console/retention.html", context)


def _kept_for(kind: Kept) -> tuple[str, str]:
    """Give how long a kind is kept, and what says so."""
    return {
        Kept.FILES: (_span(settings.FILE_LIFETIME), "or until its owner deletes it: FILE_LIFETIME"),
        Kept.PAYLOADS: (
            _span(PAYLOAD_KEPT_AFTER_EXPIRY),
            "after the quote expired, unless it became a batch: LANEHOUSE_QUOTE_LIFETIME_SECONDS",
        ),
        Kept.BATCHES: ("Until deleted", "its owner deletes them; the receipt stays"),
        Kept.EXPORTS: (_span(settings.FILE_LIFETIME), "FILE_LIFETIME"),
        Kept.KEPT_CALLS: (_span(KEPT_FOR), "for calls with an Idempotency-Key"),
        Kept.SESSIONS: (_span(timedelta(seconds=settings.SESSION_COOKIE_AGE)), "SESSION_COOKIE_AGE"),
    }[kind]


def _span(span: timedelta) -> str:
    hour_count = round(span.total_seconds()) // 3_600
    return f"{hour_count // 24} days" if hour_count > 24 else f"{hour_count} h"  # noqa: PLR2004 -- a day
