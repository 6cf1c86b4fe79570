"""Making organisations, their members and their keys."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from accounts.domain.keys import NewKey, make_key
from accounts.models import ApiKey, Membership, Organisation, OrganisationKind, User
from ground.ids import new_public_id


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
    return organisation


@transaction.atomic
def add_member(*, organisation: Organisation, user: User, role: str, at: datetime) -> Membership:
    """Make a user a member, or change the role of one who is."""
    membership, _ = Membership.objects.update_or_create(
        organisation=organisation, user=user, defaults={"role": role}, create_defaults={"role": role, "created_at": at}
    )
    return membership


@transaction.atomic
def create_api_key(
    *, organisation: Organisation, name: str, at: datetime, created_by: User | None = None
) -> tuple[ApiKey, NewKey]:
    """Make a key; the second value holds its text, which is shown once and never stored."""
    new = make_key(organisation.slug, is_test=organisation.is_test)
    key = ApiKey.objects.create(
        public_id=new_public_id("key_", at),
        organisation=organisation,
        name=name,
        key_hash=new.key_hash,
        prefix=new.prefix,
        last_four=new.last_four,
        created_by=created_by,
        created_at=at,
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
    return key
