"""Keys of our own staff: each stands for one person, with the scopes that the person gave it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q

from accounts.audit import record
from accounts.domain.keys import NewKey, hash_key, is_well_formed, make_key
from accounts.domain.staff_scopes import StaffScope
from accounts.models import StaffKey, StaffRole, User
from accounts.selectors import DATABASE_NOW, not_a_key
from ground.errors import InvalidRequest, PermissionRefused
from ground.ids import new_public_id

_ROLES = frozenset({StaffRole.FINANCE, StaffRole.SUPERADMIN})
# Stands where a customer's key has its namespace. Keys are found by their hash: a customer of that name is no danger.
_NAMESPACE = "staff"


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
    if not scopes or not 0 < len(name) <= 80:  # noqa: PLR2004 -- the column's width
        raise InvalidRequest("A staff key has a name and at least one scope.", param="scopes")
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
        changes={"scopes": (None, key.scopes)},
        user=user,
    )
    return key, new


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
            return StaffCaller(user=key.user, key=key)
    raise not_a_key()
