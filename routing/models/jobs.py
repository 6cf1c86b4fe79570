"""Provider accounts, provider jobs, and what people decided about unclear ones."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from accounts.models import OrganisationKind, User
from ground.leases import Claimable
from routing.models.batches import Batch, SubLane


class ProviderAccount(models.Model):
    """Where and as whom we submit: one account per provider and kind of organisation."""

    provider = models.CharField(max_length=40)
    kind = models.CharField(max_length=10, choices=OrganisationKind)
    name = models.CharField(max_length=80)
    base_url = models.URLField(max_length=300)
    api_key_encrypted = models.BinaryField()
    project = models.CharField(max_length=120, default="", blank=True)
    # What signs the provider's notices; empty: it sends none.
    notice_secret_encrypted = models.BinaryField(default=b"", blank=True)
    # Since when, and with which words, the provider refuses the account itself: people must see to it.
    refused_since = models.DateTimeField(null=True, blank=True)
    refusal = models.CharField(max_length=300, default="", blank=True)
    created_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["provider", "kind"], name="provider_account_is_one_per_provider_and_kind")
        ]

    def __str__(self) -> str:
        return self.name


class JobState(models.TextChoices):
    """States of one submission to a provider's Batch API."""

    INTENDED = "intended"
    SUBMITTING = "submitting"
    UNKNOWN = "unknown"
    RUNNING = "running"
    ENDED = "ended"
    COLLECTED = "collected"
    ABANDONED = "abandoned"


class ProviderJob(Claimable):
    """One submission. The intent is recorded before anything is sent."""

    batch = models.ForeignKey(Batch, models.PROTECT, related_name="jobs")
    sub_lane = models.ForeignKey(SubLane, models.PROTECT, related_name="jobs")
    account = models.ForeignKey(ProviderAccount, models.PROTECT, related_name="+")
    number = models.PositiveIntegerField()
    attempt_number = models.PositiveSmallIntegerField(default=1)
    # The job whose rows were moved here, and the lanes these rows have been on before.
    moved_from = models.ForeignKey("self", models.PROTECT, null=True, blank=True, related_name="+")
    tried_lane_ids = models.JSONField(default=list)
    # The idempotency token, and the start of our row ids at the provider.
    token = models.CharField(max_length=40, unique=True)
    state = models.CharField(max_length=10, choices=JobState, default=JobState.INTENDED)
    # Which rows of the batch it carries: increasing row numbers, compressed (routing.domain.row_lists).
    rows = models.BinaryField()
    row_count = models.PositiveIntegerField()
    estimated_input_tokens = models.PositiveBigIntegerField()
    input_ref = models.CharField(max_length=200, default="", blank=True)
    batch_ref = models.CharField(max_length=200, default="", blank=True)
    # What was taken for this job, where the provider keeps no token, and whose results proved to be another's.
    disproved_batch_refs = models.JSONField(default=list)
    # Since when people are asked whether it was sent, and what of the provider's list may be it (dicts of
    # ``batch_ref``, ``row_count`` or null, ``created_at`` in Unix seconds).
    unclear_since = models.DateTimeField(null=True, blank=True)
    candidates = models.JSONField(default=list)
    output_refs = models.JSONField(default=list)
    ending = models.CharField(max_length=10, default="", blank=True)
    # Why the job as a whole failed (a Fault of the port).
    fault = models.CharField(max_length=40, default="", blank=True)
    cancel_asked_at = models.DateTimeField(null=True, blank=True)
    # Its place among the batch's collected jobs, from 1.
    collected_number = models.PositiveIntegerField(null=True, blank=True)
    reported_done_count = models.PositiveIntegerField(default=0)
    reported_failed_count = models.PositiveIntegerField(default=0)
    results_blob = models.CharField(max_length=200, default="", blank=True)
    foreign_count = models.PositiveIntegerField(default=0)
    duplicate_count = models.PositiveIntegerField(default=0)
    missing_count = models.PositiveIntegerField(default=0)
    try_count = models.PositiveIntegerField(default=0)
    last_error = models.CharField(max_length=300, default="", blank=True)
    intended_at = models.DateTimeField()
    # When its rows were ready to be sent; before that no provider can have the job.
    submitting_at = models.DateTimeField(null=True, blank=True)
    submitted_at = models.DateTimeField(null=True, blank=True)
    polled_at = models.DateTimeField(null=True, blank=True)
    completed_at = models.DateTimeField(null=True, blank=True)
    collected_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["sub_lane", "number"], name="job_number_is_unique_in_sub_lane"),
            models.CheckConstraint(
                condition=~Q(state__in=["running", "ended", "collected"])
                | ~Q(batch_ref="")
                # It ended without having been sent, or before anybody found out whether it was.
                | Q(state__in=["ended", "collected"], ending__in=["failed", "cancelled", "expired"]),
                name="job_that_runs_has_a_provider_reference",
            ),
            models.CheckConstraint(
                condition=Q(unclear_since=None) | Q(state=JobState.UNKNOWN), name="job_that_is_unclear_is_unknown"
            ),
        ]
        indexes: ClassVar = [
            # The engine looks for what is due.
            models.Index(fields=["due_at"], condition=Q(due_at__isnull=False), name="job_due"),
            # What operators are asked to decide.
            models.Index(fields=["unclear_since"], condition=Q(unclear_since__isnull=False), name="job_unclear"),
            # How long the provider took lately.
            models.Index(fields=["account", "completed_at"], condition=Q(ending="completed"), name="job_lately"),
            # What is in flight on a lane.
            models.Index(fields=["state"], condition=~Q(state__in=["collected", "abandoned"]), name="job_in_flight"),
        ]

    def __str__(self) -> str:
        return self.token


class UnclearChoice(models.TextChoices):
    """What a person may decide about a job of which nobody can tell whether it was sent."""

    SEND_AGAIN = "send_again", "Send it again"
    ADOPT = "adopt", "It is this job of the provider"
    GIVE_UP = "give_up", "Give it up"


class UnclearDecision(models.Model):
    """One decision about an unclear job; append-only."""

    job = models.ForeignKey(ProviderJob, models.PROTECT, related_name="decisions")
    choice = models.CharField(max_length=10, choices=UnclearChoice)
    batch_ref = models.CharField(max_length=200, default="", blank=True)
    reason = models.CharField(max_length=200)
    decided_by = models.ForeignKey(User, models.PROTECT, related_name="+")
    decided_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(choice__in=UnclearChoice.values), name="unclear_choice_is_known"),
            models.CheckConstraint(
                condition=Q(choice=UnclearChoice.ADOPT) ^ Q(batch_ref=""), name="unclear_choice_names_what_it_adopts"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.choice} for job {self.job_id}"
