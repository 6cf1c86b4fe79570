"""Deliveries over real HTTP: what arrives, what is recorded, what is tried again."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

import pytest
from openai import OpenAI

from accounts.models import Organisation
from tests.harness.clock import Clock
from tests.webhooks.kit import BODY, make_endpoint, publish, send_due, the_delivery
from tests.webhooks.receivers import Request, receiving, status
from webhooks.models import DeliveryAttempt, DeliveryState, Endpoint, EndpointState
from webhooks.selectors import attempt_counts, attempts_of
from webhooks.services.endpoints import rotate_secret, update_endpoint


def verified_by_hand(request: Request, secret: str) -> bool:
    signed = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}.".encode() + request.body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    expected = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    entries = request.headers["webhook-signature"].split(" ")
    return any(entry == f"v1,{expected}" for entry in entries)


def test_an_event_arrives_as_its_frozen_bytes_signed_for_both_kinds_of_receiver(
    organisation: Organisation, allow: Any
) -> None:
    with receiving() as receiver:
        allow(receiver)
        _, secret = make_endpoint(organisation, receiver.url)
        event = publish(organisation)
        assert send_due(receiver.authority) == 1
    (request,) = receiver.requests
    assert request.body == BODY
    assert request.headers["webhook-id"] == event.public_id
    assert verified_by_hand(request, secret)
    unwrapped = OpenAI(api_key="none").webhooks.unwrap(request.body, request.headers, secret=secret)
    assert unwrapped.type == "batch.completed"
    assert the_delivery(event).state == DeliveryState.DELIVERED


def test_only_the_documented_headers_leave(organisation: Organisation, allow: Any, monkeypatch: Any) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with receiving(status(200, set_cookie="a=b")) as receiver:
        allow(receiver)
        make_endpoint(organisation, receiver.url)
        for _ in range(2):
            publish(organisation)
        assert send_due(receiver.authority) == 2
    for request in receiver.requests:
        assert set(request.headers) == {
            *("host", "user-agent", "accept", "accept-encoding", "connection", "content-type", "content-length"),
            *("webhook-id", "webhook-timestamp", "webhook-signature"),
        }
        assert request.headers["accept-encoding"] == "identity"
        assert request.headers["host"] == receiver.authority


def test_seven_attempts_follow_the_ladder_and_send_equal_bytes(
    organisation: Organisation, allow: Any, clock: Clock
) -> None:
    clock.freeze(clock.now())
    with receiving(status(404)) as receiver:
        allow(receiver)
        make_endpoint(organisation, receiver.url)
        event = publish(organisation)
        waits = []
        while the_delivery(event).state == DeliveryState.PENDING:
            assert send_due(receiver.authority) == 1
            due_at = the_delivery(event).due_at
            if due_at is not None:
                wait_seconds = (due_at - clock.now()).total_seconds()
                clock.advance(seconds=wait_seconds - 0.5)
                assert send_due(receiver.authority) == 0
                clock.advance(seconds=0.5)
                waits.append(wait_seconds)
    for wait_seconds, step_seconds in zip(waits, (30, 120, 600, 3_600, 21_600, 86_400), strict=True):
        assert 0.9 * step_seconds <= wait_seconds <= 1.1 * step_seconds
    delivery = the_delivery(event)
    assert (delivery.state, delivery.state_reason) == (DeliveryState.FAILED, "attempts_used_up")
    assert [attempt.number for attempt in attempts_of(delivery)] == [7, 6, 5, 4, 3, 2, 1]
    assert {request.body for request in receiver.requests} == {BODY}
    assert {request.headers["webhook-id"] for request in receiver.requests} == {event.public_id}
    stamps = [int(request.headers["webhook-timestamp"]) for request in receiver.requests]
    assert stamps == sorted(set(stamps))


@pytest.mark.parametrize(
    ("code", "outcome", "state"),
    [
        (200, "delivered", "delivered"),
        (202, "delivered", "delivered"),
        (204, "delivered", "delivered"),
        (299, "delivered", "delivered"),
        (301, "http_3xx", "ended"),
        (304, "http_3xx", "ended"),
        (307, "http_3xx", "ended"),
        (400, "http_4xx", "pending"),
        (401, "http_4xx", "pending"),
        (404, "http_4xx", "pending"),
        (408, "http_4xx", "pending"),
        (410, "http_4xx", "ended"),
        (429, "http_429", "pending"),
        (500, "http_5xx", "pending"),
        (503, "http_5xx", "pending"),
        (999, "protocol", "pending"),
    ],
)
def test_each_class_of_answer_has_its_consequence(
    organisation: Organisation, allow: Any, code: int, outcome: str, state: str
) -> None:
    with receiving() as elsewhere, receiving(status(code, location=elsewhere.url)) as receiver:
        allow(receiver, elsewhere)
        endpoint, _ = make_endpoint(organisation, receiver.url)
        event = publish(organisation)
        send_due(receiver.authority, elsewhere.authority)
    delivery = the_delivery(event)
    (attempt,) = attempts_of(delivery)
    assert (attempt.outcome, attempt.status_code, delivery.state) == (outcome, code, state)
    assert elsewhere.requests == []
    endpoint.refresh_from_db()
    assert endpoint.state == (EndpointState.DISABLED if code == 410 else EndpointState.ENABLED)


def test_410_switches_the_endpoint_off_and_what_waited_goes_out_when_it_is_on_again(
    organisation: Organisation, allow: Any
) -> None:
    with receiving(status(410), status(200)) as receiver:
        allow(receiver)
        endpoint, _ = make_endpoint(organisation, receiver.url)
        first = publish(organisation)
        send_due(receiver.authority)
        endpoint.refresh_from_db()
        assert endpoint.state_reason == "The receiver answered 410 Gone."
        publish(organisation)
        assert send_due(receiver.authority) == 0
        update_endpoint(organisation, endpoint.public_id, is_enabled=True)
        later = publish(organisation)
        assert send_due(receiver.authority) == 1
    assert the_delivery(first).state_reason == "gone"
    assert the_delivery(later).state == DeliveryState.DELIVERED


@pytest.mark.parametrize(
    ("retry_after", "wait_seconds"), [("120", 120), ("86400", 86_400), ("999999999", 86_400), ("-5", 0), ("soon", 0)]
)
def test_a_receiver_that_asks_for_time_gets_it(
    organisation: Organisation, allow: Any, clock: Clock, retry_after: str, wait_seconds: int
) -> None:
    at = clock.freeze(clock.now())
    with receiving(status(429, retry_after=retry_after)) as receiver:
        allow(receiver)
        make_endpoint(organisation, receiver.url)
        event = publish(organisation)
        send_due(receiver.authority)
    due_at = the_delivery(event).due_at
    assert due_at is not None
    waited = (due_at - at).total_seconds()
    if wait_seconds:
        assert waited == wait_seconds
    else:
        assert 27 <= waited <= 33


def test_both_secrets_sign_while_they_overlap(organisation: Organisation, allow: Any, clock: Clock) -> None:
    with receiving() as receiver:
        allow(receiver)
        endpoint, old = make_endpoint(organisation, receiver.url)
        _, new = rotate_secret(organisation, endpoint.public_id)
        publish(organisation)
        send_due(receiver.authority)
        clock.advance(hours=25)
        later = publish(organisation)
        send_due(receiver.authority)
    during, after = receiver.requests
    assert verified_by_hand(during, new)
    assert verified_by_hand(during, old)
    assert not verified_by_hand(after, old)
    assert [attempt.secret_generation for attempt in attempts_of(the_delivery(later))] == [2]


def test_the_counter_is_the_log(organisation: Organisation, allow: Any, clock: Clock) -> None:
    with receiving(status(500), status(200)) as receiver:
        allow(receiver)
        make_endpoint(organisation, receiver.url)
        publish(organisation)
        send_due(receiver.authority)
        clock.advance(seconds=60)
        send_due(receiver.authority)
    counts = {(count.outcome, count.trigger): count.attempt_count for count in attempt_counts()}
    assert counts == {("http_5xx", "auto"): 1, ("delivered", "auto"): 1}
    assert sum(counts.values()) == DeliveryAttempt.objects.count()
    assert not Endpoint.objects.filter(failure_streak_count__gt=0).exists()
