"""What settled rows taught: lessons, states with their history, decisions, and how accurate quotes were.

No text of a customer is here: numbers, and keyed hashes of the templates of jobs.
"""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from accounts.models import Organisation, User
from ground.leases import Claimable
from routing.models.batches import Batch


class LessonState(models.TextChoices):
    """Whether a settled batch has taught yet; ``skipped`` with a reason."""

    PENDING = "pending"
    LEARNED = "learned"
    SKIPPED = "skipped"


class BatchLesson(Claimable):
    """A settled batch that teaches once: it is learned in the transaction that changes what was learned."""

    batch = models.OneToOneField(Batch, models.PROTECT, related_name="lesson")
    state = models.CharField(max_length=10, choices=LessonState, default=LessonState.PENDING)
    reason = models.CharField(max_length=200, default="", blank=True)
    settled_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    # The version it made; null where it taught nothing.
    version = models.BigIntegerField(null=True, blank=True)

    class Meta:
        # The engine looks for what is due.
        indexes: ClassVar = [
            models.Index(fields=["due_at"], condition=Q(due_at__isnull=False), name="batch_lesson_due"),
        ]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(state="pending", ended_at__isnull=True) | (~Q(state="pending") & Q(ended_at__isnull=False)),
                name="batch_lesson_ends_once",
            ),
        ]

    def __str__(self) -> str:
        return f"lesson of batch {self.batch_id}"


class LearnedScope(models.TextChoices):
    """What a key stands for: a model over all customers, or a customer's model as such, by workflow or by job."""

    HOUSE = "house"
    CUSTOMER = "customer"
    WORKFLOW = "workflow"
    JOB = "job"


class LearnedState(models.Model):
    """The state of one key as it is now. A trigger keeps every state that ever was (:class:`LearnedStateVersion`).

    ``version`` is of one sequence for all keys, given out under a lock, so that a higher one is always the later one.
    """

    model_slug = models.CharField(max_length=120)
    # Empty: the model's own, over all customers.
    organisation = models.ForeignKey(Organisation, models.PROTECT, null=True, blank=True, related_name="+")
    scope = models.CharField(max_length=10, choices=LearnedScope)
    # A workflow's name, or a job's key in decimal digits.
    name = models.CharField(max_length=80, default="", blank=True)
    version = models.BigIntegerField()
    learned_at = models.DateTimeField()
    # A State or a HouseState, JSON.
    state = models.BinaryField()
    # Of a model's own state alone: whether it is learned of and used, and its ratio.
    is_on = models.BooleanField(default=True)
    house_ratio_ppm = models.IntegerField(default=1_000_000)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["model_slug", "organisation", "scope", "name"],
                nulls_distinct=False,
                name="learned_state_is_one_per_key",
            ),
            models.CheckConstraint(condition=Q(scope__in=LearnedScope.values), name="learned_scope_is_known"),
            models.CheckConstraint(
                condition=Q(scope="house", organisation__isnull=True)
                | (~Q(scope="house") & Q(organisation__isnull=False)),
                name="learned_state_has_a_customer_or_is_the_houses",
            ),
            models.CheckConstraint(
                condition=Q(house_ratio_ppm__gte=800_000, house_ratio_ppm__lte=1_250_000),
                name="learned_house_ratio_stays_in_its_bounds",
            ),
        ]
        indexes: ClassVar = [
            # The newest version of a customer, or of the house, with every call.
            models.Index(fields=["organisation", "-version"], name="learned_newest"),
            # A model's customers, when its own ratio is made.
            models.Index(fields=["model_slug", "scope"], name="learned_of_model"),
        ]

    def __str__(self) -> str:
        return f"{self.scope} {self.model_slug} {self.name}"


class LearnedStateVersion(models.Model):
    """Every state of every key; written by a trigger, never changed, kept for 90 days at least."""

    model_slug = models.CharField(max_length=120)
    organisation_id = models.BigIntegerField(null=True)
    scope = models.CharField(max_length=10)
    name = models.CharField(max_length=80)
    version = models.BigIntegerField()
    learned_at = models.DateTimeField()
    state = models.BinaryField()
    house_ratio_ppm = models.IntegerField()

    class Meta:
        # Going back: of each key of a model the newest state up to a version.
        indexes: ClassVar = [
            models.Index(fields=["model_slug", "organisation_id", "scope", "name", "-version"], name="learned_history"),
            models.Index(fields=["learned_at"], name="learned_history_by_age"),
        ]

    def __str__(self) -> str:
        return f"version {self.version} of {self.scope} {self.model_slug}"


class LearnedTable(models.Model):
    """A table that took over for a vocabulary that is not public; append-only. ``version`` is the one that it made."""

    model_slug = models.CharField(max_length=120)
    version = models.BigIntegerField()
    row_count = models.PositiveIntegerField()
    # What rows were off by, before and with it, on rows it had not seen; in parts per million.
    used_error_ppm = models.PositiveBigIntegerField()
    own_error_ppm = models.PositiveBigIntegerField()
    # A Fit, msgpack.
    fit = models.BinaryField()
    made_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["model_slug", "version"], name="learned_table_is_one_per_version"),
        ]

    def __str__(self) -> str:
        return f"table {self.version} of {self.model_slug}"


class TableInTheMaking(models.Model):
    """Sums over rows from which a model's next table is fitted, and how the candidate does (an Apprentice, msgpack)."""

    model_slug = models.CharField(max_length=120, unique=True)
    row_count = models.PositiveIntegerField()
    state = models.BinaryField()
    learned_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"table in the making of {self.model_slug}"


class LearningChoice(models.TextChoices):
    """What an operator may decide about what was learned of a model."""

    OFF = "off", "Stop learning, quote by the formula"
    ON = "on", "Learn and use what was learned"
    BACK = "back", "Go back to an earlier version"


class LearningDecision(models.Model):
    """One decision about a model's learning; append-only. ``version`` is the one that it made."""

    model_slug = models.CharField(max_length=120)
    choice = models.CharField(max_length=5, choices=LearningChoice)
    to_version = models.BigIntegerField(null=True, blank=True)
    version = models.BigIntegerField()
    reason = models.CharField(max_length=200)
    decided_by = models.ForeignKey(User, models.PROTECT, related_name="+")
    decided_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(choice__in=LearningChoice.values), name="learning_choice_is_known"),
            models.CheckConstraint(
                condition=Q(choice="back") ^ Q(to_version__isnull=True), name="learning_goes_back_to_a_version"
            ),
        ]
        # A model's decisions, newest first.
        indexes: ClassVar = [models.Index(fields=["model_slug", "-decided_at"], name="learning_decision_of_model")]

    def __str__(self) -> str:
        return f"{self.choice} for {self.model_slug}"


class GroupAccuracy(models.Model):
    """How a model group of a settled batch was quoted and what it settled at; written once, with its lesson.

    Tokens are of the rows that were charged. ``*_error_counts`` count rows by settled / quoted, in the buckets of
    ``routing.domain.accuracy``; ``*_absolute_error_ppm_sum`` adds up |settled / quoted - 1| over the rows looked at.
    """

    batch = models.ForeignKey(Batch, models.PROTECT, related_name="accuracies")
    group_index = models.PositiveSmallIntegerField()
    organisation = models.ForeignKey(Organisation, models.PROTECT, related_name="+", db_index=False)
    model_slug = models.CharField(max_length=120)
    settled_at = models.DateTimeField()
    row_count = models.PositiveIntegerField()
    quoted_input_tokens = models.PositiveBigIntegerField()
    settled_input_tokens = models.PositiveBigIntegerField()
    quoted_output_tokens = models.PositiveBigIntegerField()
    settled_output_tokens = models.PositiveBigIntegerField()
    # Of a very large group an even sample is looked at row by row.
    seen_row_count = models.PositiveIntegerField()
    set_aside_row_count = models.PositiveIntegerField()
    input_absolute_error_ppm_sum = models.PositiveBigIntegerField()
    output_absolute_error_ppm_sum = models.PositiveBigIntegerField()
    input_error_counts = ArrayField(models.PositiveIntegerField())
    output_error_counts = ArrayField(models.PositiveIntegerField())

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["batch", "group_index"], name="accuracy_is_one_per_batch_and_group"),
        ]
        indexes: ClassVar = [
            # The boards: a span over all customers, or of one.
            models.Index(fields=["settled_at"], name="accuracy_by_time"),
            models.Index(fields=["organisation", "settled_at"], name="accuracy_of_organisation"),
        ]

    def __str__(self) -> str:
        return f"accuracy of {self.batch_id}:{self.group_index}"
