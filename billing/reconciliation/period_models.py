"""Periods: months whose books are closed by two people, and what was done to each."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import F, Q

from accounts.models import User


class PeriodState(models.TextChoices):
    """A month's books: ``closing`` when one person has asked to close and a second has not agreed yet."""

    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"


class Period(models.Model):
    """A calendar month, UTC. Months without a row are open."""

    month = models.DateField(unique=True)
    state = models.CharField(max_length=8, choices=PeriodState, default=PeriodState.OPEN)
    requested_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+", db_index=False)
    requested_at = models.DateTimeField(null=True)
    closed_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+", db_index=False)
    closed_at = models.DateTimeField(null=True)
    # The closing file: its bytes are kept, and are the same for ever.
    export_blob = models.CharField(max_length=200, default="", blank=True)
    export_sha256 = models.BinaryField(max_length=32, null=True)
    close_count = models.PositiveIntegerField(default=0)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(month__day=1), name="period_is_a_month"),
            models.CheckConstraint(
                condition=Q(state="open", requested_by=None, closed_by=None, export_sha256=None)
                | Q(state="closing", requested_by__isnull=False, closed_by=None, export_sha256=None)
                | Q(state="closed", requested_by__isnull=False, closed_by__isnull=False, export_sha256__isnull=False),
                name="period_has_what_its_state_says",
            ),
            models.CheckConstraint(
                condition=Q(closed_by=None) | ~Q(closed_by=F("requested_by")), name="period_is_closed_by_two"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.month:%Y-%m}"


class PeriodEvent(models.Model):
    """What was done to a period: append-only."""

    period = models.ForeignKey(Period, models.PROTECT, related_name="events")
    at = models.DateTimeField()
    by = models.ForeignKey(User, models.PROTECT, related_name="+", db_index=False)
    action = models.CharField(max_length=12)
    reason = models.CharField(max_length=200, blank=True)
    export_sha256 = models.BinaryField(max_length=32, null=True)

    def __str__(self) -> str:
        return f"{self.action} {self.period_id}"
