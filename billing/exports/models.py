"""An export: what was asked for, how far it is, and what its file holds."""

from __future__ import annotations

import enum
from typing import ClassVar

from django.db import models
from django.db.models import F, Q

from accounts.models import ApiKey, Organisation, User
from billing.exports.scope import ExportFormat, ExportKind
from ground.leases import Claimable


def _choices(kinds: type[enum.StrEnum]) -> list[tuple[str, str]]:
    return [(kind.value, kind.value) for kind in kinds]


class ExportState(models.TextChoices):
    """An export is queued, running, then one of the others for good."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Export(Claimable):
    """A file of an organisation's figures, or of the house's where there is no organisation. Due until it is written.

    What was asked for is kept as it was said, so that it can be asked for again.
    """

    public_id = models.CharField(max_length=40, unique=True)
    organisation = models.ForeignKey(Organisation, models.PROTECT, null=True, related_name="+", db_index=False)
    made_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+", db_index=False)
    api_key = models.ForeignKey(ApiKey, models.PROTECT, null=True, related_name="+", db_index=False)
    kind = models.CharField(max_length=12, choices=_choices(ExportKind))
    file_format = models.CharField(max_length=10, choices=_choices(ExportFormat))
    # The first and the last day, both included, as the zone counts them.
    first_day = models.DateField(null=True)
    last_day = models.DateField(null=True)
    zone = models.CharField(max_length=64)
    filters = models.JSONField(default=dict)
    state = models.CharField(max_length=10, choices=ExportState, default=ExportState.QUEUED)
    failure = models.CharField(max_length=200, default="", blank=True)
    # How far it is, of how many there were when the writing began.
    done_count = models.BigIntegerField(default=0)
    expected_count = models.BigIntegerField(null=True)
    row_count = models.BigIntegerField(null=True)
    # Control totals in USD, by name, as texts.
    totals = models.JSONField(default=dict)
    size_bytes = models.BigIntegerField(null=True)
    sha256 = models.BinaryField(max_length=32, null=True)
    blob_name = models.CharField(max_length=200, default="", blank=True)
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    # The bytes go then; what they held stays written here.
    expires_at = models.DateTimeField()
    swept_at = models.DateTimeField(null=True)

    class Meta:
        indexes: ClassVar = [
            # An organisation's, and the house's, newest first.
            models.Index(fields=["organisation", "-created_at", "-id"], name="export_newest_first"),
            # The workers look for what is due.
            models.Index(fields=["due_at"], condition=Q(due_at__isnull=False), name="export_due"),
            # The sweep looks for files whose time is over.
            models.Index(fields=["expires_at"], condition=Q(swept_at=None), name="export_not_swept"),
        ]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(state="completed", finished_at__isnull=False, sha256__isnull=False, size_bytes__gte=0)
                & Q(row_count__gte=0, row_count=F("done_count"))
                & ~Q(blob_name="")
                | ~Q(state="completed") & Q(sha256=None, size_bytes=None, row_count=None, blob_name=""),
                name="export_has_a_file_exactly_when_completed",
            ),
            models.CheckConstraint(
                condition=Q(state__in=["queued", "running"], finished_at=None, due_at__isnull=False)
                | Q(state__in=["completed", "failed", "cancelled"], finished_at__isnull=False, due_at=None),
                name="export_is_due_or_ended",
            ),
            models.CheckConstraint(
                condition=~Q(kind__in=["journal", "breaks"]) | Q(organisation=None),
                name="export_of_the_houses_books_is_the_houses",
            ),
        ]

    def __str__(self) -> str:
        return self.public_id
