"""Deciding breaks: one by one or many at once, with a reason, an event and an audit entry each.

Every decision is safe to repeat: a break that is already there is left alone. What moves more money than the limit
waits for a second person, who agrees to one or to many at once; taking a posting back moves money as making it did.
Reopening one break touches no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from django.conf import settings
from django.db import transaction

from accounts.audit import record
from accounts.models import StaffRole, User
from billing.models import LedgerTransaction
from billing.reconciliation.closed import refusing_what_is_closed
from billing.reconciliation.domain.decisions import POSTED_STATES, POSTING, SAID, STATE_AFTER, Action
from billing.reconciliation.domain.sides import BreakKind
from billing.reconciliation.models import Break, BreakEvent, BreakState, ProviderInvoice
from billing.reconciliation.services.posting import (
    amount_of,
    next_entry_key,
    post_back,
    post_difference,
    posted_micro_usd,
)
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
    _check(decision)
    with _locked(public_ids) as found:
        for each in found:
            _decide(each, decision, reason, by)
        return found


def settle_pending(public_ids: Sequence[str], *, agrees: bool, reason: str, by: User) -> list[Break]:
    """Let a second person agree to what waits for one, or refuse it: for all of the breaks, or for none.

    What the same person has said of a break before is not said again.

    Raises:
        NotFound: An id names no break.
        PermissionRefused: It is the person who asked for one of them.
        InvalidRequest: Nothing waits at one of them, or the reason is missing.
        PeriodClosed: A break's month is closed.
    """
    reason = checked_reason(reason)
    with _locked(public_ids) as found:
        for each in found:
            _settle_pending(each, by, agrees=agrees, reason=reason)
        return found


def needs_second_person(found: Break, action: Action) -> bool:
    """Say whether a decision waits for somebody else: it moves more than the limit, forth or back."""
    if action is Action.REOPEN:
        moved_micro_usd = posted_micro_usd(found) if found.state in POSTED_STATES else 0
    else:
        moved_micro_usd = abs(amount_of(found)) if action in POSTING else 0
    return moved_micro_usd > settings.ADJUSTMENT_APPROVAL_ABOVE_MICRO_USD


@contextmanager
def _locked(public_ids: Sequence[str]) -> Iterator[list[Break]]:
    """Give these breaks, locked for one transaction in one order, so that two people who choose the same take turns."""
    wanted = sorted(set(public_ids))
    if not 0 < len(wanted) <= AT_ONCE_MAX_COUNT:
        raise InvalidRequest(f"Choose 1 to {AT_ONCE_MAX_COUNT} breaks.", param="breaks")
    month = ProviderInvoice.objects.filter(breaks__public_id__in=wanted).values_list("period", flat=True).first()
    if month is None:
        raise NotFound("There is no such break.")
    with refusing_what_is_closed(month), transaction.atomic():
        found = list(
            Break.objects.select_for_update(of=("self",))
            .select_related("invoice")
            .filter(public_id__in=wanted)
            .order_by("pk")
        )
        if len(found) != len(wanted):
            raise NotFound("There is no such break.")
        yield found


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
        entry = post_difference(
            found, action, amount_micro_usd=amount_micro_usd, key=next_entry_key(found), recorded_by=by
        )
        found.entry_key = entry.business_key if entry else ""
        said = said or (f"Posted {amount_micro_usd:,} micro-USD." if entry else "Nothing to post: it rounds to zero.")
    found.asked_action = ""
    _move(found, BreakState(STATE_AFTER[action]), by, action=action, reason=reason, said=said)


def _reopen(found: Break, reason: str, by: User) -> None:
    """Take a decision back, with its posting; one that is undecided stays so, and so does one that waits for this."""
    is_asked = found.state == BreakState.PENDING and found.asked_action == Action.REOPEN
    if is_asked or found.state in {*_UNDECIDED, BreakState.CLEARED}:
        return
    if needs_second_person(found, Action.REOPEN):
        found.asked_action = Action.REOPEN
        _move(found, BreakState.PENDING, by, action="asked", reason=reason, said="Asked to: reopen.")
        return
    _take_back(found, reason, by)


def _take_back(found: Break, reason: str, by: User, *, said: str = "") -> None:
    back = post_back(found, key=next_entry_key(found), recorded_by=by)
    said = " ".join(filter(None, (said, f"Posted back: {found.entry_key}." if back else "")))
    _move(found, _undecided_state(found), by, action=Action.REOPEN, reason=reason, said=said)


def _settle_pending(found: Break, by: User, *, agrees: bool, reason: str) -> None:
    if found.state != BreakState.PENDING:
        last = found.events.order_by("-pk").first()
        if last is not None and (last.from_state, last.by_id, last.action != "refused") == (
            BreakState.PENDING,
            by.pk,
            agrees,
        ):
            return
        raise InvalidRequest(f"Nothing waits for a second person at {found.public_id}.", code="nothing_pending")
    if found.decided_by_id == by.pk:
        raise PermissionRefused("A second person decides this: you asked for it.", code="second_person_needed")
    action = Action(found.asked_action)
    if agrees and action is Action.REOPEN:
        _take_back(found, found.reason, by, said=f"Agreed: {reason}")
    elif agrees:
        _settle(found, action, found.reason, by, said=f"Agreed: {reason}")
    elif action is Action.REOPEN:
        _leave_posted(found, reason, by)
    else:
        _move(found, _undecided_state(found), by, action="refused", reason=reason)


def _leave_posted(found: Break, reason: str, by: User) -> None:
    """Let a decision stand that somebody wanted to take back: as it was, by whom it was."""
    decided = found.events.filter(action__in=[action.value for action in POSTING]).latest("pk")
    found.asked_action = ""
    found.decided_by, found.decided_at, found.reason = decided.by, decided.at, decided.reason
    _move(found, BreakState(decided.to_state), by, action="refused", reason=reason, keeps=True)


def _undecided_state(found: Break) -> BreakState:
    return BreakState.OPEN if found.kind == BreakKind.UNEXPLAINED else BreakState.EXPLAINED


def _move(
    found: Break, state: BreakState, by: User, *, action: str, reason: str, said: str = "", keeps: bool = False
) -> None:
    """Write a break's new state with its event and its audit entry."""
    at = clock.now()
    before, owner = found.state, found.owner.name if found.owner else None
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
        changes={"state": (before, str(state)), **({"owner": (None, owner)} if action == Action.ASSIGN else {})},
    )
