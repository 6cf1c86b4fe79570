"""What a wallet's owner wants to be told of."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from accounts.models import Organisation


class BalanceAlert(models.Model):
    """The threshold of one wallet; without a row there is no alert. ``crossing_count`` numbers what was told."""

    organisation = models.OneToOneField(Organisation, models.PROTECT, primary_key=True, related_name="+")
    below_micro_usd = models.BigIntegerField()
    is_armed = models.BooleanField(default=True)
    crossing_count = models.PositiveIntegerField(default=0)
    crossed_at = models.DateTimeField(null=True)
    # What was available at the last crossing.
    available_micro_usd = models.BigIntegerField(null=True)
    mail_due_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(below_micro_usd__gt=0), name="balance_alert_has_a_threshold")
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["mail_due_at"], condition=Q(mail_due_at__isnull=False), name="balance_mail_that_is_due"
            )
        ]

    def __str__(self) -> str:
        return f"alert of organisation {self.organisation_id}"
