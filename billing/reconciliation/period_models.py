"""Periods: months whose books are closed by two people, what was done to each, and attempts that came too late."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import F, Q

from accounts.models import User
from billing.reconciliation.models import pico_usd_field


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


class AttemptRecording(models.Model):
    """One turn of recording a job's attempts: how many were new, and what they cost.

    Where the month that they belong to was closed by then, ``late_for`` is that month and ``carried_to`` the first one
    after it that was not: its books take them. A trigger decides this under the lock that a close takes. Append-only,
    but for being late no more when its month is opened again.
    """

    job_id = models.BigIntegerField()
    batch_public_id = models.CharField(max_length=40)
    completed_at = models.DateTimeField()
    # The database's clock, set by the trigger.
    recorded_at = models.DateTimeField()
    provider = models.CharField(max_length=40)
    provider_account = models.CharField(max_length=80)
    is_test = models.BooleanField()
    attempt_count = models.PositiveIntegerField()
    cost_pico_usd = pico_usd_field()
    late_for = models.DateField(null=True)
    carried_to = models.DateField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(late_for=None, carried_to=None) | Q(late_for__isnull=False, carried_to__gt=F("late_for")),
                name="late_attempts_are_carried_onwards",
            )
        ]
        indexes: ClassVar = [
            # What an account's month adds up to.
            models.Index(fields=["provider", "provider_account", "completed_at"], name="recording_of_account"),
            # The late ones: of a closed month, the newest first; and those that a month takes.
            models.Index(fields=["late_for", "-id"], condition=Q(late_for__isnull=False), name="recording_late_for"),
            models.Index(fields=["carried_to"], condition=Q(carried_to__isnull=False), name="recording_carried_to"),
        ]

    def __str__(self) -> str:
        return f"recording {self.pk}"
