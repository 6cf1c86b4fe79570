"""Workflows: what a customer says lanes are worth and must meet, by a name; every edit is a new version."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from accounts.models import ApiKey, Organisation, User
from routing.domain.constraints import DAY_MINUTES, LaneConstraints
from routing.domain.scoring import WebhookMode, WorkflowProfile


def _words() -> ArrayField[list[str], list[str]]:
    return ArrayField(models.CharField(max_length=40), default=list, blank=True)


class Workflow(models.Model):
    """A name in an organisation; what it says stands in its newest version. An archived one frees its name."""

    public_id = models.CharField(max_length=40, unique=True)
    organisation = models.ForeignKey(Organisation, models.PROTECT, related_name="workflows")
    name = models.CharField(max_length=64)
    version_number = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()
    archived_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints: ClassVar = [
            # Also serves the look-up by name of each quote, and the list.
            models.UniqueConstraint(
                fields=["organisation", "name"],
                condition=Q(archived_at__isnull=True),
                name="workflow_name_is_unique_in_its_organisation",
            ),
            models.CheckConstraint(
                condition=Q(name__regex=r"^[a-z0-9][a-z0-9-]*$") & ~Q(name="default"),
                name="workflow_name_is_a_word_of_its_own",
            ),
        ]

    def __str__(self) -> str:
        return self.public_id


class WorkflowVersion(models.Model):
    """What a workflow said from ``created_at`` on. Never edited: a trigger sees to it."""

    workflow = models.ForeignKey(Workflow, models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField()
    penalty_micro_usd_per_minute = models.BigIntegerField()
    penalty_micro_usd_per_percent = models.BigIntegerField()
    fan_out = models.BooleanField()
    webhook_mode = models.CharField(max_length=10, choices=[(mode.value, mode.value) for mode in WebhookMode])
    regions = _words()
    providers_allowed = _words()
    providers_denied = _words()
    max_input_rate_micro_usd_per_mtok = models.BigIntegerField(null=True, blank=True)
    max_output_rate_micro_usd_per_mtok = models.BigIntegerField(null=True, blank=True)
    finish_by_minutes = models.IntegerField(null=True, blank=True)
    created_at = models.DateTimeField()
    # Whose hand it was: a person on a page, or a program with a key.
    created_by = models.ForeignKey(User, models.PROTECT, null=True, blank=True, related_name="+")
    api_key = models.ForeignKey(ApiKey, models.PROTECT, null=True, blank=True, related_name="+")

    class Meta:
        constraints: ClassVar = [
            # Serves the newest version, and the history.
            models.UniqueConstraint(fields=["workflow", "number"], name="workflow_version_has_a_number_of_its_own"),
            models.CheckConstraint(
                condition=Q(number__gte=1)
                & Q(penalty_micro_usd_per_minute__gte=0)
                & Q(penalty_micro_usd_per_percent__gte=0),
                name="workflow_penalties_are_not_negative",
            ),
            models.CheckConstraint(
                condition=(Q(finish_by_minutes__isnull=True) | Q(finish_by_minutes__range=(1, DAY_MINUTES)))
                & (Q(max_input_rate_micro_usd_per_mtok__isnull=True) | Q(max_input_rate_micro_usd_per_mtok__gte=0))
                & (Q(max_output_rate_micro_usd_per_mtok__isnull=True) | Q(max_output_rate_micro_usd_per_mtok__gte=0)),
                name="workflow_constraints_are_within_bounds",
            ),
        ]

    def __str__(self) -> str:
        return f"version {self.number} of workflow {self.workflow_id}"

    @property
    def profile(self) -> WorkflowProfile:
        """What it says, as the quote path reads it."""
        return WorkflowProfile(
            name=self.workflow.name,
            version=self.number,
            penalty_micro_usd_per_minute=self.penalty_micro_usd_per_minute,
            penalty_micro_usd_per_percent=self.penalty_micro_usd_per_percent,
            fan_out=self.fan_out,
            webhook_mode=WebhookMode(self.webhook_mode),
            constraints=LaneConstraints(
                regions=tuple(self.regions),
                providers_allowed=tuple(self.providers_allowed),
                providers_denied=tuple(self.providers_denied),
                max_input_rate_micro_usd_per_mtok=self.max_input_rate_micro_usd_per_mtok,
                max_output_rate_micro_usd_per_mtok=self.max_output_rate_micro_usd_per_mtok,
                finish_by_minutes=self.finish_by_minutes,
            ),
        )
