"""Quotes: priced, pinned, expiring offers for one file."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from accounts.models import ApiKey, Organisation
from ground.leases import Claimable


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
    # The uploaded file it was made of; empty for a direct quote.
    input_file_id = models.CharField(max_length=40, default="", blank=True)
    # The batch whose rows that were not done it is made of; empty for others.
    retry_of = models.CharField(max_length=40, default="", blank=True)
    # When payload and placement are removed; none while they are needed, and after they are gone.
    payload_kept_until = models.DateTimeField(null=True, blank=True)
    # Estimated; once it is known, a trigger debits the organisation's bucket of tokens.
    input_tokens = models.PositiveBigIntegerField(null=True)
    # The answer as it was given, or the error of a file that was refused; and what the engine needs of a quote. Both
    # are JSON text, and never change once the quote is ready or failed.
    answer = models.BinaryField()
    plan = models.BinaryField()

    class Meta:
        managed = False
        db_table = "routing_quote"
        # Lists page by creation time; the primary key serves reads by id.
        indexes: ClassVar = [models.Index(fields=["organisation", "-created_at"], name="quote_of_organisation")]

    def __str__(self) -> str:
        return self.public_id


class PricingState(models.TextChoices):
    """Whether the pricing of a file is still to be done."""

    PENDING = "pending"
    ENDED = "ended"


class FilePricing(Claimable):
    """The pricing of an uploaded file, due until its quote is ready or failed."""

    # No foreign key: quotes are partitioned.
    quote_id = models.CharField(max_length=40, unique=True)
    organisation = models.ForeignKey(Organisation, models.PROTECT, related_name="+")
    state = models.CharField(max_length=10, choices=PricingState, default=PricingState.PENDING)
    # Where a batch wants its rows to go; empty where the file's first row decides.
    endpoint = models.CharField(max_length=40, default="", blank=True)
    size_bytes = models.PositiveBigIntegerField()
    # How far it has been read.
    read_bytes = models.PositiveBigIntegerField(default=0)
    # Which rows of another batch are done again; what is empty leaves all.
    retried_codes = models.JSONField(default=list, blank=True)
    retried_outcomes = models.JSONField(default=list, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        indexes: ClassVar = [
            # The engine looks for what is due.
            models.Index(fields=["due_at"], condition=models.Q(due_at__isnull=False), name="file_pricing_due"),
        ]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=models.Q(read_bytes__lte=models.F("size_bytes")),
                name="file_pricing_reads_no_more_than_there_is",
            ),
        ]

    def __str__(self) -> str:
        return self.quote_id
