"""Endpoints, events, deliveries, and the log of their attempts."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Length
from django.db.models.lookups import LessThanOrEqual

from accounts.models import Organisation
from ground.leases import Claimable
from webhooks.domain import records

_trigger_choices = [(trigger.value, trigger.name) for trigger in records.Trigger]
_outcome_choices = [(outcome.value, outcome.name) for outcome in records.Outcome]


class EndpointState(models.TextChoices):
    """Whether an endpoint is sent to. A deleted one is kept for the log."""

    ENABLED = "enabled"
    DISABLED = "disabled"
    DELETED = "deleted"


class Endpoint(models.Model):
    """Where an organisation receives events, and the secret they are signed with."""

    public_id = models.CharField(max_length=40, unique=True)
    organisation = models.ForeignKey(Organisation, models.PROTECT, related_name="webhook_endpoints", db_index=False)
    url = models.CharField(max_length=2048)
    name = models.CharField(max_length=200, blank=True)
    # Empty: every type.
    event_types = ArrayField(models.CharField(max_length=80), default=list, blank=True)
    state = models.CharField(max_length=8, choices=EndpointState, default=EndpointState.ENABLED)
    state_reason = models.CharField(max_length=200, blank=True)
    state_changed_at = models.DateTimeField()
    # Encrypted (ground.secrets). The previous secret signs too until its overlap ends.
    secret = models.BinaryField()
    secret_last_four = models.CharField(max_length=4)
    # From 1; moves with each rotation, and each attempt says which one signed it.
    secret_generation = models.PositiveIntegerField(default=1)
    secret_made_at = models.DateTimeField()
    previous_secret = models.BinaryField(null=True, blank=True)
    previous_secret_until = models.DateTimeField(null=True, blank=True)
    # Failures in a row, and when the row began; a success ends it.
    failure_streak_count = models.PositiveIntegerField(default=0)
    failing_since = models.DateTimeField(null=True, blank=True)
    # When a sender last looked here: the least recently served goes first.
    served_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(state__in=EndpointState.values), name="endpoint_state_is_known"),
            models.CheckConstraint(
                condition=~Q(state="disabled") | ~Q(state_reason=""), name="endpoint_disabled_has_a_reason"
            ),
            models.CheckConstraint(
                condition=Q(previous_secret__isnull=True, previous_secret_until__isnull=True)
                | Q(previous_secret__isnull=False, previous_secret_until__isnull=False),
                name="endpoint_previous_secret_has_an_end",
            ),
            models.CheckConstraint(
                condition=Q(failure_streak_count=0, failing_since__isnull=True)
                | Q(failure_streak_count__gte=1, failing_since__isnull=False),
                name="endpoint_failing_has_a_beginning",
            ),
        ]
        indexes: ClassVar = [
            # Serves the list, the limit on their number, and who is subscribed.
            models.Index(fields=["organisation", "-id"], name="endpoint_by_organisation"),
            # Serves the choice of whom to serve next.
            models.Index(F("served_at").asc(nulls_first=True), condition=Q(state="enabled"), name="endpoint_by_turn"),
        ]

    def __str__(self) -> str:
        return self.public_id


class Event(models.Model):
    """Something that happened, as the bytes that every attempt sends. Never edited: the database sees to it."""

    public_id = models.CharField(max_length=40, unique=True)
    organisation = models.ForeignKey(Organisation, models.PROTECT, related_name="+", db_index=False)
    type = models.CharField(max_length=80)
    payload = models.BinaryField()
    # Names the fact: told twice, it is still one event.
    business_key = models.CharField(max_length=200)
    happened_at = models.DateTimeField()
    created_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["organisation", "business_key"], name="event_is_one_per_fact"),
            models.CheckConstraint(
                condition=Q(LessThanOrEqual(Length("payload"), records.PAYLOAD_MAX_BYTES)),
                name="event_payload_fits_a_receiver",
            ),
        ]
        # Serves the list.
        indexes: ClassVar = [models.Index(fields=["organisation", "-id"], name="event_by_organisation")]

    def __str__(self) -> str:
        return self.public_id


class DeliveryState(models.TextChoices):
    """``failed``: the ladder is used up. ``ended``: the receiver's answer or a person ended it before."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"
    ENDED = "ended"


class Delivery(Claimable):
    """One event on its way to one endpoint. Due whenever ``due_at`` is set, also when a person asked for it again."""

    public_id = models.CharField(max_length=40, unique=True)
    organisation = models.ForeignKey(Organisation, models.PROTECT, related_name="+", db_index=False)
    endpoint = models.ForeignKey(Endpoint, models.PROTECT, related_name="deliveries", db_index=False)
    event = models.ForeignKey(Event, models.PROTECT, related_name="deliveries", db_index=False)
    is_test = models.BooleanField(default=False)
    state = models.CharField(max_length=9, choices=DeliveryState, default=DeliveryState.PENDING)
    # Why it ended or failed; empty otherwise.
    state_reason = models.CharField(max_length=40, blank=True)
    state_changed_at = models.DateTimeField()
    # All rows of the log; the steps of the ladder used; the sends of which nothing is known.
    attempt_count = models.PositiveIntegerField(default=0)
    failure_count = models.PositiveIntegerField(default=0)
    interruption_count = models.PositiveIntegerField(default=0)
    last_outcome = models.CharField(max_length=12, choices=_outcome_choices, blank=True)
    last_status_code = models.PositiveIntegerField(null=True, blank=True)
    last_attempt_at = models.DateTimeField(null=True, blank=True)
    resend_requested_at = models.DateTimeField(null=True, blank=True)
    resend_requested_by = models.CharField(max_length=120, blank=True)
    # The ladder's own time, kept while a resend goes before it.
    resumes_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["event", "endpoint"], name="delivery_is_one_per_event_and_endpoint"),
            models.CheckConstraint(condition=Q(state__in=DeliveryState.values), name="delivery_state_is_known"),
            models.CheckConstraint(
                condition=Q(due_at__isnull=False) & (Q(state="pending") | Q(resend_requested_at__isnull=False))
                | Q(due_at__isnull=True, resend_requested_at__isnull=True) & ~Q(state="pending"),
                name="delivery_is_due_while_pending_or_asked_for_again",
            ),
            models.CheckConstraint(
                condition=Q(resumes_at__isnull=True) | Q(resend_requested_at__isnull=False),
                name="delivery_resumes_after_a_resend",
            ),
        ]
        indexes: ClassVar = [
            # Serves the claim.
            models.Index(fields=["endpoint", "due_at"], condition=Q(due_at__isnull=False), name="delivery_by_due"),
            # Serve the caps on what is in flight.
            models.Index(
                fields=["endpoint", "lease_until"], condition=Q(lease_until__isnull=False), name="delivery_in_flight"
            ),
            models.Index(
                fields=["organisation", "lease_until"],
                condition=Q(lease_until__isnull=False),
                name="delivery_in_flight_of_all",
            ),
            # Serve the lists.
            models.Index(fields=["organisation", "-id"], name="delivery_by_organisation"),
            models.Index(fields=["organisation", "state", "-id"], name="delivery_by_state"),
            models.Index(fields=["endpoint", "-id"], name="delivery_by_endpoint"),
        ]

    def __str__(self) -> str:
        return self.public_id


class DeliveryAttempt(models.Model):
    """One send and what it met: append-only, partitioned by ``started_at`` (month)."""

    # Key order serves the attempts of a delivery.
    pk = models.CompositePrimaryKey("delivery_id", "number", "started_at")
    delivery = models.ForeignKey(Delivery, models.PROTECT, related_name="attempts", db_index=False)
    # From 1, whatever the trigger.
    number = models.PositiveIntegerField()
    started_at = models.DateTimeField()
    trigger = models.CharField(max_length=6, choices=_trigger_choices)
    # Who asked for a manual one.
    requested_by = models.CharField(max_length=120, blank=True)
    outcome = models.CharField(max_length=12, choices=_outcome_choices)
    detail = models.CharField(max_length=200, blank=True)
    duration_ms = models.PositiveIntegerField()
    status_code = models.PositiveIntegerField(null=True, blank=True)
    response_headers = models.TextField(blank=True)
    response_body = models.TextField(blank=True)
    address = models.CharField(max_length=64, blank=True)
    secret_generation = models.PositiveIntegerField()

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(outcome__in=[value for value, _ in _outcome_choices]),
                name="delivery_attempt_outcome_is_known",
            ),
            models.CheckConstraint(
                condition=Q(trigger__in=[value for value, _ in _trigger_choices]),
                name="delivery_attempt_trigger_is_known",
            ),
            models.CheckConstraint(condition=Q(number__gte=1), name="delivery_attempt_is_numbered_from_one"),
        ]

    def __str__(self) -> str:
        return f"attempt {self.number}"
