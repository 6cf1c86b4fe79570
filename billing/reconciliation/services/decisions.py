"""Deciding breaks: one by one or many at once, with a reason, an event and an audit entry each.

Every decision is safe to repeat: a break that is already there is left alone. What moves more money than the limit
waits for a second person. Reopening one break touches no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.conf import settings
from django.db import transaction

from accounts.audit import record
from accounts.models import StaffRole, User
from billing.models import LedgerTransaction
from billing.reconciliation.closed import refusing_what_is_closed
from billing.reconciliation.domain.decisions import POSTING, SAID, STATE_AFTER, Action
from billing.reconciliation.domain.sides import BreakKind
from billing.reconciliation.models import Break, BreakEvent, BreakState, ProviderInvoice
from billing.reconciliation.services.posting import amount_of, post_difference
from ground import clock
from ground.errors import InvalidRequest, NotFound, PermissionRefused
from ground.reasons import checked_reason

AT_ONCE_MAX_COUNT: Final = 500
_UNDECIDED: Final = (BreakState.OPEN, BreakState.EXPLAINED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a person decides; ``owner`` is of an assignment, ``entry_key`` names the ledger entry to link."""

    action: Action
    reason: str
    owner: User | None = None
    entry_key: str = ""


def decide_breaks(public_ids: Sequence[str], decision: Decision, *, by: User) -> list[Break]:
    """Decide breaks: all, or none where one cannot be. Those that the same decision has decided stay as they are.

    Raises:
        NotFound: An id names no break.
        InvalidRequest: The reason is missing, or a break is decided otherwise, or what it needs is not there.
        PeriodClosed: A break's month is closed.
    """
    reason = checked_reason(decision.reason)
    wanted = sorted(set(public_ids))
    if not 0 < len(wanted) <= AT_ONCE_MAX_COUNT:
        raise InvalidRequest(f"Choose 1 to {AT_ONCE_MAX_COUNT} breaks.", param="breaks")
    _check(decision)
    month = ProviderInvoice.objects.filter(breaks__public_id__in=wanted).values_list("period", flat=True).first()
    if month is None:
        raise NotFound("There is no such break.")
    with refusing_what_is_closed(month), transaction.atomic():
        # In one order, so that two people who choose the same ones take turns.
        found = list(
            Break.objects.select_for_update(of=("self",))
            .select_related("invoice")
            .filter(public_id__in=wanted)
            .order_by("pk")
        )
        if len(found) != len(wanted):
            raise NotFound("There is no such break.")
        for each in found:
            _decide(each, decision, reason, by)
        return found


def settle_pending(public_id: str, *, agrees: bool, reason: str, by: User) -> Break:
    """Let a second person agree to what waits for one, or refuse it; repeated, it changes nothing.

    Raises:
        NotFound: There is no such break.
        PermissionRefused: It is the person who asked for it.
        InvalidRequest: Nothing waits there, or the reason is missing.
    """
    reason = checked_reason(reason)
    with transaction.atomic():
        found = (
            Break.objects.select_for_update(of=("self",)).select_related("invoice").filter(public_id=public_id).first()
        )
        if found is None:
            raise NotFound("There is no such break.")
        with refusing_what_is_closed(found.invoice.period):
            if found.state != BreakState.PENDING:
                raise InvalidRequest("Nothing waits for a second person here.", code="nothing_pending")
            if found.decided_by_id == by.pk:
                raise PermissionRefused("A second person decides this: you asked for it.", code="second_person_needed")
            if agrees:
                _settle(found, Action(found.asked_action), found.reason, by, said=f"Agreed: {reason}")
            else:
                _move(found, _undecided_state(found), by, action="refused", reason=reason)
    return found


def needs_second_person(found: Break, action: Action) -> bool:
    """Say whether a decision waits for somebody else: it moves more than the limit."""
    return action in POSTING and abs(amount_of(found)) > settings.ADJUSTMENT_APPROVAL_ABOVE_MICRO_USD


def _check(decision: Decision) -> None:
    if decision.action is Action.ASSIGN and (
        decision.owner is None or decision.owner.staff_role not in {StaffRole.FINANCE, StaffRole.SUPERADMIN}
    ):
        raise InvalidRequest("Choose somebody of finance.", param="owner")
    if (
        decision.action is Action.LINK
        and not LedgerTransaction.objects.filter(business_key=decision.entry_key[:250]).exists()
    ):
        raise InvalidRequest("There is no such ledger entry.", param="entry_key")


def _decide(found: Break, decision: Decision, reason: str, by: User) -> None:
    action = decision.action
    if action is Action.ASSIGN:
        if found.owner_id != (decision.owner.pk if decision.owner else None):
            found.owner = decision.owner
            _move(found, BreakState(found.state), by, action=action, reason=reason, keeps=True)
        return
    if action is Action.REOPEN:
        _reopen(found, reason, by)
        return
    if found.state == STATE_AFTER[action] or (found.state == BreakState.PENDING and found.asked_action == action):
        return
    if found.state not in _UNDECIDED:
        raise InvalidRequest(
            f"{found.public_id} is {found.state.replace('_', ' ')} already. Reopen it first.", code="break_is_decided"
        )
    if needs_second_person(found, action):
        found.asked_action = action
        _move(found, BreakState.PENDING, by, action="asked", reason=reason, said=f"Asked to: {SAID[action].lower()}.")
        return
    if action is Action.LINK:
        found.entry_key = decision.entry_key
    _settle(found, action, reason, by)


def _settle(found: Break, action: Action, reason: str, by: User, *, said: str = "") -> None:
    if action in POSTING:
        amount_micro_usd = amount_of(found)
        entry = post_difference(found, action, amount_micro_usd=amount_micro_usd, key=_entry_key(found), recorded_by=by)
        found.entry_key = entry.business_key if entry else ""
        said = said or (f"Posted {amount_micro_usd:,} micro-USD." if entry else "Nothing to post: it rounds to zero.")
    found.asked_action = ""
    _move(found, BreakState(STATE_AFTER[action]), by, action=action, reason=reason, said=said)


def _reopen(found: Break, reason: str, by: User) -> None:
    """Take a decision back, with its posting; one that is undecided stays so."""
    if found.state in {*_UNDECIDED, BreakState.CLEARED}:
        return
    said = ""
    if found.entry_key and found.state in {STATE_AFTER[action] for action in POSTING}:
        action = next(each for each in POSTING if STATE_AFTER[each] == found.state)
        entry = LedgerTransaction.objects.get(business_key=found.entry_key)
        amount_micro_usd = max(leg.amount_micro_usd for leg in entry.legs.all())
        sign = 1 if found.difference_pico_usd > 0 else -1
        post_difference(found, action, amount_micro_usd=-sign * amount_micro_usd, key=_entry_key(found), recorded_by=by)
        said = f"Posted back: {entry.business_key}."
    _move(found, _undecided_state(found), by, action=Action.REOPEN, reason=reason, said=said)


def _entry_key(found: Break) -> str:
    return f"break:{found.public_id}:{found.events.count()}"


def _undecided_state(found: Break) -> BreakState:
    return BreakState.OPEN if found.kind == BreakKind.UNEXPLAINED else BreakState.EXPLAINED


def _move(
    found: Break, state: BreakState, by: User, *, action: str, reason: str, said: str = "", keeps: bool = False
) -> None:
    """Write a break's new state with its event and its audit entry."""
    at = clock.now()
    before = found.state
    found.state = state
    if not keeps:
        is_undecided = state in _UNDECIDED
        found.decided_by, found.decided_at = (None, None) if is_undecided else (by, at)
        found.reason = "" if is_undecided else reason
        if is_undecided:
            found.entry_key = found.asked_action = ""
    found.save()
    BreakEvent.objects.create(
        of_break=found,
        at=at,
        by=by,
        action=str(action),
        from_state=before,
        to_state=state,
        reason=reason,
        said=said[:300],
    )
    record(
        f"break.{action}",
        object_type="break",
        object_id=found.public_id,
        reason=reason,
        user=by,
        changes={"state": (before, str(state)), "owner": (None, found.owner.name if found.owner else None)}
        if keeps
        else {"state": (before, str(state))},
    )
