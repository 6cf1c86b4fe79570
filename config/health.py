"""``/healthz``: the web and its database. ``/readyz``: every part, with its age."""

from __future__ import annotations

from datetime import datetime

from django.db import Error, connection
from django.http import HttpRequest, JsonResponse

from ground import clock, heartbeats

# A part that has not been heard of for this long is not ready.
STALE_AFTER_SECONDS = 30


def healthz(_request: HttpRequest) -> JsonResponse:
    """Say whether this process answers and its database does (503 if not)."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except Error:
        return JsonResponse({"status": "unavailable", "database": "no answer"}, status=503)
    return JsonResponse({"status": "ok", "database": "ok"})


def readyz(_request: HttpRequest) -> JsonResponse:
    """Say how long ago each part was heard of; 503 if one is missing or stale."""
    try:
        heard = heartbeats.heard_at()
    except Error:
        return JsonResponse({"status": "unavailable", "parts": {"database": {"ready": False}}}, status=503)
    now = clock.now()
    parts = {part: _state(heard.get(part), now) for part in heartbeats.PARTS}
    ready = all(part["ready"] for part in parts.values())
    return JsonResponse({"status": "ok" if ready else "degraded", "parts": parts}, status=200 if ready else 503)


def _state(at: datetime | None, now: datetime) -> dict[str, object]:
    if at is None:
        return {"ready": False, "age_seconds": None}
    age_seconds = max(0, int((now - at).total_seconds()))
    return {"ready": age_seconds <= STALE_AFTER_SECONDS, "age_seconds": age_seconds}
