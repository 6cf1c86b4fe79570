"""Adjustments and the grants that some of them make."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import F, Q

from accounts.models import Organisation, User


class AdjustmentKind(models.TextChoices):
    """What an adjustment does. The transaction it posts is of the same kind."""

    CREDIT = "credit", "Credit to the customer"
    DEBIT = "debit", "Charge to the customer"
    REFUND = "refund", "Refund, paid out"
    WRITE_OFF = "write_off", "Write-off of what is owed"
    REVERSAL = "reversal", "Reversal of an entry"
    GRANT = "grant", "Grant with expiry"


class AdjustmentState(models.TextChoices):
    """Where an adjustment stands; the last two are final."""

    REQUESTED = "requested", "Waits for approval"
    POSTED = "posted", "Posted"
    REFUSED = "refused", "Refused"


class Adjustment(models.Model):
    """A request to move a customer's money, its decision and its posting. Written by SQL functions alone."""

    public_id = models.CharField(max_length=40, unique=True)
    # The form's own key: the same request sent twice is one.
    request_key = models.CharField(max_length=80, unique=True)
    organisation = models.ForeignKey(Organisation, models.PROTECT, related_name="+", db_index=False)
    kind = models.CharField(max_length=20, choices=AdjustmentKind)
    amount_micro_usd = models.BigIntegerField()
    reason = models.CharField(max_length=200)
    # What it adjusts, where there is such a thing.
    receipt = models.ForeignKey("billing.Receipt", models.PROTECT, null=True, related_name="adjustments")
    break_ref = models.CharField(max_length=40, default="")
    reverses = models.ForeignKey(
        "billing.LedgerTransaction", models.PROTECT, null=True, related_name="+", db_index=False
    )
    effective_at = models.DateTimeField()
    # Of a grant.
    expires_at = models.DateTimeField(null=True)
    priority = models.PositiveSmallIntegerField(default=50)
    needs_approval = models.BooleanField()
    state = models.CharField(max_length=10, choices=AdjustmentState)
    requested_by = models.ForeignKey(User, models.PROTECT, related_name="+", db_index=False)
    requested_at = models.DateTimeField()
    decided_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+", db_index=False)
    decided_at = models.DateTimeField(null=True)
    decision_reason = models.CharField(max_length=200, default="")
    transaction = models.OneToOneField(
        "billing.LedgerTransaction", models.PROTECT, null=True, related_name="adjustment"
    )

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(kind__in=AdjustmentKind.values), name="adjustment_kind_is_known"),
            models.CheckConstraint(condition=Q(amount_micro_usd__gt=0), name="adjustment_moves_something"),
            models.CheckConstraint(
                condition=Q(decided_by__isnull=True) | ~Q(decided_by=F("requested_by")),
                name="adjustment_is_decided_by_another_person",
            ),
            models.CheckConstraint(
                condition=Q(state="requested", transaction=None, decided_by=None, decided_at=None)
                | Q(state="refused", transaction=None, decided_by__isnull=False, decided_at__isnull=False)
                | Q(
                    Q(needs_approval=False) | Q(decided_by__isnull=False),
                    state="posted",
                    transaction__isnull=False,
                    decided_at__isnull=False,
                ),
                name="adjustment_is_posted_after_its_approval",
            ),
            models.CheckConstraint(
                condition=Q(kind="reversal", reverses__isnull=False) | (~Q(kind="reversal") & Q(reverses=None)),
                name="adjustment_reverses_an_entry_or_none",
            ),
            models.CheckConstraint(
                condition=Q(expires_at=None) | Q(kind="grant", expires_at__gt=F("effective_at")),
                name="adjustment_expires_as_a_grant_alone",
            ),
            # A refused reversal may be asked for again.
            models.UniqueConstraint(fields=["reverses"], condition=~Q(state="refused"), name="entry_is_reversed_once"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["organisation", "-id"], name="adjustment_of_organisation"),
            models.Index(fields=["-id"], condition=Q(state="requested"), name="adjustment_that_waits"),
        ]

    def __str__(self) -> str:
        return self.public_id


class Grant(models.Model):
    """Credit that was given and may expire. ``burned`` and ``expired`` follow the journal; functions move them."""

    adjustment = models.OneToOneField(Adjustment, models.PROTECT, primary_key=True, related_name="grant")
    organisation = models.ForeignKey(Organisation, models.PROTECT, related_name="+", db_index=False)
    amount_micro_usd = models.BigIntegerField()
    burned_micro_usd = models.BigIntegerField(default=0)
    expired_micro_usd = models.BigIntegerField(default=0)
    # Lower burns first, then what expires first, then what is older.
    priority = models.PositiveSmallIntegerField()
    effective_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(
                    burned_micro_usd__gte=0,
                    expired_micro_usd__gte=0,
                    amount_micro_usd__gte=F("burned_micro_usd") + F("expired_micro_usd"),
                ),
                name="grant_is_used_once",
            )
        ]
        indexes: ClassVar = [
            # Asked at every movement of a wallet; most have none.
            models.Index(
                fields=["organisation"],
                condition=Q(amount_micro_usd__gt=F("burned_micro_usd") + F("expired_micro_usd")),
                name="grant_with_something_left",
            )
        ]

    def __str__(self) -> str:
        return f"grant {self.pk}"


class GrantBurn(models.Model):
    """What one posting took from one grant, below zero what it gave back to it; append-only."""

    grant = models.ForeignKey(Grant, models.PROTECT, related_name="burns")
    transaction = models.ForeignKey("billing.LedgerTransaction", models.PROTECT, related_name="+", db_index=False)
    amount_micro_usd = models.BigIntegerField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["transaction", "grant"], name="grant_is_burned_once_a_posting"),
            models.CheckConstraint(condition=~Q(amount_micro_usd=0), name="burn_moves_something"),
        ]

    def __str__(self) -> str:
        return f"burn {self.pk}"
