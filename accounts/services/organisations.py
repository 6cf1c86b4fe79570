"""Making organisations, their members and their keys."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction

from accounts.audit import record
from accounts.domain.audit import changed
from accounts.domain.keys import NewKey, make_key
from accounts.models import ApiKey, Membership, Organisation, OrganisationKind, User
from accounts.selectors import usable_key_count
from ground.errors import InvalidRequest
from ground.ids import new_public_id

KEYS_MAX_COUNT: Final = 100
KEY_NAME_MAX_CHARACTERS: Final = 80


@transaction.atomic
def create_organisation(*, slug: str, name: str, at: datetime) -> Organisation:
    """Make a customer organisation and its test twin, which shares the namespace and nothing else."""
    organisation = Organisation.objects.create(
        public_id=new_public_id("org_", at), slug=slug, name=name, kind=OrganisationKind.CUSTOMER, created_at=at
    )
    Organisation.objects.create(
        public_id=new_public_id("org_", at),
        slug=slug,
        name=f"{name} (test)",
        kind=OrganisationKind.TEST,
        twin_of=organisation,
        created_at=at,
    )
    record(
        "organisation.created",
        object_type="organisation",
        object_id=organisation.public_id,
        organisation=organisation,
        changes=changed({"slug": None, "name": None}, {"slug": slug, "name": name}),
    )
    return organisation


@transaction.atomic
def add_member(*, organisation: Organisation, user: User, role: str, at: datetime) -> Membership:
    """Make a user a member, or change the role of one who is."""
    before = Membership.objects.select_for_update().filter(organisation=organisation, user=user).first()
    membership, _ = Membership.objects.update_or_create(
        organisation=organisation, user=user, defaults={"role": role}, create_defaults={"role": role, "created_at": at}
    )
    changes = changed({"role": before.role if before else None}, {"role": role})
    if changes:
        record(
            "member.role_set",
            object_type="member",
            object_id=user.email,
            organisation=organisation,
            changes=changes,
        )
    return membership


@transaction.atomic
def create_api_key(
    *,
    organisation: Organisation,
    name: str,
    at: datetime,
    scopes: Sequence[str] = (),
    lifetime: timedelta | None = None,
    created_by: User | None = None,
) -> tuple[ApiKey, NewKey]:
    """Make a key; the second value holds its text, which is shown once and never stored.

    Args:
        organisation: Whose it is; a test twin's key says so in its text.
        name: What people know it by.
        at: Now.
        scopes: What it may do (``domain.scopes``); none: everything.
        lifetime: How long it is good; None for ever.
        created_by: The member who asked for it.

    Raises:
        InvalidRequest: No name, or the organisation has as many keys in use as it may.
    """
    Organisation.objects.select_for_update(no_key=True).get(pk=organisation.pk)
    if usable_key_count(organisation) >= KEYS_MAX_COUNT:
        raise InvalidRequest(f"An organisation has at most {KEYS_MAX_COUNT} keys in use. Revoke one first.")
    if not name.strip():
        raise InvalidRequest("A key needs a name.", param="name")
    new = make_key(organisation.slug, is_test=organisation.is_test)
    key = ApiKey.objects.create(
        public_id=new_public_id("key_", at),
        organisation=organisation,
        name=name,
        key_hash=new.key_hash,
        prefix=new.prefix,
        last_four=new.last_four,
        scopes=sorted(scopes),
        created_by=created_by,
        created_at=at,
        expires_at=at + lifetime if lifetime else None,
    )
    record(
        "key.created",
        object_type="api_key",
        object_id=key.public_id,
        organisation=organisation,
        changes={
            "name": (None, name),
            "scopes": (None, key.scopes),
            "expires_at": (None, key.expires_at.isoformat() if key.expires_at else None),
        },
        user=created_by,
    )
    return key, new


@transaction.atomic
def revoke_api_key(*, organisation: Organisation, public_id: str, at: datetime) -> ApiKey:
    """Revoke a key at once; a second time changes nothing.

    Raises:
        ApiKey.DoesNotExist: The organisation has no such key.
    """
    key = ApiKey.objects.select_for_update().get(organisation=organisation, public_id=public_id)
    if key.revoked_at is None:
        key.revoked_at = at
        key.save(update_fields=["revoked_at"])
        record(
            "key.revoked",
            object_type="api_key",
            object_id=public_id,
            organisation=organisation,
            changes={"state": ("active", "revoked")},
        )
    return key
