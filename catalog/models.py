"""Providers, models and their names, lanes, rate versions, SLA samples, and the version that moves with all of them."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.lookups import GreaterThanOrEqual, LessThanOrEqual

from catalog.domain import records
from catalog.pricing import models as _pricing  # noqa: F401 -- Django finds an app's models through this module

_rotation_choices = [(rotation.value, rotation.name) for rotation in records.Rotation]
_kind_choices = [(kind.value, kind.name) for kind in records.TokenKind]


class Provider(models.Model):
    """A company that runs models behind a Batch API."""

    slug = models.CharField(max_length=32, unique=True)
    name = models.CharField(max_length=80)
    # Without an adapter no lane of this provider can be in rotation.
    has_adapter = models.BooleanField(default=False)

    def __str__(self) -> str:
        return self.slug


class Model(models.Model):
    """What a customer names in a row: one exact snapshot, under one or more names.

    Where a provider moves an alias to a newer snapshot, a :class:`ModelName` moves; a model's snapshot never changes.
    """

    slug = models.CharField(max_length=120, unique=True)
    maker = models.CharField(max_length=40)
    model_snapshot = models.CharField(max_length=120)
    endpoints = ArrayField(models.CharField(max_length=40))
    vocabulary = models.CharField(max_length=32)
    vocabulary_is_public = models.BooleanField()
    max_input_tokens = models.PositiveIntegerField()
    max_output_tokens = models.PositiveIntegerField()
    retires_at = models.DateTimeField(null=True, blank=True)
    successor = models.ForeignKey("self", models.PROTECT, null=True, blank=True, related_name="+")
    added_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["model_snapshot"], name="model_is_one_per_snapshot"),
            models.CheckConstraint(condition=~Q(successor=F("id")), name="model_does_not_succeed_itself"),
        ]

    def __str__(self) -> str:
        return self.slug


class NameKind(models.TextChoices):
    """Why a spelling is accepted."""

    SLUG = "slug"
    ALIAS = "alias"
    DATED = "dated"


class ModelName(models.Model):
    """One accepted spelling of a model."""

    name = models.CharField(max_length=160)
    kind = models.CharField(max_length=5, choices=NameKind)
    model = models.ForeignKey(Model, models.PROTECT, related_name="names")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["name"], name="model_name_means_one_model"),
            models.UniqueConstraint(
                fields=["model"], condition=Q(kind="slug"), name="model_has_one_slug_among_its_names"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Lane(models.Model):
    """One model at one provider in one region. ``lane_id`` names the route and is unique within its model."""

    model = models.ForeignKey(Model, models.PROTECT, related_name="lanes")
    provider = models.ForeignKey(Provider, models.PROTECT, related_name="lanes")
    lane_id = models.CharField(max_length=80)
    region = models.CharField(max_length=32)
    # The provider's spelling: the `model_id` of the public contract.
    provider_model_id = models.CharField(max_length=160)
    rotation = models.CharField(max_length=5, choices=_rotation_choices)
    rotation_reason = models.CharField(max_length=200, blank=True)
    rotation_changed_at = models.DateTimeField()
    # Empty: the loader, not a person.
    rotation_changed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, null=True, blank=True, related_name="+"
    )
    retires_at = models.DateTimeField(null=True, blank=True)
    enqueued_tokens_limit = models.PositiveBigIntegerField()
    minimum_rows = models.PositiveIntegerField(default=1)
    maximum_rows_per_job = models.PositiveIntegerField()
    maximum_bytes_per_job = models.PositiveBigIntegerField()
    # Where its provider's adapter cannot carry it, it cannot be in rotation.
    is_carried = models.BooleanField(default=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["model", "lane_id"], name="lane_id_is_unique_within_its_model"),
            models.UniqueConstraint(
                fields=["provider", "region", "provider_model_id"], name="lane_is_one_per_provider_region_and_model_id"
            ),
            models.CheckConstraint(
                condition=Q(rotation__in=[value for value, _ in _rotation_choices]), name="lane_rotation_is_known"
            ),
            models.CheckConstraint(
                condition=Q(rotation="in") | ~Q(rotation_reason=""), name="lane_out_of_rotation_has_a_reason"
            ),
            models.CheckConstraint(
                condition=Q(minimum_rows__gte=1, minimum_rows__lte=F("maximum_rows_per_job")),
                name="lane_takes_at_least_its_minimum_rows",
            ),
        ]

    def __str__(self) -> str:
        return f"lane {self.pk}"


class LaneRotation(models.Model):
    """One change of a lane's rotation: append-only."""

    lane = models.ForeignKey(Lane, models.PROTECT, related_name="rotations")
    from_rotation = models.CharField(max_length=5, choices=_rotation_choices)
    to_rotation = models.CharField(max_length=5, choices=_rotation_choices)
    reason = models.CharField(max_length=200)
    changed_at = models.DateTimeField()
    changed_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, blank=True, related_name="+")

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=~Q(from_rotation=F("to_rotation")), name="lane_rotation_changes_something"
            ),
            models.CheckConstraint(condition=~Q(reason=""), name="lane_rotation_has_a_reason"),
        ]
        # Serves the lane's history, newest first.
        indexes: ClassVar = [models.Index(fields=["lane", "-changed_at"], name="lane_rotation_by_lane")]

    def __str__(self) -> str:
        return f"rotation {self.pk}"


class Card(models.TextChoices):
    """Whose rates: what the customer pays, what the provider bills, what the provider lists for synchronous calls."""

    SELL = "sell"
    PROVIDER_BATCH = "provider_batch"
    LIST = "list"


class RateOrigin(models.TextChoices):
    """Who made a version: the loader from its document, or a person."""

    DOCUMENT = "document"
    OPERATOR = "operator"


class RateVersion(models.Model):
    """One lane's rates on one card from ``valid_from`` on, until a later version of that card begins. Never edited."""

    lane = models.ForeignKey(Lane, models.PROTECT, related_name="rate_versions")
    card = models.CharField(max_length=14, choices=Card)
    origin = models.CharField(max_length=8, choices=RateOrigin)
    valid_from = models.DateTimeField()
    made_at = models.DateTimeField()
    # Set by the database: only the transaction that made a version may give it lines.
    made_in_transaction = models.BigIntegerField(editable=False, default=0)

    class Meta:
        constraints: ClassVar = [
            # Also serves the look-up of the version that holds at an instant.
            models.UniqueConstraint(fields=["lane", "card", "valid_from"], name="rate_version_is_one_per_start"),
            models.CheckConstraint(condition=Q(card__in=Card.values), name="rate_version_card_is_known"),
            models.CheckConstraint(condition=Q(valid_from__gte=F("made_at")), name="rate_version_is_not_backdated"),
        ]

    def __str__(self) -> str:
        return f"rate version {self.pk}"


_DISCOUNTED = F("published_rate_micro_usd_per_mtok") * (10_000 - F("discount_basis_points"))


class RateLine(models.Model):
    """One rate of a version: published, less a discount, is what holds; rounded half-even once, when it is made."""

    version = models.ForeignKey(RateVersion, models.PROTECT, related_name="lines")
    kind = models.CharField(max_length=14, choices=_kind_choices)
    context_from_tokens = models.PositiveIntegerField(default=0)
    published_rate_micro_usd_per_mtok = models.PositiveBigIntegerField()
    discount_basis_points = models.PositiveIntegerField(default=0)
    rate_micro_usd_per_mtok = models.PositiveBigIntegerField()
    # True: nobody published this rate; it follows from the card's input rate, or from the batch rate for a list rate.
    is_derived = models.BooleanField(default=False)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["version", "kind", "context_from_tokens"], name="rate_line_is_one_per_kind_and_tier"
            ),
            models.CheckConstraint(
                condition=Q(kind__in=[value for value, _ in _kind_choices]), name="rate_line_kind_is_known"
            ),
            models.CheckConstraint(
                condition=Q(discount_basis_points__lte=10_000), name="rate_line_discount_is_at_most_all"
            ),
            models.CheckConstraint(
                condition=Q(
                    GreaterThanOrEqual(F("rate_micro_usd_per_mtok") * 10_000, _DISCOUNTED - 5_000),
                    LessThanOrEqual(F("rate_micro_usd_per_mtok") * 10_000, _DISCOUNTED + 5_000),
                ),
                name="rate_line_is_published_less_its_discount",
            ),
        ]

    def __str__(self) -> str:
        return f"rate line {self.pk}"


class SampleSource(models.TextChoices):
    """Where a sample's figures come from: our own attempts, or the catalog's data file."""

    MEASURED = "measured"
    SEED = "seed"


class SlaSample(models.Model):
    """One lane's health in one SLA snapshot; partitioned by ``taken_at`` (month), so that old ones can be dropped."""

    # Key order serves the newest sample of a lane.
    pk = models.CompositePrimaryKey("lane_id", "taken_at")
    lane = models.ForeignKey(Lane, models.PROTECT, related_name="sla_samples")
    taken_at = models.DateTimeField()
    source = models.CharField(max_length=8, choices=SampleSource)
    error_ppm = models.PositiveIntegerField()
    p95_dispatch_ms = models.PositiveIntegerField()
    p50_completion_minutes = models.PositiveIntegerField()
    p95_completion_minutes = models.PositiveIntegerField()
    sample_count = models.PositiveBigIntegerField()
    enqueued_tokens = models.PositiveBigIntegerField()

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(error_ppm__lte=1_000_000), name="sla_sample_error_rate_is_at_most_one"),
            models.CheckConstraint(
                condition=Q(p50_completion_minutes__lte=F("p95_completion_minutes")),
                name="sla_sample_median_is_at_most_p95",
            ),
        ]

    def __str__(self) -> str:
        return "SLA sample"


class CatalogVersion(models.Model):
    """The only row's two numbers move with every change: triggers see to it, so hand-written SQL moves them too.

    The numbers come from a sequence: one that a rolled-back transaction has shown never means another catalog later.
    """

    catalog_version = models.BigIntegerField()
    sla_version = models.BigIntegerField()

    class Meta:
        constraints: ClassVar = [models.CheckConstraint(condition=Q(id=1), name="catalog_version_is_one_row")]

    def __str__(self) -> str:
        return f"catalog version {self.catalog_version}"
