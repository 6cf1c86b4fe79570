"""What the tests of webhooks make."""

from __future__ import annotations

import itertools
from typing import Any

from accounts.models import Organisation
from accounts.services.organisations import create_organisation
from ground import clock, secrets
from webhooks.models import Delivery, Endpoint, Event
from webhooks.sender import Courier
from webhooks.services.endpoints import create_endpoint
from webhooks.services.events import publish_event
from webhooks.services.turns import deliver_due

_numbers = itertools.count(1)
BODY = b'{"type":"batch.completed","data":{"id":"batch_1","name":"Gr\xc3\xb6\xc3\x9fe","total":1.0}}'


def make_organisation() -> Organisation:
    return create_organisation(slug=f"acme{next(_numbers)}", name="Acme", at=clock.now())


def make_endpoint(organisation: Organisation, url: str, *, event_types: tuple[str, ...] = ()) -> tuple[Endpoint, str]:
    """Give an endpoint and the text of its secret."""
    return create_endpoint(organisation, url=url, name="", event_types=event_types)


def publish(organisation: Organisation, *, key: str | None = None, payload: bytes = BODY, **options: Any) -> Event:
    return publish_event(
        organisation=organisation,
        type=options.pop("type", "batch.completed"),
        payload=payload,
        happened_at=clock.now(),
        business_key=key or f"fact {next(_numbers)}",
        **options,
    )


def send_due(*listed: str, deadline_seconds: float = 3.0, **options: Any) -> int:
    """Run a turn with a sender that may reach these receivers."""
    return deliver_due(Courier(listed=listed, deadline_seconds=deadline_seconds, **options))


def the_delivery(event: Event) -> Delivery:
    return Delivery.objects.select_related("endpoint").get(event=event)


def secret_of(endpoint: Endpoint) -> str:
    return secrets.decrypt(bytes(endpoint.secret))
