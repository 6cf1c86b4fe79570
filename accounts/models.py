"""Organisations, users, memberships, API keys."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.auth.models import AbstractBaseUser, BaseUserManager
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from accounts.domain.limits import BucketKind
from accounts.domain.scopes import Scope
from accounts.domain.staff_scopes import StaffScope


class OrganisationKind(models.TextChoices):
    """A customer, or the test twin of one (play credit, simulator lanes)."""

    CUSTOMER = "customer"
    TEST = "test"


class Organisation(models.Model):
    """A tenant. Its ``slug`` is the namespace of its keys."""

    public_id = models.CharField(max_length=40, unique=True)
    slug = models.CharField(max_length=32)
    name = models.CharField(max_length=120)
    kind = models.CharField(max_length=10, choices=OrganisationKind, default=OrganisationKind.CUSTOMER)
    # Set on a test twin: the customer it belongs to.
    twin_of = models.OneToOneField("self", models.PROTECT, null=True, blank=True, related_name="test_twin")
    reporting_zone = models.CharField(max_length=64, default="UTC")
    billing_blocked_at = models.DateTimeField(null=True, blank=True)
    calls_per_minute = models.PositiveIntegerField(default=600)
    input_tokens_per_minute = models.PositiveBigIntegerField(default=50_000_000)
    accepts_per_minute = models.PositiveIntegerField(default=60)
    created_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["slug"], condition=Q(kind="customer"), name="organisation_slug_is_unique_among_customers"
            ),
            models.CheckConstraint(
                condition=Q(kind="customer", twin_of__isnull=True) | Q(kind="test", twin_of__isnull=False),
                name="organisation_is_a_customer_or_a_twin",
            ),
            models.CheckConstraint(
                condition=Q(slug__regex=r"^[a-z0-9]+$") & ~Q(slug="test"), name="organisation_slug_is_a_key_namespace"
            ),
            models.CheckConstraint(
                condition=Q(calls_per_minute__gte=1, input_tokens_per_minute__gte=1, accepts_per_minute__gte=1),
                name="organisation_limits_allow_something",
            ),
        ]

    def __str__(self) -> str:
        return self.public_id

    @property
    def is_test(self) -> bool:
        """Say whether this is a test twin."""
        return self.kind == OrganisationKind.TEST


class RateBucket(models.Model):
    """One of the three buckets of an organisation (``domain.limits``); a trigger makes them with it.

    ``full_at`` is in no index and the table's pages have room, so that each call's update stays in its page (HOT).
    """

    organisation = models.ForeignKey(Organisation, models.CASCADE, related_name="+", db_index=False)
    kind = models.CharField(max_length=10, choices=[(kind.value, kind.value) for kind in BucketKind])
    full_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["organisation", "kind"], name="bucket_is_one_per_organisation_and_kind")
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.organisation_id}"


class SignInBucket(models.Model):
    """How often one subject (an address, an account, both together; by hash) may still try (``services.sign_in``)."""

    subject = models.BinaryField(max_length=32, unique=True)
    # The sweep looks for the oldest.
    full_at = models.DateTimeField(db_index=True)
    succeeded_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"sign-in bucket {self.pk}"


class StaffRole(models.TextChoices):
    """What a member of our own staff may do; customers have none."""

    NONE = ""
    OPERATOR = "operator"
    FINANCE = "finance"
    SUPPORT = "support"
    SUPERADMIN = "superadmin"


class UserManager(BaseUserManager["User"]):
    """Makes users by e-mail address."""

    def create_user(self, *, email: str, password: str | None = None, **fields: Any) -> User:  # noqa: ANN401
        """Make and save a user; without a password nobody can sign in as them."""
        user = self.model(email=self.normalize_email(email).lower(), **fields)
        user.set_password(password)
        user.save(using=self._db)
        return user

    def get_by_natural_key(self, username: str | None) -> User:
        """Find a user by e-mail address, whatever its case."""
        return self.get(email=(username or "").lower())


class User(AbstractBaseUser):
    """A person who signs in to the pages."""

    email = models.EmailField(unique=True)
    name = models.CharField(max_length=120)
    staff_role = models.CharField(max_length=12, choices=StaffRole, default=StaffRole.NONE, blank=True)
    is_active = models.BooleanField(default=True)
    time_zone = models.CharField(max_length=64, blank=True, default="")
    shortcuts_off = models.BooleanField(default=False)
    created_at = models.DateTimeField()

    USERNAME_FIELD = "email"
    REQUIRED_FIELDS: ClassVar = ["name"]
    objects: ClassVar = UserManager()

    def __str__(self) -> str:
        return f"user {self.pk}"


class MemberRole(models.TextChoices):
    """What a member may do in an organisation."""

    ADMIN = "admin"
    DEVELOPER = "developer"
    BILLING = "billing"
    VIEWER = "viewer"


class Membership(models.Model):
    """A user in an organisation, with one role."""

    organisation = models.ForeignKey(Organisation, models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10, choices=MemberRole)
    created_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["organisation", "user"], name="membership_is_one_per_user_and_organisation")
        ]

    def __str__(self) -> str:
        return f"membership {self.pk}"


class ApiKey(models.Model):
    """A bearer key. Only the SHA-256 of its whole text is kept, and four characters to recognise it by."""

    public_id = models.CharField(max_length=40, unique=True)
    organisation = models.ForeignKey(Organisation, models.PROTECT, related_name="api_keys")
    name = models.CharField(max_length=80)
    key_hash = models.BinaryField(max_length=32, unique=True)
    prefix = models.CharField(max_length=60)
    last_four = models.CharField(max_length=4)
    # Empty: every scope; so are keys that were made before there were scopes.
    scopes = ArrayField(models.CharField(max_length=40), default=list, blank=True)
    created_by = models.ForeignKey(User, models.SET_NULL, null=True, blank=True, related_name="+")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(expires_at__isnull=True) | Q(expires_at__gt=F("created_at")),
                name="api_key_expires_after_it_was_made",
            ),
            models.CheckConstraint(
                condition=Q(scopes__contained_by=[scope.value for scope in Scope]), name="api_key_scopes_are_known"
            ),
        ]

    def __str__(self) -> str:
        return self.public_id


class StaffKey(models.Model):
    """A bearer key of one of our own people, for ``/v1/finance``; only its hash is kept. It always expires."""

    public_id = models.CharField(max_length=40, unique=True)
    user = models.ForeignKey(User, models.PROTECT, related_name="staff_keys")
    name = models.CharField(max_length=80)
    key_hash = models.BinaryField(max_length=32, unique=True)
    prefix = models.CharField(max_length=60)
    last_four = models.CharField(max_length=4)
    scopes = ArrayField(models.CharField(max_length=40))
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(scopes__contained_by=[scope.value for scope in StaffScope]) & ~Q(scopes=[]),
                name="staff_key_scopes_are_known",
            ),
            models.CheckConstraint(
                condition=Q(expires_at__gt=F("created_at")), name="staff_key_expires_after_it_was_made"
            ),
        ]

    def __str__(self) -> str:
        return self.public_id


class KeptCall(models.Model):
    """A call that came with an ``Idempotency-Key``: claimed before its work, then with its answer for a day.

    It belongs to an organisation or, under ``/v1/finance``, to the person in whose name it was made: two people who
    chose the same key are two. A claim is numbered, so that a process that comes back after its claim lapsed cannot
    answer for the one that has it now. The answer is encrypted: some hold a secret that is shown once.
    """

    organisation = models.ForeignKey(Organisation, models.PROTECT, null=True, related_name="+")
    user = models.ForeignKey(User, models.PROTECT, null=True, related_name="+", db_index=False)
    # Method and address with the names of its parameters; their values are part of the hash.
    route = models.CharField(max_length=120)
    key = models.CharField(max_length=255)
    body_hash = models.BinaryField(max_length=32)
    claim_number = models.PositiveIntegerField()
    # The sweep looks for the oldest.
    claimed_at = models.DateTimeField(db_index=True)
    status_code = models.PositiveSmallIntegerField(null=True, blank=True)
    content = models.BinaryField(null=True, blank=True)
    location = models.CharField(max_length=200, default="", blank=True)
    answered_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["organisation", "user", "route", "key"],
                name="kept_call_is_one_per_caller_route_and_key",
                nulls_distinct=False,
            ),
            models.CheckConstraint(
                condition=Q(organisation__isnull=False, user=None) | Q(organisation=None, user__isnull=False),
                name="kept_call_is_an_organisations_or_a_persons",
            ),
            models.CheckConstraint(
                condition=Q(status_code=None, content=None, answered_at=None)
                | Q(status_code__isnull=False, content__isnull=False, answered_at__isnull=False),
                name="kept_call_has_its_whole_answer_or_none",
            ),
            models.CheckConstraint(
                condition=Q(status_code=None)
                | Q(~Q(status_code__in=[409, 429]), status_code__gte=200, status_code__lt=500),
                name="kept_call_keeps_no_answer_that_will_pass",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.organisation_id or self.user_id}:{self.route}"


class ActorKind(models.TextChoices):
    """Whose hand an action was: a person's, a program's with a key, or the product's own (commands, sweeps)."""

    USER = "user", "A person"
    KEY = "key", "An API key"
    SYSTEM = "system", "The system"


class AuditEntry(models.Model):
    """One action of staff, members or keys, written in its own transaction (``accounts.audit``) and never changed.

    ``changes`` is {field: [from, to]}. Names and roles are kept as they were then.
    """

    public_id = models.CharField(max_length=40, unique=True)
    # The database's clock, set by a trigger.
    at = models.DateTimeField()
    actor_kind = models.CharField(max_length=10, choices=ActorKind)
    user = models.ForeignKey(User, models.PROTECT, null=True, related_name="+", db_index=False)
    api_key = models.ForeignKey(ApiKey, models.PROTECT, null=True, related_name="+", db_index=False)
    actor_name = models.CharField(max_length=120)
    # Empty for keys and the system.
    actor_role = models.CharField(max_length=12)
    is_staff = models.BooleanField()
    organisation = models.ForeignKey(Organisation, models.PROTECT, null=True, related_name="+", db_index=False)
    action = models.CharField(max_length=60)
    object_type = models.CharField(max_length=40)
    object_id = models.CharField(max_length=250)
    changes = models.JSONField(default=dict)
    reason = models.CharField(max_length=500)
    request_id = models.CharField(max_length=64)
    address = models.CharField(max_length=64)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(actor_kind="user", user__isnull=False, api_key__isnull=True)
                | Q(actor_kind="key", user__isnull=True, api_key__isnull=False)
                | Q(actor_kind="system", user__isnull=True, api_key__isnull=True),
                name="audit_entry_names_its_actor",
            ),
            models.CheckConstraint(
                condition=Q(action__regex=r"^[a-z_]+\.[a-z_]+$"), name="audit_action_is_a_dotted_word"
            ),
        ]
        indexes: ClassVar = [
            # An organisation's own log, newest first.
            models.Index(fields=["organisation", "-id"], name="audit_of_organisation"),
            # What was done to one thing, and one kind of action.
            models.Index(fields=["object_id", "-id"], name="audit_of_object"),
            models.Index(fields=["action", "-id"], name="audit_of_action"),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.public_id}"
