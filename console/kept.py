"""What is kept for a time only, as it is now: how much of each kind, and how old the oldest is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.sessions.models import Session
from django.db.models import Count, Min, QuerySet, Sum

from accounts.models import KeptCall
from billing.exports.models import Export
from ground.retention_record import Kept
from routing.models import Batch, Quote, StoredFile


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptNow:
    """What is there of a kind; ``size_bytes`` is None where it is not known, ``oldest_at`` where there is none."""

    count: int
    oldest_at: datetime | None
    size_bytes: int | None


def kept_now() -> dict[Kept, KeptNow]:
    """Give what is there of each kind. Reads every row that is kept: for a page that is seldom asked for."""
    sessions = _kept(Session.objects.all(), "expire_date")
    begun_before = timedelta(seconds=settings.SESSION_COOKIE_AGE)
    return {
        Kept.FILES: _kept(StoredFile.objects.filter(swept_at=None), "created_at", "size_bytes"),
        Kept.PAYLOADS: _kept(
            Quote.objects.filter(payload_kept_until__isnull=False), "created_at", "body_size_bytes", counted="public_id"
        ),
        Kept.BATCHES: _kept(Batch.objects.filter(files_swept_at=None), "created_at"),
        Kept.EXPORTS: _kept(Export.objects.filter(swept_at=None), "created_at", "size_bytes"),
        Kept.KEPT_CALLS: _kept(KeptCall.objects.all(), "claimed_at"),
        # A session says when it ends; it has begun, or was last renewed, so long before.
        Kept.SESSIONS: KeptNow(
            count=sessions.count,
            oldest_at=sessions.oldest_at - begun_before if sessions.oldest_at else None,
            size_bytes=None,
        ),
    }


def _kept(rows: QuerySet, since: str, size: str = "", *, counted: str = "pk") -> KeptNow:  # type: ignore[type-arg]  # of any model
    sums = {"size_bytes": Sum(size)} if size else {}
    found = rows.aggregate(count=Count(counted), oldest_at=Min(since), **sums)
    return KeptNow(
        count=found["count"],
        oldest_at=found["oldest_at"],
        size_bytes=int(found["size_bytes"] or 0) if size else None,
    )
