"""The audit log: who did what to which thing, and why, written in the transaction of the deed.

Who acts is known at the edge (a page's user, a call's key, their request) and needed deep inside services; the edge
sets it here once, and :func:`record` reads it. What runs without a request is the system's own hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from django.db import connection, transaction

from accounts.domain.audit import Changes, is_action
from accounts.models import ActorKind, ApiKey, AuditEntry, Membership, Organisation, StaffRole, User
from ground import clock
from ground.ids import new_public_id

SYSTEM_NAME: Final = "Lanehouse"
# Who asks for a page and is nobody yet.
VISITOR_NAME: Final = "A visitor"


@dataclass(slots=True, kw_only=True)
class Hand:
    """Who acts in this thread. The key is set when a call has shown it; the user is read when somebody asks."""

    request_id: str = ""
    address: str = ""
    user_of: Callable[[], User | None] = lambda: None
    api_key: ApiKey | None = None
    # What the system calls itself here: a command's name.
    name: str = SYSTEM_NAME


_hand: ContextVar[Hand | None] = ContextVar("hand", default=None)


@contextmanager
def acting(hand: Hand) -> Iterator[None]:
    """Let everything inside be done by this hand."""
    token = _hand.set(hand)
    try:
        yield
    finally:
        _hand.reset(token)


def acts_with(api_key: ApiKey) -> None:
    """Say with which key the call under way is made."""
    hand = _hand.get()
    if hand is not None:
        hand.api_key = api_key


def acts_for(user: User) -> None:
    """Say in whose name the call under way is made: a staff key acts as its person."""
    hand = _hand.get()
    if hand is not None:
        hand.user_of = lambda: user


def record(
    action: str,
    *,
    object_type: str,
    object_id: str,
    organisation: Organisation | None = None,
    changes: Changes | None = None,
    reason: str = "",
    user: User | None = None,
) -> AuditEntry:
    """Write one entry, inside the transaction of the deed: both are there, or neither.

    Args:
        action: ``<area>.<what was done>`` (:class:`accounts.domain.audit.Area`), stable.
        object_type: What kind of thing it was done to, in the product's words (``lane``, ``api_key``).
        object_id: Its public id, or what it is called.
        organisation: Whose it is; None for the house's own things.
        changes: {field: (from, to)}; no secrets and no customers' texts.
        reason: What the person gave as one.
        user: The person, where the service knows better than the request.
    """
    assert connection.in_atomic_block, "an entry is written in the transaction of its deed"
    assert is_action(action), action
    hand = _hand.get() or Hand()
    person = user or (None if hand.api_key else hand.user_of())
    kind = ActorKind.USER if person else ActorKind.KEY if hand.api_key else ActorKind.SYSTEM
    api_key = hand.api_key if kind == ActorKind.KEY else None
    return AuditEntry.objects.create(
        public_id=new_public_id("aud_", clock.now()),
        at=clock.now(),
        actor_kind=kind,
        user=person,
        api_key=api_key,
        actor_name=person.name if person else api_key.name if api_key else hand.name,
        actor_role=_role_of(person, organisation) if person else "",
        is_staff=bool(person and person.staff_role),
        organisation=organisation,
        action=action,
        object_type=object_type,
        object_id=object_id,
        changes={name: list(pair) for name, pair in (changes or {}).items()},
        reason=reason,
        request_id=hand.request_id,
        address=hand.address,
    )


@transaction.atomic
def record_reading(action: str, *, object_type: str, object_id: str, organisation: Organisation | None = None) -> None:
    """Write the entry of something that was taken out of the house: a download changes nothing, and is a deed."""
    record(action, object_type=object_type, object_id=object_id, organisation=organisation)


def _role_of(person: User, organisation: Organisation | None) -> str:
    if person.staff_role != StaffRole.NONE or organisation is None:
        return person.staff_role
    # A test twin has no members of its own.
    owner_id = organisation.twin_of_id or organisation.pk
    membership = Membership.objects.filter(user=person, organisation_id=owner_id).first()
    return membership.role if membership else ""
