"""``/v1/webhook_endpoints``, ``/v1/events``, ``/v1/deliveries``."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal, cast

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router

from accounts.models import Organisation
from accounts.selectors import Caller
from webhooks import selectors
from webhooks.schemas import (
    DeliveryDetailOut,
    DeliveryListOut,
    DeliveryOut,
    EndpointCreate,
    EndpointDeletedOut,
    EndpointListOut,
    EndpointOut,
    EndpointTestOut,
    EndpointTestRequest,
    EndpointUpdate,
    EndpointWithSecretOut,
    EventListOut,
    EventOut,
    EventTypeListOut,
    SecretRotate,
)
from webhooks.services import deliveries, endpoints

router = Router(tags=["webhooks"])
Limit = Annotated[int, Query(ge=1, le=selectors.PAGE_MAX)]
_PAGE_DEFAULT = 20


@router.post("/webhook_endpoints", response=EndpointWithSecretOut)
def create_webhook_endpoint(request: HttpRequest, body: EndpointCreate) -> EndpointWithSecretOut:
    """Make an endpoint. The answer is the only one that holds its `signing_secret`."""
    made, secret = endpoints.create_endpoint(
        _organisation(request), url=body.url, name=body.name, event_types=body.event_types or ()
    )
    return EndpointWithSecretOut.with_secret(made, secret)


@router.get("/webhook_endpoints", response=EndpointListOut)
def list_webhook_endpoints(
    request: HttpRequest, after: str | None = None, limit: Limit = _PAGE_DEFAULT
) -> EndpointListOut:
    """Give a page of endpoints, newest first."""
    rows = selectors.endpoint_list(_organisation(request))
    page, has_more = selectors.page_of(_organisation(request), rows, after=after, limit=limit)
    data = [EndpointOut.of(endpoint) for endpoint in page]
    first_id, last_id = _ends([entry.id for entry in data])
    return EndpointListOut(data=data, first_id=first_id, last_id=last_id, has_more=has_more)


@router.get("/webhook_event_types", response=EventTypeListOut)
def list_webhook_event_types(request: HttpRequest) -> EventTypeListOut:  # noqa: ARG001 -- ninja hands it to every operation
    """Give the event types that may be subscribed to."""
    return EventTypeListOut(data=list(selectors.event_types()))


@router.get("/webhook_endpoints/{endpoint_id}", response=EndpointOut)
def get_webhook_endpoint(request: HttpRequest, endpoint_id: str) -> EndpointOut:
    """Give one endpoint."""
    return EndpointOut.of(selectors.endpoint_by_id(_organisation(request), endpoint_id))


@router.patch("/webhook_endpoints/{endpoint_id}", response=EndpointOut)
def update_webhook_endpoint(request: HttpRequest, endpoint_id: str, body: EndpointUpdate) -> EndpointOut:
    """Change an endpoint. `status` `disabled`: what is due waits until it is `enabled` again."""
    changed = endpoints.update_endpoint(
        _organisation(request),
        endpoint_id,
        url=body.url,
        name=body.name,
        event_types=body.event_types,
        is_enabled=None if body.status is None else body.status == "enabled",
    )
    return EndpointOut.of(changed)


@router.post("/webhook_endpoints/{endpoint_id}", response=EndpointOut)
def change_webhook_endpoint(request: HttpRequest, endpoint_id: str, body: EndpointUpdate) -> EndpointOut:
    """Change an endpoint as `PATCH` does; the stock SDK says it so."""
    return update_webhook_endpoint(request, endpoint_id, body)


@router.delete("/webhook_endpoints/{endpoint_id}", response=EndpointDeletedOut)
def delete_webhook_endpoint(request: HttpRequest, endpoint_id: str) -> EndpointDeletedOut:
    """Delete an endpoint; nothing more is sent to it."""
    endpoints.delete_endpoint(_organisation(request), endpoint_id)
    return EndpointDeletedOut(id=endpoint_id)


@router.post("/webhook_endpoints/{endpoint_id}/rotate_secret", response=EndpointWithSecretOut)
def rotate_webhook_secret(
    request: HttpRequest, endpoint_id: str, body: SecretRotate | None = None
) -> EndpointWithSecretOut:
    """Give an endpoint a new secret; both sign while they overlap."""
    wanted = body or SecretRotate()
    overlap = endpoints.OVERLAP_DEFAULT if wanted.keep_old_secret_active_for_24_hours else timedelta(0)
    if wanted.overlap_hours is not None:
        overlap = timedelta(hours=wanted.overlap_hours)
    changed, secret = endpoints.rotate_secret(_organisation(request), endpoint_id, overlap=overlap)
    return EndpointWithSecretOut.with_secret(changed, secret)


@router.post("/webhook_endpoints/{endpoint_id}/test", response={202: EndpointTestOut})
def send_test_event(request: HttpRequest, endpoint_id: str, body: EndpointTestRequest | None = None) -> HttpResponse:
    """Send a test event, once, also where the endpoint is not subscribed to its type.

    It is sent in the background: `Location` leads to its delivery, which has what the endpoint answered.
    """
    event_type = (body.event_type if body else None) or endpoints.TEST_TYPE
    delivery = endpoints.send_test_event(_organisation(request), endpoint_id, type=event_type)
    sent = EndpointTestOut(
        webhook_endpoint_id=endpoint_id,
        event_type=delivery.event.type,
        event_id=delivery.event.public_id,
        delivery_id=delivery.public_id,
    )
    return HttpResponse(
        sent.model_dump_json(),
        status=202,
        content_type="application/json",
        headers={"Location": f"/v1/deliveries/{delivery.public_id}"},
    )


@router.get("/events", response=EventListOut)
def list_events(
    request: HttpRequest,
    after: str | None = None,
    limit: Limit = _PAGE_DEFAULT,
    type: str = "",  # noqa: A002 -- the parameter's public name
) -> EventListOut:
    """Give a page of events, newest first; `type` leaves the others out."""
    rows = selectors.event_list(_organisation(request), event_type=type)
    page, has_more = selectors.page_of(_organisation(request), rows, after=after, limit=limit)
    data = [EventOut.of(event) for event in page]
    first_id, last_id = _ends([entry.id for entry in data])
    return EventListOut(data=data, first_id=first_id, last_id=last_id, has_more=has_more)


@router.get("/events/{event_id}", response=EventOut)
def get_event(request: HttpRequest, event_id: str) -> EventOut:
    """Give one event."""
    return EventOut.of(selectors.event_by_id(_organisation(request), event_id))


@router.get("/deliveries", response=DeliveryListOut)
def list_deliveries(
    request: HttpRequest,
    after: str | None = None,
    limit: Limit = _PAGE_DEFAULT,
    status: Literal["", "pending", "delivered", "failed", "ended"] = "",
    webhook_endpoint_id: str = "",
    event_id: str = "",
) -> DeliveryListOut:
    """Give a page of deliveries, newest first; the other parameters narrow it."""
    rows = selectors.delivery_list(
        _organisation(request), state=status, endpoint_id=webhook_endpoint_id, event_id=event_id
    )
    page, has_more = selectors.page_of(_organisation(request), rows, after=after, limit=limit)
    data = [DeliveryOut.of(delivery) for delivery in page]
    first_id, last_id = _ends([entry.id for entry in data])
    return DeliveryListOut(data=data, first_id=first_id, last_id=last_id, has_more=has_more)


@router.get("/deliveries/{delivery_id}", response=DeliveryDetailOut)
def get_delivery(request: HttpRequest, delivery_id: str) -> DeliveryDetailOut:
    """Give one delivery and what each attempt met."""
    delivery = selectors.delivery_by_id(_organisation(request), delivery_id)
    return DeliveryDetailOut.with_attempts(delivery, selectors.attempts_of(delivery))


@router.post("/deliveries/{delivery_id}/resend", response=DeliveryOut)
def resend_delivery(request: HttpRequest, delivery_id: str) -> DeliveryOut:
    """Send a delivery again now, with the same `webhook-id`; asked twice before it is sent, it is sent once."""
    caller = _caller(request)
    assert caller.api_key is not None, "a call of the API comes with a key"
    delivery = deliveries.request_resend(caller.organisation, delivery_id, requested_by=caller.api_key.public_id)
    return DeliveryOut.of(delivery)


def _ends(ids: list[str]) -> tuple[str | None, str | None]:
    return (ids[0], ids[-1]) if ids else (None, None)


def _organisation(request: HttpRequest) -> Organisation:
    return _caller(request).organisation


def _caller(request: HttpRequest) -> Caller:
    return cast("Caller", request.auth)  # type: ignore[attr-defined]  # django-ninja adds it
