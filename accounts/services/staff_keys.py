"""Keys of our own staff: each stands for one person, with the scopes that the person gave it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import Q

from accounts.audit import record
from accounts.domain.keys import NewKey, hash_key, is_well_formed, make_key
from accounts.domain.staff_scopes import StaffScope
from accounts.models import StaffKey, StaffRole, User
from accounts.selectors import DATABASE_NOW, not_a_key, usable_staff_keys_of
from accounts.services.organisations import KEY_NAME_MAX_CHARACTERS
from ground.errors import InvalidRequest, NotFound, PermissionRefused
from ground.ids import new_public_id

_ROLES = frozenset({StaffRole.FINANCE, StaffRole.SUPERADMIN})
# Stands where a customer's key has its namespace. Keys are found by their hash: a customer of that name is no danger.
_NAMESPACE = "staff"
_KEYS_MAX_COUNT: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class StaffCaller:
    """Who makes a call of ``/v1/finance``."""

    user: User
    key: StaffKey

    def check(self, scope: StaffScope) -> None:
        """Refuse what the key was not made for; writing includes reading.

        Raises:
            PermissionRefused: ``insufficient_scope``.
        """
        if scope.value not in self.key.scopes and StaffScope.FINANCE_WRITE.value not in self.key.scopes:
            raise PermissionRefused(f"The key lacks the scope for this call: it needs '{scope.value}'.")


@transaction.atomic
def create_staff_key(
    user: User, *, name: str, scopes: Sequence[StaffScope], at: datetime, lifetime: timedelta
) -> tuple[StaffKey, NewKey]:
    """Make a key for a person of finance; its text is in the answer and nowhere else.

    Raises:
        InvalidRequest: The person is not of finance, or no scope is given.
    """
    if user.staff_role not in _ROLES or not user.is_active:
        raise InvalidRequest("A staff key is for a person of finance.", param="user")
    name = name.strip()
    if not 0 < len(name) <= KEY_NAME_MAX_CHARACTERS or "\0" in name:
        raise InvalidRequest(f"A staff key has a name of 1 to {KEY_NAME_MAX_CHARACTERS} characters.", param="name")
    if not scopes:
        raise InvalidRequest("A staff key has at least one scope.", param="scopes")
    User.objects.select_for_update(no_key=True).get(pk=user.pk)
    if usable_staff_keys_of(user).count() >= _KEYS_MAX_COUNT:
        raise InvalidRequest(f"A person has at most {_KEYS_MAX_COUNT} keys in use. Revoke one first.")
    new = make_key(_NAMESPACE, is_test=False)
    key = StaffKey.objects.create(
        public_id=new_public_id("skey_", at),
        user=user,
        name=name,
        key_hash=new.key_hash,
        prefix=new.prefix,
        last_four=new.last_four,
        scopes=[scope.value for scope in scopes],
        created_at=at,
        expires_at=at + lifetime,
    )
    record(
        "key.created",
        object_type="staff_key",
        object_id=key.public_id,
        changes={
            "of": (None, user.email),
            "name": (None, name),
            "scopes": (None, key.scopes),
            "expires_at": (None, key.expires_at.isoformat()),
        },
    )
    return key, new


@transaction.atomic
def revoke_staff_key(public_id: str, *, by: User, at: datetime) -> StaffKey:
    """Revoke a key, from its next call on; a second time changes nothing.

    Raises:
        NotFound: There is none by that id.
        PermissionRefused: It is somebody else's, and the person is no superadmin.
    """
    key = StaffKey.objects.select_for_update(of=("self",)).select_related("user").filter(public_id=public_id).first()
    if key is None:
        raise NotFound("There is no such key.")
    if not may_revoke(key, by):
        raise PermissionRefused("A key is revoked by its person or by a superadmin.")
    if key.revoked_at is None:
        key.revoked_at = at
        key.save(update_fields=["revoked_at"])
        record(
            "key.revoked",
            object_type="staff_key",
            object_id=public_id,
            changes={"state": ("active", "revoked"), "person": (key.user.name, key.user.name)},
            user=by,
        )
    return key


def may_revoke(key: StaffKey, person: User) -> bool:
    """Say whether a person may revoke a key: one of their own, or any as a superadmin."""
    return key.user_id == person.pk or person.staff_role == StaffRole.SUPERADMIN


def staff_caller_by_key(text: str) -> StaffCaller:
    """Give the person whom a staff key stands for, by the database's clock; what they may do follows their role now.

    Raises:
        AuthenticationFailed: The key is malformed, unknown, revoked or expired, or its person has left finance.
    """
    if is_well_formed(text):
        key = (
            StaffKey.objects.select_related("user")
            .filter(Q(expires_at__gt=DATABASE_NOW), key_hash=hash_key(text), revoked_at__isnull=True)
            .first()
        )
        if key is not None and key.user.is_active and key.user.staff_role in _ROLES:
            _note_use(key)
            return StaffCaller(user=key.user, key=key)
    raise not_a_key()


def _note_use(key: StaffKey) -> None:
    """Note that a key was used, to the minute: most calls write nothing."""
    is_noted = Q(last_used_at__gt=DATABASE_NOW - timedelta(minutes=1))
    StaffKey.objects.filter(~is_noted | Q(last_used_at=None), pk=key.pk).update(last_used_at=DATABASE_NOW)
