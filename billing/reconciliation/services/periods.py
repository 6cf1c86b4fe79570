"""Closing a month: a checklist, two people, and a file whose bytes stay the same for ever."""

from __future__ import annotations

import hashlib
from datetime import date

from django.db import transaction

from accounts.audit import record
from accounts.models import User
from billing.reconciliation.checklist import Item, conditions, ledger_item
from billing.reconciliation.closing_file import closing_file
from billing.reconciliation.period_models import Period, PeriodEvent, PeriodState
from billing.reconciliation.services.late import hold_recording, take_late_back
from ground import clock
from ground.blobs import read_blob, write_small
from ground.errors import InvalidRequest, NotFound, PermissionRefused
from ground.reasons import checked_reason


class PeriodNotReady(InvalidRequest):
    """Something on the checklist is not met."""

    code = "period_not_ready"


def ask_to_close(month: date, *, by: User) -> Period:
    """Ask for a month to be closed; somebody else closes it. Asking again changes nothing.

    Raises:
        PeriodNotReady: The checklist is not met.
        InvalidRequest: It is closed, or no month.
    """
    _check_ready([ledger_item()])
    with transaction.atomic():
        period = _locked(month)
        if period.state == PeriodState.CLOSING:
            return period
        if period.state == PeriodState.CLOSED:
            raise InvalidRequest(f"{month:%B %Y} is closed.", code="period_closed")
        _check_ready(conditions(month))
        period.state, period.requested_by, period.requested_at = PeriodState.CLOSING, by, clock.now()
        _write(period, "asked", by, "")
    return period


def close(month: date, *, by: User) -> Period:
    """Close a month that another person asked to close. The same person again changes nothing.

    Raises:
        PeriodNotReady: The checklist is not met (any more).
        PermissionRefused: It is the person who asked.
        InvalidRequest: Nobody asked for it.
    """
    _check_ready([ledger_item()])
    with transaction.atomic():
        # What is recorded now is in before the checklist is looked at, or comes too late for the month.
        hold_recording()
        period = _locked(month)
        if period.state == PeriodState.CLOSED:
            return period
        if period.state != PeriodState.CLOSING:
            raise InvalidRequest("Nobody has asked to close this month.", code="period_not_asked")
        if period.requested_by_id == by.pk:
            raise PermissionRefused("A second person closes the month: you asked for it.", code="second_person_needed")
        # Locked: whoever writes to the month waits for us, and is refused then.
        _check_ready(conditions(month))
        content = closing_file(month)
        sha256 = hashlib.sha256(content).digest()
        period.close_count += 1
        period.export_blob = write_small(f"periods/{month:%Y-%m}-{period.close_count}-{sha256.hex()[:16]}.csv", content)
        period.state, period.closed_by, period.closed_at = PeriodState.CLOSED, by, clock.now()
        period.export_sha256 = sha256
        _write(period, "closed", by, "")
    return period


def take_back(month: date, *, by: User, reason: str) -> Period:
    """Open a month that waits to be closed, or that is closed; the latter is for a person who did not close it.

    Raises:
        PermissionRefused: The person closed it themselves.
        InvalidRequest: The reason is missing, or a closed month has taken what came too late for this one.
    """
    reason = checked_reason(reason)
    with transaction.atomic():
        hold_recording()
        period = _locked(month)
        if period.state == PeriodState.OPEN:
            return period
        if period.state == PeriodState.CLOSED and period.closed_by_id == by.pk:
            raise PermissionRefused("Somebody else reopens the month: you closed it.", code="second_person_needed")
        was_closed = period.state == PeriodState.CLOSED
        period.state = PeriodState.OPEN
        period.requested_by = period.closed_by = None
        period.requested_at = period.closed_at = None
        # The file stays under its name, and in the history with its hash.
        period.export_blob, period.export_sha256 = "", None
        _write(period, "reopened", by, reason)
        if was_closed:
            take_late_back(month)
    return period


def closing_bytes(month: date) -> tuple[bytes, bytes]:
    """Give the closing file of a closed month and its SHA-256, proven equal to the one that was kept.

    Raises:
        NotFound: The month is not closed.
    """
    period = Period.objects.filter(month=month, state=PeriodState.CLOSED).first()
    if period is None or period.export_sha256 is None:
        raise NotFound("This month is not closed.")
    content = read_blob(period.export_blob)
    assert hashlib.sha256(content).digest() == bytes(period.export_sha256), "a closing file never changes"
    return content, bytes(period.export_sha256)


def _locked(month: date) -> Period:
    if month.day != 1:
        raise InvalidRequest("The period is a month: its first day.", param="period")
    Period.objects.get_or_create(month=month)
    return Period.objects.select_for_update().get(month=month)


def _check_ready(items: list[Item]) -> None:
    unmet = [item.said for item in items if not item.is_met]
    if unmet:
        raise PeriodNotReady(f"Not yet: {'; '.join(unmet)}.", extra={"unmet": unmet})


def _write(period: Period, action: str, by: User, reason: str) -> None:
    period.save()
    PeriodEvent.objects.create(
        period=period, at=clock.now(), by=by, action=action, reason=reason, export_sha256=period.export_sha256
    )
    record(
        f"period.{action}",
        object_type="period",
        object_id=f"{period.month:%Y-%m}",
        reason=reason,
        user=by,
        changes={"state": (None, str(period.state))},
    )
