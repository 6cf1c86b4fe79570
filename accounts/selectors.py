"""Reads of accounts: who is calling, what a person belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import F, Func, Q, QuerySet, TextChoices
from django.db.models.fields import DateTimeField

from accounts.domain.keys import hash_key, is_well_formed
from accounts.models import ApiKey, Membership, Organisation, StaffKey, User
from ground.errors import AuthenticationFailed, NotFound
from ground.ids import is_public_id

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


class KeyState(TextChoices):
    """What a key is now."""

    ACTIVE = "active", "Active"
    EXPIRED = "expired", "Expired"
    REVOKED = "revoked", "Revoked"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPage:
    """A page of keys, and whether there are more."""

    keys: tuple[ApiKey, ...]
    has_more: bool


def key_state(key: ApiKey | StaffKey, at: datetime) -> KeyState:
    """Say what a key is at an instant; instants of any offset are compared as such."""
    if key.revoked_at is not None:
        return KeyState.REVOKED
    return KeyState.EXPIRED if key.expires_at is not None and key.expires_at <= at else KeyState.ACTIVE


def api_key_page(
    organisation: Organisation, *, after: str | None, limit: int, text: str = "", state: str = "", kind: str = ""
) -> KeyPage:
    """Give up to ``limit`` keys of an organisation and of its test twin, newest first.

    Args:
        organisation: The customer.
        after: Public id of the last key of the page before.
        limit: How many a page has.
        text: Part of the name, or the last four characters.
        state: A :class:`KeyState`.
        kind: An organisation's kind: the customer's keys only, or the twin's.

    Raises:
        NotFound: ``after`` is no key of this organisation.
    """
    found = _keys_of(organisation)
    if text:
        found = found.filter(Q(name__icontains=text) | Q(last_four=text))
    if state:
        found = found.filter(_IN_STATE[KeyState(state)])
    if kind:
        found = found.filter(organisation__kind=kind)
    if after is not None:
        last = api_key_by_id(organisation, after)
        found = found.filter(Q(created_at__lt=last.created_at) | Q(created_at=last.created_at, pk__lt=last.pk))
    page = list(found.order_by("-created_at", "-pk")[: limit + 1])
    return KeyPage(keys=tuple(page[:limit]), has_more=len(page) > limit)


def api_key_by_id(organisation: Organisation, public_id: str) -> ApiKey:
    """Give a key of an organisation or of its test twin.

    Raises:
        NotFound: It has none by that id.
    """
    key = _keys_of(organisation).filter(public_id=public_id).first() if is_public_id(public_id, "key_") else None
    if key is None:
        raise NotFound("There is no such key.")
    return key


def usable_key_count(organisation: Organisation) -> int:
    """Give how many keys of an organisation, without its twin, are neither revoked nor expired."""
    return ApiKey.objects.filter(_IN_STATE[KeyState.ACTIVE], organisation=organisation).count()


def staff_key_page(*, after: str | None, limit: int, text: str = "", state: str = "") -> tuple[list[StaffKey], bool]:
    """Give up to ``limit`` keys of our own people, newest first, and whether there are more.

    Args:
        after: Public id of the last key of the page before.
        limit: How many a page has.
        text: Part of the name or of the person's, or the last four characters.
        state: A :class:`KeyState`.

    Raises:
        NotFound: ``after`` is no key.
    """
    found = StaffKey.objects.select_related("user")
    if text:
        found = found.filter(Q(name__icontains=text) | Q(user__name__icontains=text) | Q(last_four=text))
    if state:
        found = found.filter(_IN_STATE[KeyState(state)])
    if after is not None:
        last = staff_key_by_id(after)
        found = found.filter(Q(created_at__lt=last.created_at) | Q(created_at=last.created_at, pk__lt=last.pk))
    page = list(found.order_by("-created_at", "-pk")[: limit + 1])
    return page[:limit], len(page) > limit


def staff_key_by_id(public_id: str) -> StaffKey:
    """Give a key of one of our own people.

    Raises:
        NotFound: There is none by that id.
    """
    is_id = is_public_id(public_id, "skey_")
    found = StaffKey.objects.select_related("user").filter(public_id=public_id).first() if is_id else None
    if found is None:
        raise NotFound("There is no such key.")
    return found


def usable_staff_keys_of(user: User) -> QuerySet[StaffKey]:
    """Give a person's keys that are neither revoked nor expired."""
    return StaffKey.objects.filter(_IN_STATE[KeyState.ACTIVE], user=user)


def _keys_of(organisation: Organisation) -> QuerySet[ApiKey]:
    owners = Q(organisation=organisation) | Q(organisation__twin_of=organisation)
    return ApiKey.objects.select_related("organisation", "created_by").filter(owners)


_IN_STATE = {
    KeyState.ACTIVE: Q(revoked_at=None) & (Q(expires_at=None) | Q(expires_at__gt=DATABASE_NOW)),
    KeyState.EXPIRED: Q(revoked_at=None) & Q(expires_at__lte=DATABASE_NOW),
    KeyState.REVOKED: Q(revoked_at__isnull=False),
}


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


def members_of(organisation: Organisation) -> QuerySet[Membership]:
    """Give an organisation's members with their accounts, by name."""
    return Membership.objects.select_related("user").filter(organisation=organisation).order_by("user__name", "pk")
