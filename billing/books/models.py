"""Snapshots of balances, and the record of proofs. Both are made from the journal and can be made again."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from accounts.models import User


class LedgerSnapshot(models.Model):
    """An instant for which balances are kept. Entries booked up to it, inclusive, are in."""

    cutoff_at = models.DateTimeField(unique=True)
    made_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"snapshot {self.cutoff_at}"


class SnapshotBalance(models.Model):
    """An account's balance at a snapshot. Only accounts that moved have a row; the row before it stands for the others.

    ``effective`` counts what was effective up to the cutoff as far as it was booked when the newest snapshot was made:
    late entries are added to the snapshots that they concern.
    """

    pk = models.CompositePrimaryKey("account_id", "cutoff_at")
    account = models.ForeignKey("billing.LedgerAccount", models.PROTECT, related_name="+", db_index=False)
    cutoff_at = models.DateTimeField()
    booked_micro_usd = models.BigIntegerField()
    effective_micro_usd = models.BigIntegerField()

    def __str__(self) -> str:
        return f"balance of account {self.account_id} at {self.cutoff_at}"


class ProofRun(models.Model):
    """One proof of all books: asked for, then with its answer. ``checks`` is [{rule, violation_count, examples}]."""

    requested_at = models.DateTimeField()
    requested_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+", db_index=False)
    finished_at = models.DateTimeField(null=True)
    holds = models.BooleanField(null=True)
    checks = models.JSONField(default=list)
    leg_count = models.BigIntegerField(null=True)
    duration_ms = models.BigIntegerField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(finished_at=None, holds=None) | Q(finished_at__isnull=False, holds__isnull=False),
                name="proof_has_an_answer_when_it_is_done",
            ),
            models.UniqueConstraint(
                models.Value(1), condition=Q(finished_at=None), name="one_proof_is_asked_for_at_a_time"
            ),
        ]

    def __str__(self) -> str:
        return f"proof {self.pk}"
