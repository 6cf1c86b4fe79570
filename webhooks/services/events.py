"""Publishing: the event and its deliveries come into being with the fact they tell of, or not at all."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from django.db import transaction

from accounts.models import Organisation
from ground import clock
from ground.ids import new_public_id
from ground.wake import wake
from webhooks.domain.records import PAYLOAD_MAX_BYTES
from webhooks.models import Delivery, Endpoint, Event

# The key is shared with the inserts' own foreign keys and waits for a deletion of the endpoint, not for its counters.
_SUBSCRIBED = """
    SELECT * FROM webhooks_endpoint
    WHERE organisation_id = %s AND state = 'enabled' AND (event_types = '{}' OR %s = ANY(event_types))
    ORDER BY id FOR KEY SHARE
"""
_ONE = "SELECT * FROM webhooks_endpoint WHERE id = %s AND state = 'enabled' FOR KEY SHARE"


@transaction.atomic
def publish_event(
    *,
    organisation: Organisation,
    type: str,  # noqa: A002 -- an event's type is called so everywhere
    payload: bytes,
    happened_at: datetime,
    business_key: str,
    endpoint_filter: Collection[Endpoint] | None = None,
    public_id: str | None = None,
) -> Event:
    """Make an event, and a delivery of it for each enabled endpoint that is subscribed to its type.

    Called inside the transaction that makes the fact. A fact that was told before gives the event it made then, with
    the bytes it had then; nothing else happens.

    Args:
        organisation: whose event it is.
        type: such as ``batch.completed``.
        payload: what is sent, byte for byte, at each attempt; at most 20,000 bytes.
        happened_at: when the fact came true (aware).
        business_key: names the fact within the organisation, at most 200 characters.
        endpoint_filter: only to these of the subscribed endpoints.
        public_id: the event's id (``evt_``, by ``ground.ids``) where the payload names it; else one is made.
    """
    event, is_new = _make_event(organisation, type, payload, happened_at, business_key, public_id)
    if is_new:
        endpoints = list(Endpoint.objects.raw(_SUBSCRIBED, [organisation.pk, type]))
        if endpoint_filter is not None:
            wanted = {endpoint.pk for endpoint in endpoint_filter}
            endpoints = [endpoint for endpoint in endpoints if endpoint.pk in wanted]
        _make_deliveries(event, endpoints, is_test=False)
    return event


def publish_test_event(
    endpoint: Endpoint,
    *,
    type: str,  # noqa: A002 -- as above
    payload: bytes,
    public_id: str,
    at: datetime,
) -> Delivery | None:
    """Make a test event for one enabled endpoint, whatever it is subscribed to; None when it is enabled no longer."""
    event, _ = _make_event(endpoint.organisation, type, payload, at, f"test {public_id}", public_id)
    deliveries = _make_deliveries(event, list(Endpoint.objects.raw(_ONE, [endpoint.pk])), is_test=True)
    return deliveries[0] if deliveries else None


def _make_event(
    organisation: Organisation,
    type: str,  # noqa: A002 -- as above
    payload: bytes,
    happened_at: datetime,
    business_key: str,
    public_id: str | None,
) -> tuple[Event, bool]:
    """Give the event of a fact, and whether it was made now."""
    assert len(payload) <= PAYLOAD_MAX_BYTES, "a payload is split before it is published"
    at = clock.now()
    made = Event(
        public_id=public_id or new_public_id("evt_", at),
        organisation=organisation,
        type=type,
        payload=payload,
        business_key=business_key,
        happened_at=happened_at,
        created_at=at,
    )
    # Waits for a transaction that tells the same fact, and then does nothing.
    Event.objects.bulk_create([made], ignore_conflicts=True)
    event = Event.objects.select_related("organisation").get(organisation=organisation, business_key=business_key)
    return event, event.public_id == made.public_id


def _make_deliveries(event: Event, endpoints: list[Endpoint], *, is_test: bool) -> list[Delivery]:
    at = clock.now()
    deliveries = Delivery.objects.bulk_create(
        Delivery(
            public_id=new_public_id("dlv_", at),
            organisation_id=event.organisation_id,
            endpoint=endpoint,
            event=event,
            is_test=is_test,
            state_changed_at=at,
            due_at=at,
            created_at=at,
        )
        for endpoint in endpoints
    )
    if deliveries:
        wake("webhooks.deliver_due")
    return deliveries
