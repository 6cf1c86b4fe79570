"""Claiming what is due, recording what came of it, and asking for it again.

Locks are taken in one order: endpoint, then delivery. A claim skips what is locked and so waits for nobody.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cryptography.fernet import InvalidToken
from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Coalesce

from accounts.audit import record
from accounts.models import Organisation
from ground import clock, secrets
from ground.errors import InvalidRequest
from ground.fault_points import FaultPoint, reach
from ground.leases import Lease, moving_on
from ground.wake import wake
from webhooks.domain.ladder import next_attempt_at, retry_after_seconds
from webhooks.domain.outcomes import Next, Reason, Verdict, judge
from webhooks.domain.records import Answer, Outcome, Parcel, Trigger
from webhooks.domain.signing import key_of
from webhooks.models import Delivery, DeliveryAttempt, DeliveryState, Endpoint, EndpointState
from webhooks.selectors import delivery_by_id

logger = logging.getLogger(__name__)

# Longer than the sender's hard deadline and its record; so it is never renewed.
LEASE_SECONDS: Final = 30
IN_FLIGHT_OF_ENDPOINT: Final = 4
IN_FLIGHT_OF_ORGANISATION: Final = 12
# This often the ladder does not count that a sender was lost; then it does, so that a deadly answer ends.
_FREE_INTERRUPTIONS: Final = 3

# The counts here only choose; they are taken anew, under the endpoint's lock and in a statement of their own, below:
# a statement that locks and counts at once counts what was there before it had the lock.
_NEXT_ENDPOINT: Final = """
    SELECT endpoint.id, endpoint.organisation_id FROM webhooks_endpoint endpoint
    WHERE endpoint.state = 'enabled'
      AND EXISTS (
          SELECT FROM webhooks_delivery due WHERE due.endpoint_id = endpoint.id AND due.due_at <= lanehouse_now()
             AND (due.lease_until IS NULL OR due.lease_until <= lanehouse_now()))
      AND %(endpoint_max)s > (
          SELECT count(*) FROM webhooks_delivery busy
          WHERE busy.endpoint_id = endpoint.id AND busy.lease_until > lanehouse_now())
      AND %(organisation_max)s > (
          SELECT count(*) FROM webhooks_delivery busy
          WHERE busy.organisation_id = endpoint.organisation_id AND busy.lease_until > lanehouse_now())
    ORDER BY endpoint.served_at NULLS FIRST, endpoint.id LIMIT 1 FOR NO KEY UPDATE OF endpoint SKIP LOCKED
"""
_CLAIM: Final = """
    WITH room AS (
        SELECT greatest(0, least(
            %(endpoint_max)s - count(*) FILTER (WHERE busy.endpoint_id = %(endpoint_id)s),
            %(organisation_max)s - count(*),
            %(wanted)s
        )) AS row_count
        FROM webhooks_delivery busy
        WHERE busy.organisation_id = %(organisation_id)s AND busy.lease_until > lanehouse_now()
    ), chosen AS (
        SELECT id, lease_until AS lapsed_at FROM webhooks_delivery
        WHERE endpoint_id = %(endpoint_id)s AND due_at <= lanehouse_now()
          AND (lease_until IS NULL OR lease_until <= lanehouse_now())
        ORDER BY due_at, id LIMIT (SELECT row_count FROM room) FOR UPDATE SKIP LOCKED
    )
    UPDATE webhooks_delivery delivery
    SET lease_until = lanehouse_now() + make_interval(secs => %(lease_seconds)s), fence = delivery.fence + 1
    FROM chosen WHERE delivery.id = chosen.id
    RETURNING delivery.id, chosen.lapsed_at
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A claimed delivery: the lease, what to send, and what the record needs."""

    lease: Lease
    endpoint_key: int
    trigger: Trigger
    requested_by: str
    secret_generation: int
    parcel: Parcel


def claim_due(wanted: int) -> list[Order]:
    """Claim up to ``wanted`` due deliveries, the least recently served endpoints first; an empty list: none is due.

    An endpoint has at most 4 in flight (exact), an organisation at most 12 (a few more while senders race).
    """
    orders: list[Order] = []
    while len(orders) < wanted:
        endpoint_has_work, claimed = _claim_of_next_endpoint(wanted - len(orders))
        if not endpoint_has_work:
            break
        orders.extend(claimed)
    return orders


@transaction.atomic
def _claim_of_next_endpoint(wanted: int) -> tuple[bool, list[Order]]:
    limits = {"endpoint_max": IN_FLIGHT_OF_ENDPOINT, "organisation_max": IN_FLIGHT_OF_ORGANISATION}
    with connection.cursor() as cursor:
        cursor.execute(_NEXT_ENDPOINT, limits)
        found = cursor.fetchone()
        if found is None:
            return False, []
        cursor.execute("UPDATE webhooks_endpoint SET served_at = clock_timestamp() WHERE id = %s", [found[0]])
        cursor.execute(
            _CLAIM,
            {
                **limits,
                "wanted": wanted,
                "lease_seconds": LEASE_SECONDS,
                "endpoint_id": found[0],
                "organisation_id": found[1],
            },
        )
        lapsed_at: dict[int, datetime | None] = dict(cursor.fetchall())
    rows = Delivery.objects.select_related("endpoint", "event").filter(pk__in=lapsed_at).order_by("due_at", "pk")
    orders = []
    for row in rows:
        lapsed = lapsed_at[row.pk]
        if lapsed is None or _survives_interruption(row, lapsed):
            orders.extend(_orders(row))
    return True, orders


def record_answer(order: Order, answer: Answer) -> None:
    """Log an attempt and move its delivery on, in one transaction.

    Raises:
        LeaseLost: The delivery was claimed again meanwhile; that claim has logged ours as unknown.
    """
    verdict = judge(answer)
    with transaction.atomic():
        if order.trigger is not Trigger.TEST or verdict.disables_because:
            _note_on_endpoint(order, verdict, clock.now())
        with moving_on(Delivery, order.lease) as row:
            _log_attempt(row, order, answer, verdict.outcome)
            _move_on(row, order, verdict, answer)
            reach(FaultPoint.DELIVER_BEFORE_COMMIT)
    reach(FaultPoint.DELIVER_AFTER_COMMIT)
    logger.info(
        "webhook.delivery.attempt delivery=%s event=%s number=%d trigger=%s outcome=%s status_code=%s duration_ms=%d",
        row.public_id,
        order.parcel.event_id,
        row.attempt_count,
        order.trigger,
        verdict.outcome,
        answer.status_code,
        answer.duration_ms,
    )


@transaction.atomic
def request_resend(organisation: Organisation, delivery_id: str, *, requested_by: str) -> Delivery:
    """Ask for one more attempt now, whatever the delivery's state; the ladder goes on where it stood if it fails.

    Asked twice before it is sent, or while an attempt runs, it is sent once.

    Raises:
        NotFound: The organisation has no such delivery.
        InvalidRequest: Its endpoint is disabled or deleted.
    """
    endpoint_key = delivery_by_id(organisation, delivery_id).endpoint_id
    endpoint = Endpoint.objects.select_for_update(no_key=True).get(pk=endpoint_key)
    row = Delivery.objects.select_for_update().get(organisation=organisation, public_id=delivery_id)
    if endpoint.state != EndpointState.ENABLED:
        raise InvalidRequest(f"The endpoint is {endpoint.state}; nothing is sent to it.")
    at = clock.now()
    if row.resend_requested_at is None and (row.lease_until is None or row.lease_until <= at):
        row.resumes_at, row.due_at = row.due_at, at
        row.resend_requested_at, row.resend_requested_by = at, requested_by
        row.save(update_fields=["resumes_at", "due_at", "resend_requested_at", "resend_requested_by"])
        record(
            "webhook.resend_requested",
            object_type="webhook_delivery",
            object_id=delivery_id,
            organisation=organisation,
        )
        wake("webhooks.deliver_due")
    return delivery_by_id(organisation, delivery_id)


def _orders(row: Delivery) -> list[Order]:
    """Give the order of a claimed row; none when its secret cannot be read, which only an operator can mend."""
    endpoint = row.endpoint
    kept = [endpoint.secret]
    if endpoint.previous_secret is not None and (endpoint.previous_secret_until or clock.now()) > clock.now():
        kept.append(endpoint.previous_secret)
    try:
        keys = tuple(key_of(secrets.decrypt(bytes(secret))) for secret in kept)
    except InvalidToken:
        logger.error("the secret of endpoint %s was encrypted with a key that is not configured", endpoint.public_id)  # noqa: TRY400 -- the trace would add nothing
        return []
    parcel = Parcel(url=endpoint.url, event_id=row.event.public_id, payload=bytes(row.event.payload), keys=keys)
    return [
        Order(
            lease=Lease(table=Delivery._meta.db_table, row_id=row.pk, fence=row.fence),  # noqa: SLF001 -- Django's documented model API
            endpoint_key=endpoint.pk,
            trigger=_trigger_of(row),
            requested_by=row.resend_requested_by,
            secret_generation=endpoint.secret_generation,
            parcel=parcel,
        )
    ]


def _trigger_of(row: Delivery) -> Trigger:
    if row.resend_requested_at is not None:
        return Trigger.MANUAL
    return Trigger.TEST if row.is_test else Trigger.AUTO


def _survives_interruption(row: Delivery, lapsed_at: datetime) -> bool:
    """Log the send that a lost sender had begun, and say whether the delivery is sent at once now.

    Beyond the free interruptions each one is a failure of the ladder.
    """
    row.attempt_count += 1
    row.interruption_count += 1
    started_at = lapsed_at - timedelta(seconds=LEASE_SECONDS)
    DeliveryAttempt.objects.create(
        delivery=row,
        number=row.attempt_count,
        started_at=started_at,
        trigger=_trigger_of(row),
        requested_by=row.resend_requested_by,
        outcome=Outcome.UNKNOWN,
        detail="The sender was interrupted; the receiver may have had it.",
        duration_ms=0,
        secret_generation=row.endpoint.secret_generation,
    )
    row.last_outcome, row.last_status_code, row.last_attempt_at = Outcome.UNKNOWN, None, started_at
    is_sent_now = row.interruption_count <= _FREE_INTERRUPTIONS
    if not is_sent_now:
        _fail(row, _trigger_of(row), clock.now(), None)
        row.lease_until = None
    row.save()
    return is_sent_now


def _log_attempt(row: Delivery, order: Order, answer: Answer, outcome: Outcome) -> None:
    row.attempt_count += 1
    row.last_outcome, row.last_status_code, row.last_attempt_at = outcome, answer.status_code, answer.started_at
    DeliveryAttempt.objects.create(
        delivery=row,
        number=row.attempt_count,
        started_at=answer.started_at,
        trigger=order.trigger,
        requested_by=order.requested_by,
        outcome=outcome,
        detail=answer.detail,
        duration_ms=answer.duration_ms,
        status_code=answer.status_code,
        response_headers="\n".join(f"{name}: {value}" for name, value in answer.headers),
        response_body=answer.body,
        address=answer.address,
        secret_generation=order.secret_generation,
    )


def _move_on(row: Delivery, order: Order, verdict: Verdict, answer: Answer) -> None:
    at = clock.now()
    if verdict.next is Next.DELIVERED:
        _set_state(row, DeliveryState.DELIVERED, None, at)
    elif row.state != DeliveryState.PENDING or verdict.next is Next.RETRY:
        _fail(row, order.trigger, at, retry_after_seconds(answer.header("retry-after"), at))
    else:
        _set_state(row, DeliveryState.ENDED, verdict.reason, at)


def _fail(row: Delivery, trigger: Trigger, at: datetime, asked_seconds: int | None) -> None:
    """Set what follows a failure: the ladder's next step, or where it stood before a manual attempt."""
    if row.state != DeliveryState.PENDING:
        # It had arrived or ended before; one more failure does not change that.
        _set_state(row, DeliveryState(row.state), None, row.state_changed_at, keeps_reason=True)
        return
    if trigger is Trigger.MANUAL:
        row.due_at = row.resumes_at
        row.resend_requested_at, row.resend_requested_by, row.resumes_at = None, "", None
        return
    row.failure_count += 1
    next_at = next_attempt_at(
        failed_at=at,
        failure_count=row.failure_count,
        delivery_id=row.public_id,
        retry_after_seconds=asked_seconds,
    )
    if next_at is None or trigger is Trigger.TEST:
        _set_state(row, DeliveryState.FAILED, Reason.ATTEMPTS_USED_UP, at)
    elif row.resend_requested_at is not None:
        row.resumes_at = next_at
    else:
        row.due_at = next_at


def _set_state(
    row: Delivery, state: DeliveryState, reason: Reason | None, at: datetime, *, keeps_reason: bool = False
) -> None:
    row.state, row.state_changed_at = state, at
    if not keeps_reason:
        row.state_reason = reason or ""
    row.due_at, row.resumes_at = None, None
    row.resend_requested_at, row.resend_requested_by = None, ""


def _note_on_endpoint(order: Order, verdict: Verdict, at: datetime) -> None:
    """Keep the endpoint's row of failures, and switch it off where the answer says so."""
    endpoints = Endpoint.objects.filter(pk=order.endpoint_key)
    if verdict.next is Next.DELIVERED:
        endpoints.filter(failure_streak_count__gt=0).update(failure_streak_count=0, failing_since=None)
        return
    endpoints.update(failure_streak_count=F("failure_streak_count") + 1, failing_since=Coalesce("failing_since", at))
    if verdict.disables_because:
        endpoints.filter(state=EndpointState.ENABLED).update(
            state=EndpointState.DISABLED, state_reason=verdict.disables_because, state_changed_at=at
        )
