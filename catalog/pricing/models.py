"""Drafts of rates."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import F, Q

from accounts.models import User


class DraftState(models.TextChoices):
    """Where a draft stands; the last two are final."""

    DRAFT = "draft", "Waits for approval"
    APPROVED = "approved", "Approved"
    REJECTED = "rejected", "Rejected"


class RateDraft(models.Model):
    """Rates that somebody wants for one card of a lane. ``published`` is {kind: micro-USD per million tokens}."""

    public_id = models.CharField(max_length=40, unique=True)
    lane = models.ForeignKey("catalog.Lane", models.PROTECT, related_name="rate_drafts")
    card = models.CharField(max_length=14)
    published = models.JSONField()
    discount_basis_points = models.PositiveIntegerField(default=0)
    valid_from = models.DateTimeField()
    # A price file's name and line, or what the person said.
    reason = models.CharField(max_length=200)
    # Far from the live rates, or above 1,000 USD a million tokens.
    is_extraordinary = models.BooleanField()
    is_confirmed = models.BooleanField(default=False)
    state = models.CharField(max_length=10, choices=DraftState)
    drafted_by = models.ForeignKey(User, models.PROTECT, related_name="+")
    drafted_at = models.DateTimeField()
    decided_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    decided_at = models.DateTimeField(null=True)
    decision_reason = models.CharField(max_length=200, default="")
    version = models.OneToOneField("catalog.RateVersion", models.PROTECT, null=True, related_name="draft")

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(card__in=("sell", "provider_batch", "list")), name="rate_draft_card_is_known"
            ),
            models.CheckConstraint(
                condition=Q(decided_by=None) | ~Q(decided_by=F("drafted_by")),
                name="rates_are_approved_by_another_person",
            ),
            models.CheckConstraint(
                condition=Q(state="draft", decided_by=None, decided_at=None, version=None)
                | Q(state="rejected", decided_by__isnull=False, decided_at__isnull=False, version=None)
                | Q(state="approved", decided_by__isnull=False, decided_at__isnull=False, version__isnull=False),
                name="rate_draft_has_a_version_when_it_is_approved",
            ),
            models.CheckConstraint(
                condition=~Q(state="approved", is_extraordinary=True, is_confirmed=False),
                name="extraordinary_rates_are_confirmed",
            ),
            # Two that begin at one instant would overlap.
            models.UniqueConstraint(
                fields=["lane", "card", "valid_from"],
                condition=~Q(state="rejected"),
                name="rate_draft_is_one_per_start",
            ),
        ]
        indexes: ClassVar = [models.Index(fields=["-id"], condition=Q(state="draft"), name="rate_draft_that_waits")]

    def __str__(self) -> str:
        return self.public_id
