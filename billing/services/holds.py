"""Holds: reserving credit for a batch, and giving a part of it back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from accounts.models import Organisation
from billing.domain.records import ClosedHold, GroupHold, HoldState
from billing.errors import PostingConflict
from ground.errors import NotFound, PaymentRequired
from ground.functions import call, call_set


@transaction.atomic(savepoint=False)
def place_holds(
    organisation: Organisation, batch_public_id: str, holds: Sequence[GroupHold], *, expires_at: datetime | None = None
) -> int:
    """Reserve credit for all model groups of a batch, or for none; give what is available afterwards (micro-USD).

    Run it inside the accept's transaction. Repeated with the same holds it changes nothing, whatever became of them.

    Args:
        organisation: Who pays.
        batch_public_id: The batch; it has one hold per group.
        holds: One per model group, each at least zero.
        expires_at: When the holds lapse by themselves; None for never, as for every accepted batch.

    Raises:
        PaymentRequired: ``insufficient_credit`` (with ``available_micro_usd`` and ``required_micro_usd``) or
            ``billing_blocked`` (with ``receivable_micro_usd``). Nothing is held.
        PostingConflict: The batch has other holds.
    """
    required_micro_usd = sum(hold.reserved_micro_usd for hold in holds)
    outcome, available_micro_usd, receivable_micro_usd = call(
        "billing_place_holds",
        [
            organisation.pk,
            batch_public_id,
            [hold.group_key for hold in holds],
            [hold.reserved_micro_usd for hold in holds],
            expires_at,
        ],
        "bigint text text[] bigint[] timestamptz",
    )
    if outcome == "insufficient":
        raise PaymentRequired(
            f"This batch reserves {required_micro_usd} micro-USD and {available_micro_usd} are available.",
            extra={"available_micro_usd": available_micro_usd, "required_micro_usd": required_micro_usd},
        )
    if outcome == "blocked":
        raise PaymentRequired(
            "New batches are blocked until what is owed is paid.",
            code="billing_blocked",
            extra={"receivable_micro_usd": receivable_micro_usd},
        )
    if outcome == "conflict":
        raise PostingConflict("This batch was reserved before with other amounts.")
    return int(available_micro_usd)


@transaction.atomic
def void_hold(organisation: Organisation, batch_public_id: str, group_key: str) -> ClosedHold:
    """Give one model group's hold back, as when its pin was retired. The second call gives the same answer.

    A hold that had another exit keeps it, and the answer says which.

    Raises:
        NotFound: The batch has no hold for that group.
    """
    rows = call_set("billing_void_hold", [organisation.pk, batch_public_id, group_key], "bigint text text")
    if not rows:
        raise NotFound("There is no such hold.")
    state, reserved_micro_usd, closed_at = rows[0]
    return ClosedHold(
        group_key=group_key, state=HoldState(state), reserved_micro_usd=reserved_micro_usd, closed_at=closed_at
    )
