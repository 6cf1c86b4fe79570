"""What a key may do, as its program meets it: scopes, expiry, revocation, and the billing block."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from django.test import Client

from accounts.domain.scopes import Scope
from accounts.models import ApiKey, Organisation
from accounts.services.organisations import create_api_key, revoke_api_key
from config.scopes import needed_scopes
from ground import clock as product_clock
from tests.api.world import Api, Left, error_of, lines_of, row
from tests.harness.clock import Clock
from tests.harness.world import Tenant

CASES = Path(__file__).resolve().parents[1] / "cases" / "api"


def with_key(tenant: Tenant, *scopes: Scope, lifetime: timedelta | None = None) -> Api:
    key, new = create_api_key(
        organisation=tenant.organisation, name="other", at=product_clock.now(), scopes=scopes, lifetime=lifetime
    )
    return Api(Tenant(organisation=tenant.organisation, api_key=key, key_text=new.text))


def test_every_address_that_is_published_says_its_scope(db: None) -> None:
    document = Client().get("/v1/openapi.json").json()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            needed = needed_scopes(method.upper(), path)
            assert ("403" in operation["responses"]) == bool(needed), path
            assert all(f"`{scope.value}`" in operation["description"] for scope in needed), path


def test_a_key_acts_on_its_part_and_reads_it_only(api: Api, nothing_done: Left) -> None:
    narrow = with_key(api.tenant, Scope.QUOTES)
    assert narrow.get("/v1/workflows").status_code == 200
    assert narrow.get("/v1/models").status_code == 200
    assert narrow.post("/v1/quotes/model", b"not json\n", "application/jsonl").status_code == 400
    for refused in (narrow.accept("qt_x"), narrow.get("/v1/batches"), narrow.get("/v1/wallet")):
        error_of(refused, 403, "insufficient_scope")
    assert "'batches'" in error_of(narrow.accept("qt_x"), 403, "insufficient_scope")["message"]


def test_a_key_that_reads_reads_everything_and_does_nothing(api: Api, nothing_done: Left) -> None:
    reader = with_key(api.tenant, Scope.READ)
    for path in ("batches", "files", "workflows", "wallet", "receipts", "webhook_endpoints", "models"):
        assert reader.get(f"/v1/{path}").status_code == 200, path
    error_of(reader.post("/v1/quotes/model", lines_of(row("a")), "application/jsonl"), 403, "insufficient_scope")
    error_of(reader.post("/v1/webhook_endpoints", {"url": "https://hooks.example.com/"}), 403, "insufficient_scope")
    error_of(reader.client.delete("/v1/files/file-nope"), 403, "insufficient_scope")


def test_two_scopes_make_a_batch(api: Api) -> None:
    maker = with_key(api.tenant, Scope.QUOTES, Scope.BATCHES)
    assert maker.accept(maker.quote(row("a"))["id"]).status_code == 200


def test_a_key_from_before_there_were_scopes_may_do_everything(api: Api) -> None:
    assert ApiKey.objects.get(pk=api.tenant.api_key.pk).scopes == []
    assert api.accept(api.quote(row("a"))["id"]).status_code == 200


def test_a_revoked_key_is_refused_with_the_next_call(api: Api) -> None:
    assert api.get("/v1/models").status_code == 200
    revoke_api_key(organisation=api.tenant.organisation, public_id=api.tenant.api_key.public_id, at=product_clock.now())
    error_of(api.get("/v1/models"), 401, "invalid_api_key")


def test_231_a_key_expires_at_its_instant_whatever_the_offset_it_was_given_in(clock: Clock, tenant: Tenant) -> None:
    case = json.loads((CASES / "231-reset-offset.json").read_text("utf-8"))
    key = with_key(tenant)
    ApiKey.objects.filter(pk=key.tenant.api_key.pk).update(
        created_at=datetime(2026, 7, 1, tzinfo=UTC), expires_at=datetime.fromisoformat(case["reset_at"])
    )
    answers: list[Any] = []
    for now in case["now"]:
        clock.freeze(datetime.fromisoformat(now))
        answers.append(key.get("/v1/workflows"))
    assert [answer.status_code == 401 for answer in answers] == [False, True]


def test_a_billing_block_and_its_end_hold_from_the_next_call(api: Api) -> None:
    quote_id = api.quote(row("a"))["id"]
    organisation = Organisation.objects.filter(pk=api.tenant.organisation.pk)
    organisation.update(billing_blocked_at=product_clock.now())
    refused = api.accept(quote_id)
    error_of(refused, 402, "billing_blocked")
    assert not api.get(f"/v1/quotes/{quote_id}").json()["sufficient_credit"]
    organisation.update(billing_blocked_at=None)
    assert api.get(f"/v1/quotes/{quote_id}").json()["sufficient_credit"]
    assert api.accept(quote_id).status_code == 200
