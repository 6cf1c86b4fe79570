"""Calls with an ``Idempotency-Key``: claimed by one statement, their answers kept for a day, then swept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.db import connection, transaction

from accounts.models import KeptCall, Organisation, User
from accounts.selectors import DATABASE_NOW
from ground import retention_record, secrets
from ground.errors import InProgress, InvalidRequest
from ground.retention_record import Kept

KEPT_FOR: Final = timedelta(hours=24)
_CALLS_PER_TURN: Final = 1_000


# Whose calls they are: a customer's, or those of a person of our own staff.
CallOwner = Organisation | User


@dataclass(frozen=True, slots=True, kw_only=True)
class CallClaim:
    """The right to answer a call; lost to the next ``number`` when it is 60 s old and unanswered."""

    call_id: int
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CallAnswer:
    """What a call was answered: the status, the body byte for byte, and where it led to."""

    status_code: int
    content: bytes
    location: str = ""


def claim_call(owner: CallOwner, *, route: str, key: str, body_hash: bytes) -> CallClaim | CallAnswer:
    """Claim a call, or give what it was answered before.

    A claim that is 60 s old and unanswered is taken over: its process is gone, or will find that it has lost it.

    Raises:
        InProgress: The first call with this key is still running.
        InvalidRequest: ``idempotency_conflict``: the key stands for another body.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT * FROM accounts_claim_call(%s, %s, %s, %s, %s)",
            [*_ids_of(owner), route, key, body_hash],
        )
        found = cursor.fetchone()
    if found is None:
        # Freed or swept between the function's two statements.
        raise InProgress("A call with this Idempotency-Key has just ended. Send the same request again.")
    call_id, number, is_claimed, is_same, status_code, content, location = found
    if is_claimed:
        return CallClaim(call_id=call_id, number=number)
    if not is_same:
        raise InvalidRequest(
            "This Idempotency-Key stands for another request of the last 24 hours. A new request needs a new key.",
            code="idempotency_conflict",
            param="Idempotency-Key",
        )
    if status_code is None:
        raise InProgress("The first call with this Idempotency-Key is still running. Send the same request again.")
    return CallAnswer(status_code=status_code, content=secrets.decrypt(content).encode(), location=location)


def _ids_of(owner: CallOwner) -> tuple[int | None, int | None]:
    return (owner.pk, None) if isinstance(owner, Organisation) else (None, owner.pk)


def keep_answer(claim: CallClaim, answer: CallAnswer) -> bool:
    """Keep what a call was answered; False when the claim was lost, and then the caller's work must not count."""
    kept_count = KeptCall.objects.filter(pk=claim.call_id, claim_number=claim.number, status_code=None).update(
        status_code=answer.status_code,
        content=secrets.encrypt(answer.content.decode()),
        location=answer.location,
        answered_at=DATABASE_NOW,
    )
    return kept_count == 1


def free_call(claim: CallClaim) -> None:
    """Let a key stand for nothing: its call was not answered for good."""
    KeptCall.objects.filter(pk=claim.call_id, claim_number=claim.number, status_code=None).delete()


def sweep_kept_calls() -> bool:
    """Remove calls of more than a day ago; say whether there may be more."""
    oldest = KeptCall.objects.filter(claimed_at__lte=DATABASE_NOW - KEPT_FOR).order_by("claimed_at")
    with transaction.atomic():
        swept_count, _ = KeptCall.objects.filter(pk__in=oldest.values("pk")[:_CALLS_PER_TURN]).delete()
        retention_record.add(Kept.KEPT_CALLS, swept_count)
    return swept_count == _CALLS_PER_TURN
