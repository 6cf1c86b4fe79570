"""What each web process says of itself, each 5 s."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class QuotePathReport(models.Model):
    """One report; three minutes of them are kept. ``recent`` and ``totals`` are histograms by step (JSON)."""

    process = models.CharField(max_length=80)
    reported_at = models.DateTimeField()
    recent = models.JSONField()
    totals = models.JSONField()
    load = models.JSONField()

    class Meta:
        # The last minute, and what is older than is kept.
        indexes: ClassVar = [models.Index(fields=["reported_at"], name="quote_path_by_time")]

    def __str__(self) -> str:
        return f"{self.process} at {self.reported_at}"
