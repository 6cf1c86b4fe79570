"""``Idempotency-Key``: a call that is repeated is done once and answered alike, whatever happens between."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import partial
from threading import Thread
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory
from django.urls import resolve

from accounts.models import KeptCall, Organisation
from accounts.services.kept_calls import CallClaim, claim_call, sweep_kept_calls
from billing.services.wallets import record_top_up
from config.once import claiming, keeping
from ground import clock as product_clock
from routing.models import Batch, Quote, StoredFile, Workflow, WorkflowVersion
from tests.api.test_our_own_faults import FullDisk, storage
from tests.api.test_parallel import at_once
from tests.api.world import Api, error_of, lines_of, row
from tests.harness.clock import Clock
from tests.harness.world import make_tenant
from webhooks.models import Delivery, Endpoint

URL = "https://hooks.example.com/lanehouse"
ROWS = lines_of(row("a"))
ENDPOINTS = "/v1/webhook_endpoints"


def call(
    api: Api, method: str, path: str, body: Any = None, key: str = "k-1", content_type: str = "application/json"
) -> Any:
    content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    return api.client.generic(method, path, content, content_type=content_type, headers={"Idempotency-Key": key})


def form(boundary: str, content: bytes = ROWS) -> tuple[bytes, str]:
    parts = (("purpose", "", b"batch"), ("file", '; filename="a.jsonl"', content))
    body = b"".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'.encode() + value + b"\r\n"
        for name, more, value in parts
    )
    return body + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


def claimed(api: Api, route: str, path: str, body: Any, key: str = "k-1") -> CallClaim:
    """Claim a call as the process does that is about to do it, and is never heard of again."""
    body_hash = hashlib.sha256(path.encode() + b"\x00\x00" + json.dumps(body).encode()).digest()
    claim = claim_call(api.tenant.organisation, route=route, key=key, body_hash=body_hash)
    assert isinstance(claim, CallClaim)
    return claim


def counts() -> tuple[int, ...]:
    tables = (Quote, Batch, StoredFile, Workflow, WorkflowVersion, Endpoint, Delivery)
    return tuple(table._default_manager.count() for table in tables)


def test_every_kind_of_call_is_done_once_and_answered_alike(api: Api) -> None:
    quote_id = api.quote(row("b"))["id"]
    batch_id = api.accept(api.quote(row("c"))["id"]).json()["id"]
    file_id = api.post("/v1/files", *form("b")).json()["id"]
    endpoint = f"{ENDPOINTS}/{api.post(ENDPOINTS, {'url': URL}).json()['id']}"
    calls: list[tuple[str, str, Any, int]] = [
        ("POST", "/v1/quotes/model", ROWS, 201),
        ("POST", "/v1/quotes/model", {"input_file_id": file_id}, 202),
        ("POST", "/v1/batches", {"quote_id": quote_id}, 200),
        ("POST", f"/v1/batches/{batch_id}/cancel", None, 200),
        ("POST", "/v1/workflows", {"name": "night"}, 201),
        ("PATCH", "/v1/workflows/night", {"fan_out": False}, 200),
        ("POST", "/v1/workflows/night", {"fan_out": True}, 200),
        ("DELETE", "/v1/workflows/night", None, 200),
        ("POST", ENDPOINTS, {"url": URL}, 200),
        ("POST", f"{endpoint}/rotate_secret", None, 200),
        ("PATCH", endpoint, {"name": "Main"}, 200),
        ("DELETE", endpoint, None, 200),
        # A refusal is an answer too.
        ("POST", ENDPOINTS, {"url": "http://127.0.0.1/"}, 400),
        ("DELETE", f"{ENDPOINTS}/whe_none", None, 404),
    ]
    for number, (method, path, body, status) in enumerate(calls):
        first = call(api, method, path, body, key=f"k-{number}")
        done = counts()
        again = call(api, method, path, body, key=f"k-{number}")
        assert (first.status_code, again.status_code) == (status, status), (path, first.content)
        assert again.content == first.content
        assert again["Content-Type"] == "application/json"
        assert again.get("Location") == first.get("Location")
        assert (first.get("idempotent-replayed"), again["idempotent-replayed"]) == (None, "true")
        assert counts() == done, path
        assert again["x-request-id"] != first["x-request-id"]


def test_an_upload_is_the_same_whatever_boundary_its_form_has(api: Api) -> None:
    first, again = (call(api, "POST", "/v1/files", *_split(form(boundary))) for boundary in ("one", "two"))
    assert (first.status_code, again.content) == (200, first.content)
    assert StoredFile.objects.count() == 1
    other = call(api, "POST", "/v1/files", *_split(form("one", lines_of(row("b")))))
    error_of(other, 400, "idempotency_conflict", "Idempotency-Key")
    assert StoredFile.objects.count() == 1


def _split(sent: tuple[bytes, str]) -> tuple[Any, str, str]:
    return sent[0], "k-1", sent[1]


def test_a_secret_that_is_shown_once_is_kept_encrypted(api: Api) -> None:
    secret = call(api, "POST", ENDPOINTS, {"url": URL}).json()["signing_secret"]
    assert call(api, "POST", ENDPOINTS, {"url": URL}).json()["signing_secret"] == secret
    assert secret.encode() not in bytes(KeptCall.objects.get().content or b"")


def test_a_key_stands_for_one_request_of_one_organisation_at_one_address(api: Api, other: Api) -> None:
    first, second = (api.accept(api.quote(row("a"))["id"]).json()["id"] for _ in range(2))
    assert call(api, "POST", f"/v1/batches/{first}/cancel").json()["id"] == first
    error_of(call(api, "POST", f"/v1/batches/{second}/cancel"), 400, "idempotency_conflict", "Idempotency-Key")
    assert api.batch(second)["status"] == "in_progress"
    assert call(api, "POST", ENDPOINTS, {"url": URL}).status_code == 200
    error_of(call(api, "POST", ENDPOINTS, {"url": URL, "name": "x"}), 400, "idempotency_conflict", "Idempotency-Key")
    assert call(other, "POST", ENDPOINTS, {"url": URL, "name": "x"}).status_code == 200
    assert Endpoint.objects.count() == 2


@pytest.mark.parametrize("key", ["", "k" * 256, "two words", "cle\u0301", "k\t"])
def test_a_key_that_cannot_be_kept_is_refused_and_nothing_is_done(api: Api, key: str) -> None:
    refused = api.client.post(ENDPOINTS, {"url": URL}, content_type="application/json", HTTP_IDEMPOTENCY_KEY=key)
    assert "1 to 255" in error_of(refused, 400, "invalid_value", "Idempotency-Key")["message"]
    assert (Endpoint.objects.count(), KeptCall.objects.count()) == (0, 0)


def test_a_call_without_a_key_keeps_nothing_and_a_read_takes_no_notice_of_one(api: Api) -> None:
    assert api.post(ENDPOINTS, {"url": URL}).status_code == 200
    assert call(api, "GET", ENDPOINTS).status_code == 200
    assert KeptCall.objects.count() == 0


def test_while_the_first_call_runs_the_second_is_told_to_wait(api: Api) -> None:
    claimed(api, f"POST {ENDPOINTS}", ENDPOINTS, {"url": URL})
    waits = call(api, "POST", ENDPOINTS, {"url": URL})
    assert error_of(waits, 409, "idempotency_in_progress")["type"] == "conflict_error"
    assert waits["Retry-After"] == "1"
    error_of(call(api, "POST", ENDPOINTS, {"url": f"{URL}/2"}), 400, "idempotency_conflict", "Idempotency-Key")
    assert Endpoint.objects.count() == 0


def test_the_claim_of_a_dead_process_lapses_after_a_minute(api: Api, clock: Clock) -> None:
    clock.freeze(clock.now())
    claimed(api, f"POST {ENDPOINTS}", ENDPOINTS, {"url": URL})
    clock.advance(seconds=59)
    assert call(api, "POST", ENDPOINTS, {"url": URL}).status_code == 409
    clock.advance(seconds=1)
    first = call(api, "POST", ENDPOINTS, {"url": URL})
    assert first.status_code == 200
    assert call(api, "POST", ENDPOINTS, {"url": URL}).content == first.content
    assert Endpoint.objects.count() == 1


def asked_directly(api: Api, view: Callable[[HttpRequest], HttpResponse]) -> Any:
    """Answer a call by a view of the test's own, inside what surrounds every view."""
    request = RequestFactory().post("/v1/workflows", {}, content_type="application/json", HTTP_IDEMPOTENCY_KEY="k-1")
    request.resolver_match = resolve("/v1/workflows")
    request.auth = api.tenant.caller  # type: ignore[attr-defined]  # as django-ninja does
    return keeping(claiming(view))(request)


def test_a_process_that_was_overtaken_undoes_its_work(api: Api, clock: Clock) -> None:
    def slow(request: HttpRequest) -> HttpResponse:
        api.post("/v1/workflows", {"name": "night"})
        clock.advance(seconds=61)
        thread = Thread(target=overtake, args=(request.body,))
        thread.start()
        thread.join()
        return HttpResponse(b"{}", content_type="application/json")

    def overtake(body: bytes) -> None:
        body_hash = hashlib.sha256(b"/v1/workflows\x00\x00" + body).digest()
        claim_call(api.tenant.organisation, route="POST /v1/workflows", key="k-1", body_hash=body_hash)
        connection.close()

    answer = asked_directly(api, slow)
    assert (answer.status_code, answer["Retry-After"]) == (409, "1")
    assert Workflow.objects.count() == 0
    assert KeptCall.objects.get().claim_number == 2


def test_work_that_ends_in_a_failure_of_ours_is_undone_and_the_key_is_free(api: Api) -> None:
    def failing(_request: HttpRequest) -> HttpResponse:
        api.post("/v1/workflows", {"name": "night"})
        return HttpResponse(b"{}", content_type="application/json", status=500)

    assert asked_directly(api, failing).status_code == 500
    assert (Workflow.objects.count(), KeptCall.objects.count()) == (0, 0)


def test_a_busy_server_frees_the_key(api: Api) -> None:
    with storage(FullDisk):
        error_of(call(api, "POST", "/v1/quotes/model", ROWS), 503, "server_busy")
    assert call(api, "POST", "/v1/quotes/model", ROWS).status_code == 201


def test_a_call_that_came_too_often_frees_its_key(api: Api, clock: Clock) -> None:
    clock.freeze(clock.now())
    Organisation.objects.filter(pk=api.tenant.organisation.pk).update(accepts_per_minute=1)
    bodies = [{"quote_id": api.quote(row(name))["id"]} for name in "ab"]
    taken, refused = (call(api, "POST", "/v1/batches", body, key=str(n)) for n, body in enumerate(bodies))
    assert taken.status_code == 200
    error_of(refused, 429, "rate_limit_exceeded")
    # What was answered before is no accept.
    assert call(api, "POST", "/v1/batches", bodies[0], key="0").content == taken.content
    clock.advance(minutes=1)
    assert call(api, "POST", "/v1/batches", bodies[1], key="1").status_code == 200
    assert Batch.objects.count() == 2


def test_six_calls_at_once_with_one_key_are_one_call(api: Api) -> None:
    answers = at_once([partial(call, Api(api.tenant), "POST", ENDPOINTS, {"url": URL}) for _ in range(6)])
    assert Endpoint.objects.count() == 1
    assert {answer.status_code for answer in answers} <= {200, 409}
    assert len({answer.content for answer in answers if answer.status_code == 200}) == 1


def test_an_answer_is_kept_for_a_day_and_then_swept(api: Api, clock: Clock) -> None:
    call(api, "POST", ENDPOINTS, {"url": URL})
    clock.advance(hours=23, minutes=59)
    assert call(api, "POST", ENDPOINTS, {"url": URL})["idempotent-replayed"] == "true"
    clock.advance(minutes=2)
    # Judged by the clock, whether or not the sweep came by.
    assert "idempotent-replayed" not in call(api, "POST", ENDPOINTS, {"url": URL})
    assert sweep_kept_calls() is False
    assert KeptCall.objects.count() == 1
    clock.advance(hours=24)
    sweep_kept_calls()
    assert KeptCall.objects.count() == 0


@pytest.mark.parametrize(
    "attack",
    [
        "UPDATE accounts_keptcall SET content = 'other'",
        "UPDATE accounts_keptcall SET status_code = NULL, content = NULL, answered_at = NULL",
        "UPDATE accounts_keptcall SET claim_number = claim_number + 1, status_code = 503",
        "UPDATE accounts_keptcall SET claim_number = claim_number + 2",
        "UPDATE accounts_keptcall SET claim_number = claim_number + 1, content = NULL",
        """INSERT INTO accounts_keptcall (organisation_id, route, key, body_hash, claim_number, claimed_at, location)
        SELECT organisation_id, route, key, body_hash, 1, claimed_at, '' FROM accounts_keptcall""",
    ],
)
def test_the_database_refuses_another_answer(api: Api, app_cursor: psycopg.Cursor, attack: str) -> None:
    call(api, "POST", ENDPOINTS, {"url": URL})
    with pytest.raises((psycopg.errors.CheckViolation, psycopg.errors.UniqueViolation)):
        app_cursor.execute(attack.encode())


def test_the_published_calls_name_the_header(db: None) -> None:
    paths = Client().get("/v1/openapi.json").json()["paths"]
    for path, operations in paths.items():
        for method, operation in operations.items():
            named = "Idempotency-Key" in {parameter["name"] for parameter in operation.get("parameters", [])}
            assert (named, "409" in operation["responses"]) == ((True, True) if method != "get" else (False, False)), (
                path
            )


def test_who_tops_up_after_a_refusal_for_credit_sends_the_same_call_again(db: None) -> None:
    poor = Api(make_tenant("poor", credit_micro_usd=20_000))
    body = {"quote_id": poor.quote(row("a"))["id"]}
    error_of(call(poor, "POST", "/v1/batches", body), 402, "insufficient_credit")
    record_top_up(
        poor.tenant.organisation,
        reference="second",
        amount_micro_usd=1_000_000,
        effective_at=product_clock.now(),
        recorded_by=None,
    )
    first, again = (call(poor, "POST", "/v1/batches", body) for _ in range(2))
    assert (first.status_code, again.content, again["idempotent-replayed"]) == (200, first.content, "true")
    assert Batch.objects.count() == 1
