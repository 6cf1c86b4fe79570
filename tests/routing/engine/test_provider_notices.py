"""A provider's notice wakes the poll of its job, and does nothing else."""

from __future__ import annotations

import queue
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest
from django.test import Client
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ground import clock
from routing.services import collect
from routing.services.provider_accounts import set_provider_account
from simulators.serving import serving_on_thread
from tests.routing.engine.kit import STEPS, Engine, questions
from webhooks.domain.signing import key_of, secret_text, signature_header

SECRET = secret_text(bytes(range(32)))
ADDRESS = "/provider-notices/openai/customer"
Notice = tuple[dict[str, str], bytes]


@contextmanager
def receiving() -> Iterator[tuple[str, queue.Queue[Notice]]]:
    """An address, and what comes there."""
    came: queue.Queue[Notice] = queue.Queue()

    async def take(request: Request) -> Response:
        came.put((dict(request.headers), await request.body()))
        return Response(status_code=204)

    with serving_on_thread(Starlette(routes=[Route("/notices", take, methods=["POST"])])) as url:
        yield f"{url}/notices", came


def post(client: Client, headers: Mapping[str, str], body: bytes, address: str = ADDRESS) -> int:
    signed = {name: value for name, value in headers.items() if name.startswith("webhook-")}
    return client.post(address, body, content_type="application/json", headers=signed).status_code


def signed(body: bytes, *, seconds: int, secret: str = SECRET, event_id: str = "wh_1") -> dict[str, str]:
    signature = signature_header(event_id=event_id, timestamp_seconds=seconds, payload=body, keys=[key_of(secret)])
    return {"webhook-id": event_id, "webhook-timestamp": str(seconds), "webhook-signature": signature}


@pytest.fixture
def noticed(engine: Engine) -> Engine:
    """An account whose provider signs its notices."""
    set_provider_account(
        provider="openai",
        kind="customer",
        name="openai-customer",
        base_url=engine.simulator.base_url,
        api_key="key-of-customer",
        at=clock.now(),
        notice_secret=SECRET,
    )
    return engine


def test_the_simulated_notice_lets_its_job_be_polled_at_once(noticed: Engine, client: Client) -> None:
    with receiving() as (url, came):
        noticed.simulator.control.change_settings(notice_url=url, notice_secret=SECRET, rows_per_second=0.01)
        batch = noticed.accept(questions(2))
        for name in ("start", "submit"):
            STEPS[name]()
        for _ in range(4):
            noticed.pass_time(30)
            collect.poll_next_job()
        noticed.pass_time(1)
        assert not collect.poll_next_job(), "it is not due yet"
        noticed.simulator.control.change_settings(rows_per_second=None)
        headers, body = came.get(timeout=20)
    assert post(client, headers, body) == 204
    assert collect.poll_next_job()
    assert noticed.job(batch).state == "ended"
    # Again, it finds nothing that is still to be asked about.
    assert post(client, headers, body) == 204
    assert noticed.finish(batch).completed_count == 2


def test_what_is_not_signed_lately_by_the_account_changes_nothing(noticed: Engine, client: Client) -> None:
    noticed.simulator.control.change_settings(rows_per_second=0.01)
    batch = noticed.accept(questions(2))
    for name in ("start", "submit"):
        STEPS[name]()
    due_at = noticed.job(batch).due_at
    now = int(clock.now().timestamp())
    ref = noticed.job(batch).batch_ref
    body = b'{"type":"batch.completed","data":{"id":"%s"}}' % ref.encode()
    good = signed(body, seconds=now)
    assert [
        post(client, {}, body),
        post(client, signed(body, seconds=now, secret=secret_text(bytes(32))), body),
        post(client, good, body + b" "),
        post(client, {**good, "webhook-id": "wh_2"}, body),
        post(client, {**good, "webhook-signature": "v1a," + good["webhook-signature"][3:]}, body),
        post(client, signed(body, seconds=now - 301), body),
        post(client, signed(body, seconds=now + 301), body),
        post(client, {**good, "webhook-timestamp": "soon"}, body),
    ] == [401] * 8
    assert post(client, good, body, "/provider-notices/openai/test") == 404
    assert post(client, good, body, "/provider-notices/nobody/customer") == 404
    assert post(client, signed(b"{", seconds=now), b"{") == 400
    assert post(client, good, b"x" * 70_000) == 413
    assert client.get(ADDRESS).status_code == 405
    # Of another kind, or about a job that is none of ours: taken and forgotten.
    for other in (b'{"type":"response.completed","data":{"id":"resp_1"}}', body.replace(ref.encode(), b"batch_other")):
        assert post(client, signed(other, seconds=now), other) == 204
    assert noticed.job(batch).due_at == due_at
    assert post(client, {**good, "webhook-signature": f"v2,x {good['webhook-signature']}"}, body) == 204
    assert noticed.job(batch).due_at == clock.now()


def test_a_notice_that_was_polled_since_asks_for_nothing(noticed: Engine, client: Client) -> None:
    noticed.simulator.control.change_settings(rows_per_second=0.01)
    batch = noticed.accept(questions(2))
    for name in ("start", "submit"):
        STEPS[name]()
    body = b'{"type":"batch.completed","data":{"id":"%s"}}' % noticed.job(batch).batch_ref.encode()
    headers = signed(body, seconds=int(clock.now().timestamp()))
    noticed.pass_time(60)
    assert collect.poll_next_job()
    due_at = noticed.job(batch).due_at
    assert post(client, headers, body) == 204
    assert noticed.job(batch).due_at == due_at
