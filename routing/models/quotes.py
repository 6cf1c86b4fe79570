"""Quotes: priced, pinned, expiring offers for one file."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from accounts.models import ApiKey, Organisation


class QuoteStatus(models.TextChoices):
    """What is stored. ``accepted`` and ``expired`` are derived: from the batch, and from the clock."""

    PENDING = "pending"
    READY = "ready"
    FAILED = "failed"


class Quote(models.Model):
    """One offer. Partitioned by ``created_at``, which its public id carries, so (id, created_at) is the key."""

    pk = models.CompositePrimaryKey("public_id", "created_at")
    public_id = models.CharField(max_length=40)
    created_at = models.DateTimeField()
    organisation = models.ForeignKey(Organisation, models.PROTECT, related_name="+")
    api_key = models.ForeignKey(ApiKey, models.PROTECT, null=True, blank=True, related_name="+")
    workflow = models.CharField(max_length=80)
    status = models.CharField(max_length=10, choices=QuoteStatus)
    expires_at = models.DateTimeField(null=True, blank=True)
    endpoint = models.CharField(max_length=40)
    row_count = models.PositiveIntegerField()
    body_size_bytes = models.PositiveBigIntegerField()
    # The answer as it was given, and what the engine needs of it; both are JSON text, never changed.
    answer = models.BinaryField()
    plan = models.BinaryField()

    class Meta:
        managed = False
        db_table = "routing_quote"
        # Lists page by creation time; the primary key serves reads by id.
        indexes: ClassVar = [models.Index(fields=["organisation", "-created_at"], name="quote_of_organisation")]

    def __str__(self) -> str:
        return self.public_id
