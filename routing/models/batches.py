"""Batches and their sub-lanes."""

from __future__ import annotations

from typing import ClassVar, Final

from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Q

from accounts.models import ApiKey, Organisation
from ground.leases import Claimable
from routing.models.files import StoredFile


class BatchStatus(models.TextChoices):
    """OpenAI's words."""

    VALIDATING = "validating"
    IN_PROGRESS = "in_progress"
    FINALIZING = "finalizing"
    COMPLETED = "completed"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"


ENDED_STATUSES: Final = frozenset(
    {BatchStatus.COMPLETED, BatchStatus.FAILED, BatchStatus.EXPIRED, BatchStatus.CANCELLED}
)


class BatchEnding(models.TextChoices):
    """Why a batch is ended before all its rows are done."""

    NONE = ""
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class Batch(Claimable):
    """An accepted quote: one id whatever the split. Due when all its rows may have their outcome.

    While it is ``validating`` its quote is pending, it has no rows and no hold, and is due when the quote is decided.
    """

    public_id = models.CharField(max_length=40, unique=True)
    organisation = models.ForeignKey(Organisation, models.PROTECT, related_name="+")
    api_key = models.ForeignKey(ApiKey, models.PROTECT, null=True, blank=True, related_name="+")
    # No foreign key: quotes are partitioned and expire. Unique: a quote is accepted once.
    quote_id = models.CharField(max_length=40, unique=True)
    accept_body_hash = models.BinaryField(max_length=32)
    workflow = models.CharField(max_length=80)
    # The uploaded file it was made of; empty where its quote was a direct one.
    input_file_id = models.CharField(max_length=40, default="", blank=True)
    # The batch whose rows that were not done this one does again; empty for others.
    retry_of = models.CharField(max_length=40, default="", blank=True)
    endpoint = models.CharField(max_length=40)
    completion_window = models.CharField(max_length=8, default="24h")
    metadata = models.JSONField(null=True, blank=True)
    status = models.CharField(max_length=12, choices=BatchStatus)
    # Set by a cancel or by the end of the window: nothing more is sent, what runs is cancelled.
    ending = models.CharField(max_length=10, choices=BatchEnding, default=BatchEnding.NONE, blank=True)
    ending_at = models.DateTimeField(null=True, blank=True)
    # A copy of the quote's pins; the quote may be gone when the batch ends.
    plan = models.BinaryField()
    row_count = models.PositiveIntegerField()
    completed_count = models.PositiveIntegerField(default=0)
    failed_count = models.PositiveIntegerField(default=0)
    # Counts collected jobs that gave outcomes; numbers them for those who read results while the batch runs.
    collected_count = models.PositiveIntegerField(default=0)
    # Exact sum of the charges of the rows that have their outcome; usage alone, without fees.
    collected_charge_pico_usd = models.BigIntegerField(default=0)
    # True from the end of a low-cost batch until an event has told of it.
    is_to_be_told = models.BooleanField(default=False)
    input_tokens = models.PositiveBigIntegerField(default=0)
    cached_input_tokens = models.PositiveBigIntegerField(default=0)
    output_tokens = models.PositiveBigIntegerField(default=0)
    reasoning_tokens = models.PositiveBigIntegerField(default=0)
    total_estimate_micro_usd = models.PositiveBigIntegerField()
    ceiling_micro_usd = models.PositiveBigIntegerField()
    charge_micro_usd = models.PositiveBigIntegerField(null=True, blank=True)
    # Why a file was not taken: what OpenAI has in ``errors.data``. None where it was.
    errors = models.JSONField(null=True, blank=True)
    receipt_id = models.CharField(max_length=40, default="", blank=True)
    output_file = models.ForeignKey(StoredFile, models.PROTECT, null=True, blank=True, related_name="+")
    error_file = models.ForeignKey(StoredFile, models.PROTECT, null=True, blank=True, related_name="+")
    results_file = models.ForeignKey(StoredFile, models.PROTECT, null=True, blank=True, related_name="+")
    # How long its files are kept from when they are made; none where the house's rule holds.
    output_kept_seconds = models.PositiveIntegerField(null=True, blank=True)
    # When its files were deleted, and when the bytes were removed; the receipt stays.
    files_deleted_at = models.DateTimeField(null=True, blank=True)
    files_swept_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField()
    # When an SDK's retry made it before the first try had come through; none again when that one has.
    overtook_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField()
    # When its workflow wants it finished; None: when its window is over.
    finish_by = models.DateTimeField(null=True, blank=True)
    in_progress_at = models.DateTimeField(null=True, blank=True)
    finalizing_at = models.DateTimeField(null=True, blank=True)
    completed_at = models.DateTimeField(null=True, blank=True)
    failed_at = models.DateTimeField(null=True, blank=True)
    expired_at = models.DateTimeField(null=True, blank=True)
    cancelling_at = models.DateTimeField(null=True, blank=True)
    cancelled_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes: ClassVar = [
            # Lists page by creation time.
            models.Index(fields=["organisation", "-created_at", "-id"], name="batch_of_organisation"),
            # The engine looks for what is due.
            models.Index(fields=["due_at"], condition=Q(due_at__isnull=False), name="batch_due"),
            # Lists are narrowed by pairs.
            GinIndex(
                fields=["metadata"],
                opclasses=["jsonb_path_ops"],
                condition=Q(metadata__isnull=False),
                name="batch_has_metadata",
            ),
            # The sweep looks for batches whose window is over.
            models.Index(
                fields=["expires_at"],
                condition=Q(status__in=["validating", "in_progress"], ending=""),
                name="batch_window",
            ),
            # The sweep looks for bytes to remove.
            models.Index(
                fields=["files_deleted_at"],
                condition=Q(files_deleted_at__isnull=False, files_swept_at=None),
                name="batch_files_deleted",
            ),
            # The gatherer looks for batches to tell of.
            models.Index(fields=["organisation"], condition=Q(is_to_be_told=True), name="batch_to_be_told"),
        ]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(row_count__gte=F("completed_count") + F("failed_count")),
                name="batch_has_no_more_outcomes_than_rows",
            ),
            models.CheckConstraint(
                condition=~Q(status="completed") | Q(row_count=F("completed_count") + F("failed_count")),
                name="batch_completed_has_every_row",
            ),
            models.CheckConstraint(
                condition=~Q(status__in=["completed", "expired", "cancelled"])
                | (Q(charge_micro_usd__isnull=False) & ~Q(receipt_id=""))
                # Cancelled before its file was priced: nothing was held, so there is nothing to settle.
                | Q(status="cancelled", in_progress_at__isnull=True),
                name="batch_that_ended_is_settled",
            ),
            models.CheckConstraint(
                condition=Q(files_deleted_at=None) | Q(status__in=["completed", "failed", "expired", "cancelled"]),
                name="batch_keeps_its_files_until_it_has_ended",
            ),
        ]

    def __str__(self) -> str:
        return self.public_id


class SubLaneState(models.TextChoices):
    """States of the part of a batch that runs on one lane."""

    QUEUED = "queued"
    WAITING = "waiting"
    SUBMITTING = "submitting"
    SUBMITTED = "submitted"
    RUNNING = "running"
    COLLECTING = "collecting"
    COMPLETED = "completed"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class SubLane(Claimable):
    """The part of a batch that runs on one lane. Due when its rows are to be cut into provider jobs."""

    batch = models.ForeignKey(Batch, models.PROTECT, related_name="sub_lanes")
    number = models.PositiveSmallIntegerField()
    group_index = models.PositiveSmallIntegerField()
    lane_id = models.CharField(max_length=80)
    model_slug = models.CharField(max_length=120)
    provider = models.CharField(max_length=40)
    region = models.CharField(max_length=40)
    model_id = models.CharField(max_length=160)
    model_snapshot = models.CharField(max_length=160)
    # False for a lane that joined later, by re-dispatch or rotation: it never has a fee of its own.
    is_quoted = models.BooleanField()
    # What was pinned for the lane (a LanePlan, JSON): by the quote, or by the catalog when it joined.
    pins = models.BinaryField()
    state = models.CharField(max_length=10, choices=SubLaneState, default=SubLaneState.QUEUED)
    reason = models.CharField(max_length=200, default="", blank=True)
    row_count = models.PositiveIntegerField()
    completed_count = models.PositiveIntegerField(default=0)
    failed_count = models.PositiveIntegerField(default=0)
    moved_out_count = models.PositiveIntegerField(default=0)
    re_dispatched_count = models.PositiveIntegerField(default=0)
    # What the provider says it has done of the rows it holds; never mixed with collected rows.
    reported_count = models.PositiveIntegerField(default=0)
    estimated_input_tokens = models.PositiveBigIntegerField()
    fee_micro_usd = models.PositiveBigIntegerField()
    charge_micro_usd = models.PositiveBigIntegerField(null=True, blank=True)
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["batch", "number"], name="sub_lane_number_is_unique_in_batch"),
            models.UniqueConstraint(
                fields=["batch", "model_snapshot", "lane_id"], name="sub_lane_is_one_per_lane_and_batch"
            ),
            models.CheckConstraint(
                condition=Q(row_count__gte=F("completed_count") + F("failed_count")),
                name="sub_lane_has_no_more_outcomes_than_rows",
            ),
        ]
        # The engine looks for what is due.
        indexes: ClassVar = [
            models.Index(fields=["due_at"], condition=Q(due_at__isnull=False), name="sub_lane_due"),
        ]

    def __str__(self) -> str:
        return f"{self.batch_id}:{self.lane_id}"
