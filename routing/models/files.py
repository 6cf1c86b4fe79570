"""Files: what customers upload, and the output and error files of batches."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from accounts.models import ApiKey, Organisation


class FilePurpose(models.TextChoices):
    """OpenAI's words for what a file is for."""

    BATCH = "batch"
    BATCH_OUTPUT = "batch_output"


class StoredFile(models.Model):
    """One file. Its bytes are a blob that is written before this row and never changed.

    The row outlives the bytes, as the record of what was there: a file that was deleted, or whose time is over, answers
    as if it had never been, and its bytes are removed by the sweep.
    """

    public_id = models.CharField(max_length=40, unique=True)
    organisation = models.ForeignKey(Organisation, models.PROTECT, related_name="+")
    # Who uploaded it; none for what a batch put out.
    api_key = models.ForeignKey(ApiKey, models.PROTECT, null=True, blank=True, related_name="+")
    purpose = models.CharField(max_length=20, choices=FilePurpose)
    filename = models.CharField(max_length=255)
    size_bytes = models.PositiveBigIntegerField()
    sha256 = models.BinaryField(max_length=32)
    # The newest quote of an uploaded file; a batch of the file runs under it while it is valid.
    quote_id = models.CharField(max_length=40, default="", blank=True)
    blob_name = models.CharField(max_length=200, unique=True)
    created_at = models.DateTimeField()
    # When an SDK's retry sent it before the first try had come through; none again when that one has.
    overtook_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    deleted_at = models.DateTimeField(null=True, blank=True)
    # When the bytes were removed.
    swept_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes: ClassVar = [
            # Lists page by creation time.
            models.Index(fields=["organisation", "-created_at", "-id"], name="file_of_organisation"),
            # The sweep looks for bytes to remove.
            models.Index(
                fields=["deleted_at"], condition=Q(swept_at=None, deleted_at__isnull=False), name="file_deleted"
            ),
            models.Index(fields=["expires_at"], condition=Q(swept_at=None), name="file_ends"),
        ]
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(size_bytes__gt=0), name="file_is_not_empty"),
        ]

    def __str__(self) -> str:
        return self.public_id
