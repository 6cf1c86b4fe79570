"""Shapes of ``/v1/webhook_endpoints``, ``/v1/events``, ``/v1/deliveries``. Instants are Unix seconds."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Schema
from pydantic import AliasChoices, Field

from webhooks.models import Delivery, DeliveryAttempt, Endpoint, EndpointState, Event

_EVENT_TYPES = AliasChoices("event_types", "events")
_NAME = AliasChoices("name", "description")


class EndpointCreate(Schema, extra="forbid"):
    """A new endpoint. `event_types` empty or left out: every type."""

    url: str
    name: str = Field("", validation_alias=_NAME)
    event_types: list[str] | None = Field(None, validation_alias=_EVENT_TYPES)


class EndpointUpdate(Schema, extra="forbid"):
    """What is to change; the rest stays."""

    url: str | None = None
    name: str | None = Field(None, validation_alias=_NAME)
    event_types: list[str] | None = Field(None, validation_alias=_EVENT_TYPES)
    status: Literal["enabled", "disabled"] | None = None


class SecretRotate(Schema, extra="forbid"):
    """How long the old secret signs too: 24 hours where nothing is said, at most 168."""

    overlap_hours: Annotated[int, Field(ge=0, le=168)] | None = None
    keep_old_secret_active_for_24_hours: bool = True


class EndpointTestRequest(Schema, extra="forbid"):
    """Which type the test event has; left out: `webhook_endpoint.test`."""

    event_type: str | None = None


class EndpointOut(Schema):
    """An endpoint; `event_types` empty: every type."""

    id: str
    object: Literal["webhook_endpoint"] = "webhook_endpoint"
    url: str
    name: str
    event_types: list[str]
    status: str
    disabled_reason: str | None
    failing_since: int | None
    signing_secret_hint: str
    previous_secret_expires_at: int | None
    created_at: int
    updated_at: int

    @classmethod
    def of(cls, endpoint: Endpoint) -> EndpointOut:
        """Shape an endpoint."""
        return cls(**_endpoint_fields(endpoint))


class EndpointWithSecretOut(EndpointOut):
    """An endpoint with its secret, which is shown here and never again."""

    signing_secret: str

    @classmethod
    def with_secret(cls, endpoint: Endpoint, secret: str) -> EndpointWithSecretOut:
        """Shape an endpoint that has a new secret."""
        return cls(**_endpoint_fields(endpoint), signing_secret=secret)


class EndpointListOut(Schema):
    """A page of endpoints, newest first."""

    object: Literal["list"] = "list"
    data: list[EndpointOut]
    first_id: str | None
    last_id: str | None
    has_more: bool


class EndpointDeletedOut(Schema):
    """What is left of an endpoint."""

    id: str
    object: Literal["webhook_endpoint.deleted"] = "webhook_endpoint.deleted"
    deleted: Literal[True] = True


class EndpointTestOut(Schema):
    """A test event is on its way: `GET /v1/deliveries/{delivery_id}` tells what it met.

    Nothing was sent yet, so `success` and `status_code`, which the stock SDK knows, are null.
    """

    object: Literal["webhook_endpoint.test"] = "webhook_endpoint.test"
    webhook_endpoint_id: str
    event_type: str
    event_id: str
    delivery_id: str
    status: Literal["pending"] = "pending"
    success: None = None
    status_code: None = None


class EventTypeListOut(Schema):
    """What may be subscribed to."""

    object: Literal["list"] = "list"
    data: list[str]


class EventOut(Schema):
    """An event; `payload` is the body of every attempt, character for character."""

    id: str
    object: Literal["event"] = "event"
    type: str
    created_at: int
    payload: str

    @classmethod
    def of(cls, event: Event) -> EventOut:
        """Shape an event."""
        return cls(
            id=event.public_id,
            type=event.type,
            created_at=_seconds(event.happened_at),
            payload=bytes(event.payload).decode(),
        )


class EventListOut(Schema):
    """A page of events, newest first."""

    object: Literal["list"] = "list"
    data: list[EventOut]
    first_id: str | None
    last_id: str | None
    has_more: bool


class AttemptOut(Schema):
    """One send: `number` from 1. Response texts are foreign: show them as text."""

    number: int
    trigger: str
    requested_by: str | None
    started_at: int
    duration_ms: int
    outcome: str
    detail: str | None
    status_code: int | None
    response_headers: str
    response_body: str
    address: str | None
    secret_generation: int

    @classmethod
    def of(cls, attempt: DeliveryAttempt) -> AttemptOut:
        """Shape an attempt."""
        return cls(
            number=attempt.number,
            trigger=attempt.trigger,
            requested_by=attempt.requested_by or None,
            started_at=_seconds(attempt.started_at),
            duration_ms=attempt.duration_ms,
            outcome=attempt.outcome,
            detail=attempt.detail or None,
            status_code=attempt.status_code,
            response_headers=attempt.response_headers,
            response_body=attempt.response_body,
            address=attempt.address or None,
            secret_generation=attempt.secret_generation,
        )


class DeliveryOut(Schema):
    """One event on its way to one endpoint; `next_attempt_at` null: none is due."""

    id: str
    object: Literal["webhook_delivery"] = "webhook_delivery"
    webhook_endpoint_id: str
    event_id: str
    event_type: str
    is_test: bool
    status: str
    reason: str | None
    attempt_count: int
    last_outcome: str | None
    last_status_code: int | None
    last_attempt_at: int | None
    next_attempt_at: int | None
    created_at: int

    @classmethod
    def of(cls, delivery: Delivery) -> DeliveryOut:
        """Shape a delivery."""
        return cls(**_delivery_fields(delivery))


class DeliveryDetailOut(DeliveryOut):
    """A delivery with its attempts, newest first."""

    attempts: list[AttemptOut]

    @classmethod
    def with_attempts(cls, delivery: Delivery, attempts: list[DeliveryAttempt]) -> DeliveryDetailOut:
        """Shape a delivery and its log."""
        return cls(**_delivery_fields(delivery), attempts=[AttemptOut.of(attempt) for attempt in attempts])


class DeliveryListOut(Schema):
    """A page of deliveries, newest first."""

    object: Literal["list"] = "list"
    data: list[DeliveryOut]
    first_id: str | None
    last_id: str | None
    has_more: bool


def _endpoint_fields(endpoint: Endpoint) -> dict[str, Any]:
    is_disabled = endpoint.state == EndpointState.DISABLED
    return {
        "id": endpoint.public_id,
        "url": endpoint.url,
        "name": endpoint.name,
        "event_types": endpoint.event_types,
        "status": endpoint.state,
        "disabled_reason": endpoint.state_reason if is_disabled else None,
        "failing_since": _seconds_or_none(endpoint.failing_since),
        "signing_secret_hint": f"whsec_...{endpoint.secret_last_four}",
        "previous_secret_expires_at": _seconds_or_none(endpoint.previous_secret_until),
        "created_at": _seconds(endpoint.created_at),
        "updated_at": _seconds(endpoint.updated_at),
    }


def _delivery_fields(delivery: Delivery) -> dict[str, Any]:
    return {
        "id": delivery.public_id,
        "webhook_endpoint_id": delivery.endpoint.public_id,
        "event_id": delivery.event.public_id,
        "event_type": delivery.event.type,
        "is_test": delivery.is_test,
        "status": delivery.state,
        "reason": delivery.state_reason or None,
        "attempt_count": delivery.attempt_count,
        "last_outcome": delivery.last_outcome or None,
        "last_status_code": delivery.last_status_code,
        "last_attempt_at": _seconds_or_none(delivery.last_attempt_at),
        "next_attempt_at": _seconds_or_none(delivery.due_at),
        "created_at": _seconds(delivery.created_at),
    }


def _seconds(at: datetime) -> int:
    return int(at.timestamp())


def _seconds_or_none(at: datetime | None) -> int | None:
    return None if at is None else _seconds(at)
