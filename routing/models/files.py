"""Files: what customers upload, and the output and error files of batches."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from accounts.models import Organisation


class FilePurpose(models.TextChoices):
    """OpenAI's words for what a file is for."""

    BATCH = "batch"
    BATCH_OUTPUT = "batch_output"


class StoredFile(models.Model):
    """One file. Its bytes are a blob that is written before this row and never changed."""

    public_id = models.CharField(max_length=40, unique=True)
    organisation = models.ForeignKey(Organisation, models.PROTECT, related_name="+")
    purpose = models.CharField(max_length=20, choices=FilePurpose)
    filename = models.CharField(max_length=255)
    size_bytes = models.PositiveBigIntegerField()
    sha256 = models.BinaryField(max_length=32)
    blob_name = models.CharField(max_length=200, unique=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        # Lists page by creation time.
        indexes: ClassVar = [models.Index(fields=["organisation", "-created_at", "-id"], name="file_of_organisation")]

    def __str__(self) -> str:
        return self.public_id
