"""Claims, leases and fairness: races, killed senders, slow receivers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler

import pytest
from django.db import connections

from accounts.models import Organisation
from ground import clock as ground_clock
from ground.leases import LeaseLost
from tests.harness.clock import Clock
from tests.harness.database import ROOT, TestServer
from tests.webhooks.conftest import Allow
from tests.webhooks.kit import make_endpoint, make_organisation, publish, send_due, the_delivery
from tests.webhooks.receivers import Request, receiving, status
from webhooks.domain.records import Answer, Outcome
from webhooks.models import Delivery, DeliveryAttempt, DeliveryState, Endpoint, EndpointState
from webhooks.selectors import attempts_of
from webhooks.services import deliveries, turns
from webhooks.services.deliveries import LEASE_SECONDS, claim_due, record_answer, request_resend
from webhooks.services.endpoints import delete_endpoint, update_endpoint

URL = "https://hooks.example.com/"


def answered(status_code: int | None = 200, failure: Outcome | None = None) -> Answer:
    return Answer(started_at=ground_clock.now(), duration_ms=5, status_code=status_code, failure=failure)


def test_two_senders_at_once_send_each_delivery_once(db: None, allow: Allow) -> None:
    with receiving() as receiver:
        allow(receiver)
        for _ in range(4):
            organisation = make_organisation()
            for _ in range(2):
                make_endpoint(organisation, receiver.url)
            for _ in range(5):
                publish(organisation)

        def turn(_number: int) -> int:
            try:
                return send_due(receiver.authority)
            finally:
                connections.close_all()

        with ThreadPoolExecutor(3) as pool:
            assert sum(pool.map(turn, range(3))) == 40
    assert len(receiver.requests) == 40
    assert set(Delivery.objects.values_list("state", "attempt_count")) == {(DeliveryState.DELIVERED, 1)}


def test_a_sender_that_lost_its_lease_writes_nothing(organisation: Organisation, clock: Clock) -> None:
    make_endpoint(organisation, URL)
    event = publish(organisation)
    (first,) = claim_due(1)
    assert claim_due(1) == []
    clock.advance(seconds=LEASE_SECONDS + 1)
    (second,) = claim_due(1)
    with pytest.raises(LeaseLost):
        record_answer(first, answered(500))
    record_answer(second, answered(200))
    delivery = the_delivery(event)
    assert (delivery.state, delivery.failure_count) == (DeliveryState.DELIVERED, 0)
    assert [attempt.outcome for attempt in attempts_of(delivery)] == ["delivered", "unknown"]


def test_a_delivery_whose_senders_keep_dying_comes_to_an_end(organisation: Organisation, clock: Clock) -> None:
    make_endpoint(organisation, URL)
    event = publish(organisation)
    claims = 0
    while the_delivery(event).state == DeliveryState.PENDING:
        claims += len(claim_due(1))
        clock.advance(seconds=LEASE_SECONDS + 1)
        due_at = the_delivery(event).due_at
        if due_at is not None and due_at > clock.now():
            clock.advance(seconds=(due_at - clock.now()).total_seconds() + 1)
    delivery = the_delivery(event)
    assert (delivery.state, delivery.state_reason, claims) == (DeliveryState.FAILED, "attempts_used_up", 10)
    assert DeliveryAttempt.objects.filter(outcome="unknown").count() == delivery.attempt_count == 10


KILLED = """
import django; django.setup()
from webhooks.services.turns import take_turn
take_turn()
"""


@pytest.mark.faults
def test_a_sender_killed_after_it_sent_sends_again_under_the_same_id(
    organisation: Organisation, allow: Allow, clock: Clock, test_server: TestServer
) -> None:
    children: list[subprocess.Popen[bytes]] = []
    started = threading.Event()

    def kill(_handler: BaseHTTPRequestHandler, _request: Request) -> None:
        started.wait()
        os.kill(children[0].pid, signal.SIGKILL)
        children[0].wait()

    with receiving(kill, status(200)) as receiver:
        allow(receiver)
        make_endpoint(organisation, receiver.url)
        event = publish(organisation)
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "config.settings.test",
            "DATABASE_URL": test_server.app_dsn,
            "LANEHOUSE_WEBHOOK_ALLOWED_RECEIVERS": receiver.authority,
        }
        children.append(subprocess.Popen([sys.executable, "-c", KILLED], cwd=ROOT, env=environment))
        started.set()
        assert children[0].wait(60) == -signal.SIGKILL
        assert send_due(receiver.authority) == 0
        clock.advance(seconds=LEASE_SECONDS + 1)
        assert send_due(receiver.authority) == 1
    first, second = receiver.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == event.public_id
    assert first.body == second.body
    assert int(first.headers["webhook-timestamp"]) < int(second.headers["webhook-timestamp"])
    assert [attempt.outcome for attempt in attempts_of(the_delivery(event))] == ["delivered", "unknown"]


def test_a_slow_endpoint_delays_nobody_else_and_is_not_crowded(db: None, allow: Allow) -> None:
    let_go, guard = threading.Event(), threading.Lock()
    now_open, most_open = [0], [0]
    fast_arrived = threading.Semaphore(0)

    def hang(handler: BaseHTTPRequestHandler, request: Request) -> None:
        with guard:
            now_open[0] += 1
            most_open[0] = max(most_open[0], now_open[0])
        let_go.wait(30)
        with guard:
            now_open[0] -= 1
        status(200)(handler, request)

    def fast(handler: BaseHTTPRequestHandler, request: Request) -> None:
        status(200)(handler, request)
        fast_arrived.release()

    with receiving(hang) as slow, receiving(fast) as quick:
        allow(slow, quick)
        hanging = make_organisation()
        make_endpoint(hanging, slow.url)
        for _ in range(20):
            publish(hanging)
        others = [make_organisation() for _ in range(6)]
        for other in others:
            make_endpoint(other, quick.url)
            publish(other)

        def turn() -> int:
            try:
                return send_due(slow.authority, quick.authority, deadline_seconds=20)
            finally:
                connections.close_all()

        with ThreadPoolExecutor(1) as pool:
            turned = pool.submit(turn)
            arrived = [fast_arrived.acquire(timeout=15) for _ in others]
            slow_was_waiting = not turned.done()
            let_go.set()
            turned.result(60)
        while Delivery.objects.filter(state=DeliveryState.PENDING).exists():
            send_due(slow.authority, quick.authority)
    assert all(arrived)
    assert slow_was_waiting
    assert DeliveryAttempt.objects.count() == len(slow.requests) + len(quick.requests) == 26
    assert most_open[0] == deliveries.IN_FLIGHT_OF_ENDPOINT


def test_a_process_has_one_turn_that_claims_and_the_next_begins_when_it_only_waits(
    organisation: Organisation, allow: Allow
) -> None:
    let_go, arrived = threading.Event(), threading.Event()

    def hang(handler: BaseHTTPRequestHandler, request: Request) -> None:
        arrived.set()
        let_go.wait(30)
        status(200)(handler, request)

    def turn() -> None:
        try:
            turns.take_turn()
        finally:
            connections.close_all()

    with receiving(hang) as slow, receiving() as quick:
        allow(slow, quick)
        make_endpoint(organisation, slow.url, event_types=("batch.failed",))
        make_endpoint(organisation, quick.url, event_types=("batch.completed",))
        publish(organisation, type="batch.failed")
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(turn)
            assert arrived.wait(15)
            turns.take_turn()
            assert not first.done()
            turns.end_turns()
            while turns._claiming.locked():
                let_go.wait(0.05)
            turns._process_ends.clear()
            late = publish(organisation)
            turns.take_turn()
            assert the_delivery(late).state == DeliveryState.DELIVERED
            assert not first.done()
            let_go.set()
            first.result(30)
    assert set(Delivery.objects.values_list("state", flat=True)) == {DeliveryState.DELIVERED}


def test_one_organisation_cannot_take_all_slots_with_many_endpoints(db: None) -> None:
    greedy, modest = make_organisation(), make_organisation()
    for number in range(6):
        make_endpoint(greedy, f"{URL}{number}")
    for _ in range(5):
        publish(greedy)
    make_endpoint(modest, URL)
    publish(modest)
    orders = claim_due(100)
    owners = list(Delivery.objects.filter(lease_until__isnull=False).values_list("organisation_id", flat=True))
    assert len(orders) == len(owners) == deliveries.IN_FLIGHT_OF_ORGANISATION + 1
    assert owners.count(modest.pk) == 1


def test_what_was_due_long_ago_is_sent_once(organisation: Organisation, allow: Allow, clock: Clock) -> None:
    with receiving() as receiver:
        allow(receiver)
        make_endpoint(organisation, receiver.url)
        publish(organisation)
        clock.advance(days=7)
        assert send_due(receiver.authority) == 1
        assert send_due(receiver.authority) == 0


def test_a_disabled_endpoint_waits_and_the_ladder_goes_on_where_it_stood(
    organisation: Organisation, allow: Allow, clock: Clock
) -> None:
    with receiving(status(500), status(200)) as receiver:
        allow(receiver)
        endpoint, _ = make_endpoint(organisation, receiver.url)
        event = publish(organisation)
        send_due(receiver.authority)
        update_endpoint(organisation, endpoint.public_id, is_enabled=False)
        clock.advance(minutes=5)
        assert send_due(receiver.authority) == 0
        update_endpoint(organisation, endpoint.public_id, is_enabled=True)
        assert send_due(receiver.authority) == 1
    assert the_delivery(event).state == DeliveryState.DELIVERED


def test_an_answer_that_comes_after_the_deletion_is_still_logged(organisation: Organisation) -> None:
    endpoint, _ = make_endpoint(organisation, URL)
    event = publish(organisation)
    (order,) = claim_due(1)
    delete_endpoint(organisation, endpoint.public_id)
    record_answer(order, answered(500))
    delivery = the_delivery(event)
    assert (delivery.state, delivery.state_reason, delivery.due_at) == (DeliveryState.ENDED, "endpoint_deleted", None)
    assert len(attempts_of(delivery)) == 1


def test_an_address_that_is_not_allowed_ends_the_delivery_and_switches_the_endpoint_off(
    organisation: Organisation,
) -> None:
    endpoint, _ = make_endpoint(organisation, URL)
    event = publish(organisation)
    assert send_due(resolve=lambda _host, _port: ["10.0.0.1"]) == 1
    delivery = the_delivery(event)
    assert (delivery.state, delivery.state_reason) == (DeliveryState.ENDED, "address_not_allowed")
    assert [attempt.outcome for attempt in attempts_of(delivery)] == ["blocked"]
    endpoint.refresh_from_db()
    assert (endpoint.state, endpoint.state_reason) == (
        EndpointState.DISABLED,
        "Its host leads to an address that is not allowed.",
    )


class TestResend:
    def test_one_that_fails_leaves_the_ladder_where_it_stood(self, organisation: Organisation) -> None:
        make_endpoint(organisation, URL)
        event = publish(organisation)
        record_answer(claim_due(1)[0], answered(500))
        planned_at = the_delivery(event).due_at
        request_resend(organisation, the_delivery(event).public_id, requested_by="Ada")
        record_answer(claim_due(1)[0], answered(None, Outcome.TIMEOUT))
        delivery = the_delivery(event)
        assert (delivery.due_at, delivery.failure_count, delivery.resend_requested_at) == (planned_at, 1, None)
        assert [(attempt.trigger, attempt.requested_by) for attempt in attempts_of(delivery)] == [
            ("manual", "Ada"),
            ("auto", ""),
        ]

    def test_one_that_arrives_ends_the_ladder(self, organisation: Organisation) -> None:
        make_endpoint(organisation, URL)
        event = publish(organisation)
        record_answer(claim_due(1)[0], answered(500))
        request_resend(organisation, the_delivery(event).public_id, requested_by="Ada")
        record_answer(claim_due(1)[0], answered(200))
        assert (the_delivery(event).state, the_delivery(event).due_at) == (DeliveryState.DELIVERED, None)

    def test_what_had_arrived_stays_delivered_when_it_fails(self, organisation: Organisation) -> None:
        make_endpoint(organisation, URL)
        event = publish(organisation)
        record_answer(claim_due(1)[0], answered(200))
        delivered_at = the_delivery(event).state_changed_at
        request_resend(organisation, the_delivery(event).public_id, requested_by="Ada")
        record_answer(claim_due(1)[0], answered(301))
        delivery = the_delivery(event)
        assert (delivery.state, delivery.state_changed_at) == (DeliveryState.DELIVERED, delivered_at)
        assert claim_due(1) == []

    def test_while_an_attempt_runs_there_is_nothing_to_add(self, organisation: Organisation) -> None:
        make_endpoint(organisation, URL)
        event = publish(organisation)
        (order,) = claim_due(1)
        request_resend(organisation, the_delivery(event).public_id, requested_by="Ada")
        record_answer(order, answered(200))
        assert claim_due(1) == []


def test_a_row_of_failures_shows_on_the_endpoint_until_a_success(organisation: Organisation) -> None:
    make_endpoint(organisation, URL)
    for status_code in (500, 404):
        publish(organisation)
        record_answer(claim_due(1)[0], answered(status_code))
    failing = Endpoint.objects.get()
    assert failing.failure_streak_count == 2
    assert failing.failing_since is not None
    publish(organisation)
    record_answer(claim_due(1)[0], answered(200))
    assert Endpoint.objects.values_list("failure_streak_count", "failing_since").get() == (0, None)
