"""Endpoints: made, changed, switched off and on, deleted; their secrets; test events."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import orjson
from django.conf import settings
from django.db import transaction

from accounts.audit import record
from accounts.domain.audit import Change, Changes, changed
from accounts.models import Organisation
from ground import clock, secrets
from ground.errors import InvalidRequest, NotFound
from ground.ids import new_public_id
from ground.wake import wake
from webhooks.domain.outcomes import Reason
from webhooks.domain.receivers import read_receiver
from webhooks.domain.signing import SECRET_BYTES, secret_text
from webhooks.models import Delivery, DeliveryState, Endpoint, EndpointState
from webhooks.selectors import endpoint_by_id, endpoint_list, event_types
from webhooks.services.events import publish_test_event

ENDPOINTS_MAX_COUNT: Final = 20
NAME_MAX_CHARACTERS: Final = 200
OVERLAP_DEFAULT: Final = timedelta(hours=24)
OVERLAP_MAX: Final = timedelta(days=7)
TEST_TYPE: Final = "webhook_endpoint.test"


@transaction.atomic
def create_endpoint(
    organisation: Organisation, *, url: str, name: str = "", event_types: Sequence[str] = ()
) -> tuple[Endpoint, str]:
    """Make an enabled endpoint; the second value is its secret, which is shown once.

    Raises:
        InvalidRequest: ``invalid_url``; an unknown event type; or there are 20 endpoints already.
    """
    Organisation.objects.select_for_update(no_key=True).get(pk=organisation.pk)
    if endpoint_list(organisation).count() >= ENDPOINTS_MAX_COUNT:
        raise InvalidRequest(f"An organisation has at most {ENDPOINTS_MAX_COUNT} webhook endpoints.")
    at = clock.now()
    text = secret_text(os.urandom(SECRET_BYTES))
    endpoint = Endpoint.objects.create(
        public_id=new_public_id("whe_", at),
        organisation=organisation,
        url=_checked_url(url),
        name=_checked_name(name),
        event_types=_checked_types(event_types),
        state_changed_at=at,
        secret=secrets.encrypt(text),
        secret_last_four=_last_four(text),
        secret_made_at=at,
        created_at=at,
        updated_at=at,
    )
    _record("webhook.created", endpoint, changed(dict.fromkeys(_said(endpoint)), _said(endpoint)))
    return endpoint, text


@transaction.atomic
def update_endpoint(
    organisation: Organisation,
    public_id: str,
    *,
    url: str | None = None,
    name: str | None = None,
    event_types: Sequence[str] | None = None,
    is_enabled: bool | None = None,
) -> Endpoint:
    """Change what is given. Disabled: what is due waits, and new events are not for it; enabled: what waited goes out.

    Raises:
        NotFound: The organisation has no such endpoint.
        InvalidRequest: ``invalid_url``, or an unknown event type.
    """
    endpoint = _locked(organisation, public_id)
    before = _said(endpoint)
    if url is not None:
        endpoint.url = _checked_url(url)
    if name is not None:
        endpoint.name = _checked_name(name)
    if event_types is not None:
        endpoint.event_types = _checked_types(event_types)
    at = clock.now()
    if is_enabled is not None and is_enabled != (endpoint.state == EndpointState.ENABLED):
        endpoint.state = EndpointState.ENABLED if is_enabled else EndpointState.DISABLED
        endpoint.state_reason = "" if is_enabled else "Switched off by hand."
        endpoint.state_changed_at = at
        endpoint.failure_streak_count, endpoint.failing_since = 0, None
        wake("webhooks.deliver_due")
    endpoint.updated_at = at
    endpoint.save()
    changes = changed(before, _said(endpoint))
    if changes:
        _record("webhook.changed", endpoint, changes)
    return endpoint


@transaction.atomic
def delete_endpoint(organisation: Organisation, public_id: str) -> None:
    """Delete an endpoint: nothing is sent to it any more, its log stays.

    Raises:
        NotFound: The organisation has no such endpoint.
    """
    endpoint = _locked(organisation, public_id)
    at = clock.now()
    endpoint.state, endpoint.state_reason, endpoint.state_changed_at = EndpointState.DELETED, "", at
    endpoint.previous_secret = endpoint.previous_secret_until = None
    endpoint.save()
    _record("webhook.deleted", endpoint, {"state": ("there", "deleted")})
    # A statement of its own, after the endpoint's lock: it sees what was published while this waited.
    open_ones = Delivery.objects.filter(endpoint=endpoint, due_at__isnull=False)
    nothing_due = {"due_at": None, "resumes_at": None, "resend_requested_at": None, "resend_requested_by": ""}
    open_ones.filter(state=DeliveryState.PENDING).update(
        state=DeliveryState.ENDED, state_reason=Reason.ENDPOINT_DELETED, state_changed_at=at, **nothing_due
    )
    open_ones.update(**nothing_due)


@transaction.atomic
def rotate_secret(
    organisation: Organisation, public_id: str, *, overlap: timedelta = OVERLAP_DEFAULT
) -> tuple[Endpoint, str]:
    """Give an endpoint a new secret, shown once; the one before it signs too until the overlap (0 to 7 days) ends.

    Raises:
        NotFound: The organisation has no such endpoint.
        InvalidRequest: The overlap is longer.
    """
    if not timedelta(0) <= overlap <= OVERLAP_MAX:
        raise InvalidRequest(f"The old secret may stay valid for 0 to {OVERLAP_MAX.days} days.")
    endpoint = _locked(organisation, public_id)
    at = clock.now()
    text = secret_text(os.urandom(SECRET_BYTES))
    endpoint.previous_secret = bytes(endpoint.secret) if overlap else None
    endpoint.previous_secret_until = at + overlap if overlap else None
    endpoint.secret, endpoint.secret_last_four, endpoint.secret_made_at = secrets.encrypt(text), _last_four(text), at
    endpoint.secret_generation += 1
    endpoint.updated_at = at
    endpoint.save()
    overlap_seconds = int(overlap.total_seconds())
    _record("webhook.secret_rotated", endpoint, {"old_secret_valid_seconds": (None, overlap_seconds)})
    return endpoint, text


@transaction.atomic
def send_test_event(organisation: Organisation, public_id: str, *, type: str = TEST_TYPE) -> Delivery:  # noqa: A002 -- an event's type is called so everywhere
    """Send a test event, once, without the ladder; one that is still under way is given again instead.

    Raises:
        NotFound: The organisation has no such endpoint.
        InvalidRequest: It is disabled, or the type is unknown.
    """
    if type != TEST_TYPE:
        _checked_types([type])
    endpoint = _locked(organisation, public_id)
    running = Delivery.objects.filter(endpoint=endpoint, is_test=True, due_at__isnull=False).first()
    if running is not None:
        return running
    at = clock.now()
    event_id = new_public_id("evt_", at)
    delivery = publish_test_event(
        endpoint, type=type, payload=_test_payload(event_id, type, endpoint, at), public_id=event_id, at=at
    )
    if delivery is None:
        raise InvalidRequest("The endpoint is disabled: enable it to send a test event.")
    return delivery


def _record(action: str, endpoint: Endpoint, changes: Changes) -> None:
    record(
        action,
        object_type="webhook_endpoint",
        object_id=endpoint.public_id,
        organisation=endpoint.organisation,
        changes=changes,
    )


def _said(endpoint: Endpoint) -> dict[str, Change]:
    """Give an endpoint's settings as the audit log compares them; an address's query may hold a token."""
    return {
        "url": endpoint.url.partition("?")[0],
        "name": endpoint.name,
        "event_types": list(endpoint.event_types),
        "state": str(endpoint.state),
    }


def _locked(organisation: Organisation, public_id: str) -> Endpoint:
    """Give the endpoint locked against publishing and sending."""
    endpoint = endpoint_by_id(organisation, public_id)
    locked = endpoint_list(organisation).select_for_update().filter(pk=endpoint.pk).first()
    if locked is None:
        raise NotFound("There is no webhook endpoint with this id.")
    return locked


def _checked_url(url: str) -> str:
    return read_receiver(url, listed=settings.WEBHOOK_ALLOWED_RECEIVERS, own_hosts=settings.ALLOWED_HOSTS).url


def _checked_name(name: str) -> str:
    if len(name) > NAME_MAX_CHARACTERS or "\x00" in name:
        raise InvalidRequest(f"The name has at most {NAME_MAX_CHARACTERS} characters and no NUL.", param="name")
    return name.strip()


def _checked_types(types: Sequence[str]) -> list[str]:
    known = event_types()
    unknown = sorted(set(types) - set(known))
    if unknown:
        raise InvalidRequest(
            f"{unknown[0][:80]!r} is not an event type. There are: {', '.join(known)}.", param="event_types"
        )
    return [kind for kind in known if kind in types]


def _last_four(text: str) -> str:
    """Give what a secret is recognised by: its last characters before the padding."""
    return text.rstrip("=")[-4:]


def _test_payload(event_id: str, type: str, endpoint: Endpoint, at: datetime) -> bytes:  # noqa: A002 -- as above
    return orjson.dumps(
        {
            "id": event_id,
            "object": "event",
            "created_at": int(at.timestamp()),
            "type": type,
            "timestamp": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "data": {"id": endpoint.public_id, "test": True},
        }
    )
