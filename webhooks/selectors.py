"""Reads of webhooks: who is subscribed, what was sent, what came back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from django.conf import settings
from django.db.models import Count, Model, Q, QuerySet

from accounts.models import Organisation
from ground.errors import NotFound
from ground.ids import is_public_id
from webhooks.models import Delivery, DeliveryAttempt, DeliveryState, Endpoint, EndpointState, Event

PAGE_MAX = 100
Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptCount:
    """How often attempts of one trigger ended in one way: a value of ``webhook.delivery.attempts``."""

    outcome: str
    trigger: str
    attempt_count: int


def endpoints_of(organisation: Organisation, *, subscribed_to: str) -> list[Endpoint]:
    """Give the enabled endpoints that take events of a type, oldest first."""
    return list(
        Endpoint.objects.filter(organisation=organisation, state=EndpointState.ENABLED)
        .filter(Q(event_types=[]) | Q(event_types__contains=[subscribed_to]))
        .order_by("pk")
    )


def endpoint_list(organisation: Organisation) -> QuerySet[Endpoint]:
    """Give the organisation's endpoints, deleted ones left out, newest first."""
    return Endpoint.objects.filter(organisation=organisation).exclude(state=EndpointState.DELETED).order_by("-pk")


def endpoint_by_id(organisation: Organisation, public_id: str) -> Endpoint:
    """Give one of the organisation's endpoints.

    Raises:
        NotFound: There is none of this id, or it was deleted.
    """
    return _one(endpoint_list(organisation), public_id, "whe_", "endpoint")


def event_list(organisation: Organisation, *, event_type: str = "") -> QuerySet[Event]:
    """Give the organisation's events, of one type if it is named, newest first."""
    found = Event.objects.filter(organisation=organisation).order_by("-pk")
    return found.filter(type=event_type) if event_type else found


def event_by_id(organisation: Organisation, public_id: str) -> Event:
    """Give one of the organisation's events.

    Raises:
        NotFound: There is none of this id.
    """
    return _one(event_list(organisation), public_id, "evt_", "event")


def delivery_list(
    organisation: Organisation, *, state: str = "", endpoint_id: str = "", event_id: str = "", event_type: str = ""
) -> QuerySet[Delivery]:
    """Give the organisation's deliveries, newest first, each with its endpoint and its event without the payload."""
    found = Delivery.objects.filter(organisation=organisation)
    for field, value in (
        ("state", state),
        ("endpoint__public_id", endpoint_id),
        ("event__public_id", event_id),
        ("event__type", event_type),
    ):
        if value:
            found = found.filter(**{field: value})
    return found.select_related("endpoint", "event").defer("event__payload").order_by("-pk")


def delivery_by_id(organisation: Organisation, public_id: str) -> Delivery:
    """Give one of the organisation's deliveries, with its endpoint and its event.

    Raises:
        NotFound: There is none of this id.
    """
    found = Delivery.objects.filter(organisation=organisation).select_related("endpoint", "event")
    return _one(found, public_id, "dlv_", "delivery")


def attempts_of(delivery: Delivery) -> list[DeliveryAttempt]:
    """Give a delivery's attempts, newest first."""
    return list(
        DeliveryAttempt.objects.filter(delivery=delivery, started_at__gte=delivery.created_at).order_by("-number")
    )


def delivery_counts(endpoints: Sequence[Endpoint], since: datetime) -> dict[int, dict[str, int]]:
    """Give, by endpoint key, how many of the deliveries made since an instant stand in each state."""
    rows = (
        Delivery.objects.filter(endpoint__in=endpoints, created_at__gte=since)
        .values_list("endpoint_id", "state")
        .annotate(delivery_count=Count("pk"))
        .order_by()
    )
    counts: dict[int, dict[str, int]] = {endpoint.pk: dict.fromkeys(DeliveryState.values, 0) for endpoint in endpoints}
    for endpoint_id, state, delivery_count in rows:
        counts[endpoint_id][state] = delivery_count
    return counts


def attempt_counts(since: datetime | None = None) -> tuple[AttemptCount, ...]:
    """Give ``webhook.delivery.attempts`` from the log itself, of all organisations; so the two always agree.

    Args:
        since: only attempts that started then or later.
    """
    attempts = DeliveryAttempt.objects.all() if since is None else DeliveryAttempt.objects.filter(started_at__gte=since)
    rows = (
        attempts.values_list("outcome", "trigger")
        .annotate(attempt_count=Count("number"))
        .order_by("outcome", "trigger")
    )
    return tuple(
        AttemptCount(outcome=outcome, trigger=trigger, attempt_count=attempt_count)
        for outcome, trigger, attempt_count in rows
    )


def event_types() -> tuple[str, ...]:
    """Give the types that may be subscribed to."""
    return tuple(settings.WEBHOOK_EVENT_TYPES)


def page_of(
    organisation: Organisation, rows: QuerySet[Row], *, after: str | None, limit: int
) -> tuple[list[Row], bool]:
    """Give up to ``limit`` of an organisation's rows after the one whose public id is given, and whether more follow.

    Also a row that has left the list marks its place: what is deleted or delivered while it is read on breaks nothing.

    Raises:
        NotFound: The organisation has no row with this id.
    """
    assert 1 <= limit <= PAGE_MAX, "the border checks it"
    if after is not None:
        last = rows.model._default_manager.filter(organisation=organisation, public_id=after).first()  # noqa: SLF001 -- the manager of a model given as argument
        if last is None:
            raise NotFound("'after' is not the id of an entry of this list.", param="after")
        rows = rows.filter(pk__lt=last.pk)
    found = list(rows[: limit + 1])
    return found[:limit], len(found) > limit


def _one(rows: QuerySet[Row], public_id: str, prefix: str, what: str) -> Row:
    row = rows.filter(public_id=public_id).first() if is_public_id(public_id, prefix) else None
    if row is None:
        raise NotFound(f"There is no webhook {what} with this id.")
    return row
