"""Setting an alert, noticing a crossing, mailing it."""

from __future__ import annotations

import logging
from datetime import timedelta
from smtplib import SMTPException
from typing import Final

import orjson
from django.core.mail import send_mail
from django.db import connection, transaction

from accounts.audit import record
from accounts.models import MemberRole, Organisation, User
from billing.alerts.models import BalanceAlert
from ground import clock
from ground.errors import InvalidRequest
from ground.ids import new_public_id
from ground.money_fields import usd_text
from webhooks.services.events import publish_event

EVENT_TYPE: Final = "wallet.balance_low"
_TOLD = (MemberRole.ADMIN, MemberRole.BILLING)
# A mail that did not go is tried again after this; so is one whose sender died.
_MAIL_AGAIN = timedelta(minutes=5)
_log = logging.getLogger(__name__)

_REARM = """
    UPDATE billing_balancealert SET is_armed = true
    WHERE NOT is_armed AND billing_available_micro_usd(organisation_id) >= below_micro_usd
"""
_CROSSED = """
    SELECT alert.*, billing_available_micro_usd(organisation_id) AS now_available_micro_usd
    FROM billing_balancealert alert
    WHERE is_armed AND billing_available_micro_usd(organisation_id) < below_micro_usd
    ORDER BY organisation_id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
"""
_MAIL_DUE = """
    SELECT * FROM billing_balancealert WHERE mail_due_at <= %s
    ORDER BY mail_due_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
"""


@transaction.atomic
def set_alert(organisation: Organisation, below_micro_usd: int | None, user: User) -> None:
    """Set below which available balance (micro-USD) to tell; None for never. A new threshold is armed.

    Raises:
        InvalidRequest: It is not above zero.
    """
    if below_micro_usd is not None and below_micro_usd <= 0:
        raise InvalidRequest("An alert has a threshold above zero.", param="below_micro_usd")
    before = BalanceAlert.objects.select_for_update().filter(organisation=organisation).first()
    earlier_micro_usd = before.below_micro_usd if before else None
    if earlier_micro_usd == below_micro_usd:
        return
    if below_micro_usd is None:
        BalanceAlert.objects.filter(organisation=organisation).delete()
    else:
        BalanceAlert.objects.update_or_create(
            organisation=organisation, defaults={"below_micro_usd": below_micro_usd, "is_armed": True}
        )
    record(
        "wallet.alert_set",
        object_type="wallet",
        object_id=organisation.public_id,
        organisation=organisation,
        changes={"below_micro_usd": (earlier_micro_usd, below_micro_usd)},
        user=user,
    )


@transaction.atomic
def rearm_alerts() -> None:
    """Arm the alerts of wallets that are back at their threshold."""
    with connection.cursor() as cursor:
        cursor.execute(_REARM)


@transaction.atomic
def tell_next_crossing() -> bool:
    """Tell of one wallet that fell below its threshold, by an event now and a mail that is due; say whether one did."""
    alert = next(iter(BalanceAlert.objects.raw(_CROSSED)), None)
    if alert is None:
        return False
    at = clock.now()
    available_micro_usd: int = getattr(alert, "now_available_micro_usd")  # noqa: B009 -- the raw query's own column
    alert.is_armed, alert.crossed_at, alert.mail_due_at = False, at, at
    alert.crossing_count += 1
    alert.available_micro_usd = available_micro_usd
    alert.save()
    event_id = new_public_id("evt_", at)
    publish_event(
        organisation=alert.organisation,
        type=EVENT_TYPE,
        payload=_payload(event_id, alert, available_micro_usd),
        happened_at=at,
        business_key=f"{EVENT_TYPE} {event_id}",
        public_id=event_id,
    )
    return True


def mail_next_crossing() -> bool:
    """Send one mail that is due to the organisation's admins and billing people; say whether one was due.

    The mail goes outside of any transaction: who dies after sending sends it once more, nobody loses it.
    """
    at = clock.now()
    with transaction.atomic():
        alert = next(iter(BalanceAlert.objects.raw(_MAIL_DUE, [at])), None)
        if alert is None:
            return False
        BalanceAlert.objects.filter(pk=alert.pk).update(mail_due_at=at + _MAIL_AGAIN)
    people = User.objects.filter(
        memberships__organisation_id=alert.pk, memberships__role__in=_TOLD, is_active=True
    ).order_by("pk")
    addresses = list(people.values_list("email", flat=True))
    try:
        for address in addresses:
            send_mail(
                f"Your Lanehouse balance is below {usd_text(alert.below_micro_usd)} USD", _text(alert), None, [address]
            )
    except (OSError, SMTPException) as error:
        _log.warning("the alert of organisation %d could not be mailed: %s", alert.pk, type(error).__name__)
        return True
    # A crossing that came meanwhile keeps its own mail due.
    BalanceAlert.objects.filter(pk=alert.pk, crossing_count=alert.crossing_count).update(mail_due_at=None)
    return True


def _text(alert: BalanceAlert) -> str:
    return (
        f"{alert.organisation.name} has {_signed(alert.available_micro_usd or 0)} USD available on Lanehouse, which is"
        f" below the {usd_text(alert.below_micro_usd)} USD that you set.\n\n"
        "New batches are refused when their reservation is more than what is available. Top up to go on.\n"
        "You are told again when the balance was back at your threshold and falls below it anew.\n"
    )


def _signed(micro_usd: int) -> str:
    return f"{'-' if micro_usd < 0 else ''}{usd_text(abs(micro_usd))}"


def _payload(event_id: str, alert: BalanceAlert, available_micro_usd: int) -> bytes:
    at = clock.now()
    return orjson.dumps(
        {
            "id": event_id,
            "object": "event",
            "created_at": int(at.timestamp()),
            "type": EVENT_TYPE,
            "timestamp": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "data": {
                "id": alert.organisation.public_id,
                "available_micro_usd": available_micro_usd,
                "below_micro_usd": alert.below_micro_usd,
                "crossing": alert.crossing_count,
            },
        }
    )
