"""Reads of accounts: who is calling, what a person belongs to."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import F, Func, Q, QuerySet
from django.db.models.fields import DateTimeField

from accounts.domain.keys import hash_key, is_well_formed
from accounts.models import ApiKey, Membership, Organisation, User
from ground.errors import AuthenticationFailed, NotFound

DATABASE_NOW = Func(function="lanehouse_now", output_field=DateTimeField())


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who makes a call: the organisation, and the key it came with; None for a member on a page."""

    organisation: Organisation
    api_key: ApiKey | None


def caller_by_key(text: str) -> Caller:
    """Give the caller a bearer key stands for, by the database's clock, without counting a call.

    Raises:
        AuthenticationFailed: The key is malformed, unknown, revoked or expired; the message does not say which.
    """
    if is_well_formed(text):
        key = (
            ApiKey.objects.select_related("organisation")
            .filter(key_hash=hash_key(text), revoked_at__isnull=True)
            .filter(Q(expires_at__isnull=True) | Q(expires_at__gt=DATABASE_NOW))
            .first()
        )
        if key is not None:
            return Caller(organisation=key.organisation, api_key=key)
    raise not_a_key()


def not_a_key() -> AuthenticationFailed:
    """Give the refusal of a key; the same whatever is wrong with it."""
    return AuthenticationFailed("The API key is not valid. Check it, or ask your administrator for a new one.")


def organisations_of(user: User) -> QuerySet[Organisation]:
    """Give the organisations a person is a member of, by name."""
    return Organisation.objects.filter(memberships__user=user).order_by("name", "pk")


def membership_of(user: User, organisation_id: str | None = None) -> Membership:
    """Give a person's membership: in the named organisation, else in the first by name.

    Raises:
        NotFound: The person is not a member there.
    """
    memberships = Membership.objects.select_related("organisation").filter(user=user)
    if organisation_id is not None:
        memberships = memberships.filter(organisation__public_id=organisation_id)
    membership = memberships.order_by(F("organisation__name"), "pk").first()
    if membership is None:
        raise NotFound("You are not a member of an organisation here.")
    return membership
