"""An organisation's people: inviting, roles, leaving. There is always an admin."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from accounts.audit import record
from accounts.models import MemberRole, Membership, Organisation, User
from accounts.services.organisations import add_member
from ground.errors import InvalidRequest


@transaction.atomic
def invite_member(*, organisation: Organisation, email: str, name: str, role: str, at: datetime) -> tuple[User, bool]:
    """Make somebody a member; who has no account gets one that is opened by a link in a mail.

    Returns:
        The person, and whether they still have to choose a password.

    Raises:
        InvalidRequest: They are a member already, belong to another organisation, or are the house's own people.
    """
    user = User.objects.select_for_update().filter(email=email.lower()).first()
    if user is not None and Membership.objects.filter(organisation=organisation, user=user).exists():
        raise InvalidRequest("This person is a member already.", param="email")
    # A person sees one organisation; and nobody learns here who is whose customer.
    if user is not None and (user.staff_role or Membership.objects.filter(user=user).exists()):
        raise InvalidRequest("This address cannot be invited. Write to us if it should be.", param="email")
    if user is None:
        user = User.objects.create_user(email=email, name=name, created_at=at)
    add_member(organisation=organisation, user=user, role=role, at=at)
    return user, not user.has_usable_password()


@transaction.atomic
def set_role(*, organisation: Organisation, email: str, role: str, at: datetime) -> None:
    """Give a member another role; the same one changes nothing.

    Raises:
        InvalidRequest: Nobody would be admin any more.
        Membership.DoesNotExist: Nobody with this address is a member.
    """
    membership = _locked_membership(organisation, email)
    if role != MemberRole.ADMIN:
        _keep_an_admin(membership)
    add_member(organisation=organisation, user=membership.user, role=role, at=at)


@transaction.atomic
def remove_member(*, organisation: Organisation, email: str) -> None:
    """Take somebody out of an organisation; their account stays, and sees nothing here from the next page on.

    Raises:
        InvalidRequest: Nobody would be admin any more.
        Membership.DoesNotExist: Nobody with this address is a member.
    """
    membership = _locked_membership(organisation, email)
    _keep_an_admin(membership)
    membership.delete()
    record(
        "member.removed",
        object_type="member",
        object_id=email,
        organisation=organisation,
        changes={"role": (membership.role, None)},
    )


@transaction.atomic
def change_reporting_zone(*, organisation: Organisation, zone: str) -> None:
    """Let the organisation's days, and its test twin's, be those of another zone from now on.

    Args:
        organisation: Whose days they are.
        zone: A name of the zone list.
    """
    Organisation.objects.select_for_update(no_key=True).get(pk=organisation.pk)
    before = organisation.reporting_zone
    if zone == before:
        return
    Organisation.objects.filter(pk=organisation.pk).update(reporting_zone=zone)
    Organisation.objects.filter(twin_of=organisation).update(reporting_zone=zone)
    record(
        "organisation.reporting_zone_set",
        object_type="organisation",
        object_id=organisation.public_id,
        organisation=organisation,
        changes={"reporting_zone": (before, zone)},
    )


def _locked_membership(organisation: Organisation, email: str) -> Membership:
    """Give a membership, and let nobody else of the organisation be changed meanwhile."""
    Organisation.objects.select_for_update(no_key=True).get(pk=organisation.pk)
    return Membership.objects.select_related("user").get(organisation=organisation, user__email=email)


def _keep_an_admin(leaving: Membership) -> None:
    admins = Membership.objects.filter(
        organisation_id=leaving.organisation_id, role=MemberRole.ADMIN, user__is_active=True
    )
    if leaving.role == MemberRole.ADMIN and not admins.exclude(pk=leaving.pk).exists():
        raise InvalidRequest("An organisation needs an admin. Make somebody else one first.")
