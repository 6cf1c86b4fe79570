"""Asking for adjustments and deciding them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db import transaction

from accounts.audit import record
from accounts.models import Organisation, User
from billing.adjustments.models import Adjustment, AdjustmentKind, AdjustmentState
from billing.errors import PostingConflict
from billing.models import LedgerTransaction, Receipt
from ground import clock
from ground.errors import InvalidRequest, NotFound
from ground.functions import call
from ground.ids import new_public_id
from ground.reasons import checked_reason

AMOUNT_MAX_MICRO_USD = 10**15
PRIORITY_DEFAULT = 50
_REFUSALS = {
    "insufficient": "The balance does not carry it: the wallet has less available, or less is owed.",
    "too_much": "The credits of a receipt are together at most its total.",
    "not_reversible": "This entry cannot be reversed: credit or charge the customer instead.",
    "reversed": "This entry is reversed already, or its reversal waits for approval.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AdjustmentWish:
    """What is asked for. ``amount_micro_usd`` is above zero whatever the direction; a reversal has its entry's.

    ``effective_at`` None is now; ``expires_at`` and ``priority`` are a grant's (lower burns first).
    """

    kind: AdjustmentKind
    amount_micro_usd: int
    reason: str
    receipt: Receipt | None = None
    break_ref: str = ""
    reverses: LedgerTransaction | None = None
    effective_at: datetime | None = None
    expires_at: datetime | None = None
    priority: int = PRIORITY_DEFAULT


@transaction.atomic
def request_adjustment(
    organisation: Organisation, wish: AdjustmentWish, *, request_key: str, requested_by: User
) -> Adjustment:
    """Ask for an adjustment; up to ``ADJUSTMENT_APPROVAL_ABOVE_MICRO_USD`` it is posted at once.

    The same request key with the same wish gives the adjustment that it made before.

    Raises:
        InvalidRequest: The reason, amount, or what it adjusts cannot be; or the balance does not carry it. Nothing
            is written.
        PostingConflict: The request key stands for another wish.
    """
    reason = checked_reason(wish.reason)
    at = clock.now()
    _check(organisation, wish, at)
    outcome, public_id = call(
        "billing_request_adjustment",
        [
            request_key,
            new_public_id("adj_", at),
            organisation.pk,
            wish.kind.value,
            wish.amount_micro_usd,
            reason,
            wish.receipt.pk if wish.receipt else None,
            wish.break_ref,
            wish.reverses.pk if wish.reverses else None,
            wish.effective_at or at,
            wish.expires_at,
            wish.priority,
            settings.ADJUSTMENT_APPROVAL_ABOVE_MICRO_USD,
            requested_by.pk,
        ],
        "text text bigint text bigint text bigint text bigint timestamptz timestamptz integer bigint bigint",
    )
    if outcome in _REFUSALS:
        raise InvalidRequest(_REFUSALS[outcome], code=outcome, param="amount_micro_usd")
    if outcome == "conflict":
        raise PostingConflict("This request was sent before with other contents.")
    made = Adjustment.objects.select_related("organisation", "transaction").get(public_id=public_id)
    if outcome != "replayed":
        _audit(made, f"adjustment.{outcome}", reason, requested_by, AdjustmentState(outcome))
    return made


@transaction.atomic
def decide_adjustment(public_id: str, *, approves: bool, reason: str, decided_by: User) -> Adjustment:
    """Post or refuse an adjustment that waits. The same decision by the same person again changes nothing.

    Raises:
        NotFound: There is none by that id.
        InvalidRequest: The person asked for it themselves; it was decided otherwise or by somebody else before; or
            the balance does not carry it (any more).
    """
    reason = checked_reason(reason)
    (outcome,) = call(
        "billing_decide_adjustment", [public_id, decided_by.pk, approves, reason], "text bigint boolean text"
    )
    if outcome == "unknown":
        raise NotFound("There is no such adjustment.")
    if outcome == "own_request":
        raise InvalidRequest("You asked for this adjustment: somebody else decides it.", code=outcome)
    if outcome == "conflict":
        raise InvalidRequest("This adjustment was decided before.", code=outcome)
    if outcome in _REFUSALS:
        raise InvalidRequest(_REFUSALS[outcome], code=outcome)
    decided = Adjustment.objects.select_related("organisation", "transaction").get(public_id=public_id)
    if outcome != "replayed":
        _audit(decided, f"adjustment.{outcome}", reason, decided_by, AdjustmentState(outcome))
    return decided


def _check(organisation: Organisation, wish: AdjustmentWish, at: datetime) -> None:
    if wish.kind != AdjustmentKind.REVERSAL and not 0 < wish.amount_micro_usd <= AMOUNT_MAX_MICRO_USD:
        raise InvalidRequest("The amount is above zero and at most 1,000,000,000 USD.", param="amount_micro_usd")
    if wish.receipt is not None and wish.receipt.organisation_id != organisation.pk:
        raise InvalidRequest("The receipt is another customer's.", param="receipt")
    if (wish.reverses is not None) != (wish.kind == AdjustmentKind.REVERSAL):
        raise InvalidRequest("A reversal names the entry that it reverses, and nothing else does.", param="reverses")
    if wish.effective_at is not None and wish.effective_at > at:
        raise InvalidRequest("An adjustment is effective now or was before.", param="effective_at")
    if wish.expires_at is not None and (wish.kind != AdjustmentKind.GRANT or wish.expires_at <= at):
        raise InvalidRequest("A grant expires later than now, and nothing else expires.", param="expires_at")


def _audit(adjustment: Adjustment, action: str, reason: str, user: User, state: AdjustmentState) -> None:
    record(
        action,
        object_type="adjustment",
        object_id=adjustment.public_id,
        organisation=adjustment.organisation,
        changes={
            "state": (None if adjustment.decided_by_id is None else AdjustmentState.REQUESTED, state),
            "kind": (None, adjustment.kind),
            "amount_micro_usd": (None, adjustment.amount_micro_usd),
        },
        reason=reason,
        user=user,
    )


@transaction.atomic
def expire_grants() -> int:
    """Post the breakage of grants that have expired, for one organisation; give 1, or 0 where nothing is due.

    Whoever moves a wallet does so first, and reading never counts them: this only keeps the books current.
    """
    found = Adjustment.objects.raw(_ONE_DUE)
    due = next(iter(found), None)
    if due is None:
        return 0
    call("billing_lock_wallet", [due.organisation_id], "bigint")
    return 1


_ONE_DUE = """
    SELECT adjustment.id, adjustment.organisation_id FROM billing_grant given
    JOIN billing_adjustment adjustment ON adjustment.id = given.adjustment_id
    JOIN billing_customerbalance balance ON balance.organisation_id = given.organisation_id
    WHERE given.amount_micro_usd > given.burned_micro_usd + given.expired_micro_usd
      AND given.expires_at <= lanehouse_now()
      AND balance.posted_micro_usd - balance.held_micro_usd - balance.floor_micro_usd > 0
      -- Not what holds keep: that is due when it comes back.
      AND billing_expired_micro_usd(given.organisation_id) > 0
    ORDER BY given.expires_at LIMIT 1
"""
