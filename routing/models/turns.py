"""What each organisation was given at a step or of a lane's room, so that they take turns."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from accounts.models import Organisation


class Turn(models.Model):
    """One organisation in one queue, in the queue's units. A figure that is lost or doubled costs a turn."""

    queue = models.CharField(max_length=300)
    organisation = models.ForeignKey(Organisation, models.CASCADE, related_name="+")
    # Where its last turn began, and where its next one begins unless the others are further on.
    begun_units = models.BigIntegerField()
    given_units = models.BigIntegerField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["queue", "organisation"], name="turn_is_one_per_queue_and_organisation"),
            models.CheckConstraint(condition=models.Q(given_units__gte=models.F("begun_units")), name="turn_goes_on"),
        ]
        # Where the round is.
        indexes: ClassVar = [models.Index(fields=["queue", "begun_units"], name="turn_of_queue")]

    def __str__(self) -> str:
        return f"{self.queue} of {self.organisation_id}"
