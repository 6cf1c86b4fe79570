"""Keys, and what belongs to others: one answer for what is not there and what is not yours."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client

from accounts.models import ApiKey
from accounts.services.organisations import create_api_key, revoke_api_key
from ground import clock as now_source
from tests.api.world import Api, Left, error_of, left, lines_of, row
from tests.harness.clock import Clock
from tests.harness.world import Tenant

PATHS = ["/v1/wallet", "/v1/batches", "/v1/quotes/qt_nope", "/v1/models", "/v1/receipts", "/v1/files/file-nope"]


def ask(headers: dict[str, str], path: str = "/v1/wallet") -> object:
    return Client().get(path, headers=headers)


@pytest.mark.parametrize("path", PATHS)
def test_every_call_needs_a_key(tenant: Tenant, path: str) -> None:
    response = Client().get(path)
    error_of(response, 401, "invalid_api_key")
    assert response["WWW-Authenticate"] == "Bearer"


def test_a_refused_key_makes_nothing(api: Api, nothing_done: Left) -> None:
    response = Client().post("/v1/quotes/model", lines_of(row("a")), content_type="application/jsonl")
    error_of(response, 401, "invalid_api_key")


@pytest.mark.parametrize(
    "text",
    ["", "nonsense", "sk-lh-acme-short", "sk-lh-acme-" + "A" * 46, "sk-lh-acme-" + "\u00e4" * 46, "x" * 100_000],
)
def test_a_malformed_key_is_refused_and_never_echoed(tenant: Tenant, text: str) -> None:
    response = ask({"Authorization": f"Bearer {text}"})
    error = error_of(response, 401, "invalid_api_key")
    assert not text or text not in error["message"]


def test_a_mistyped_key_is_refused(tenant: Tenant) -> None:
    last = "a" if tenant.key_text[-1] != "a" else "b"
    error_of(ask({"Authorization": f"Bearer {tenant.key_text[:-1]}{last}"}), 401, "invalid_api_key")


def test_a_key_of_another_scheme_is_refused(tenant: Tenant) -> None:
    error_of(ask({"Authorization": f"Basic {tenant.key_text}"}), 401, "invalid_api_key")


def test_a_key_is_taken_as_x_api_key_too(tenant: Tenant) -> None:
    assert Client().get("/v1/wallet", headers={"x-api-key": tenant.key_text}).status_code == 200


def test_a_revoked_key_is_refused_at_once(api: Api, tenant: Tenant) -> None:
    assert api.get("/v1/wallet").status_code == 200
    revoke_api_key(organisation=tenant.organisation, public_id=tenant.api_key.public_id, at=now_source.now())
    before = left(tenant)
    error_of(api.post("/v1/quotes/model", lines_of(row("a")), "application/jsonl"), 401, "invalid_api_key")
    assert left(tenant) == before


def test_a_key_expires_by_the_databases_clock(api: Api, tenant: Tenant, clock: Clock) -> None:
    ApiKey.objects.filter(pk=tenant.api_key.pk).update(expires_at=now_source.now() + timedelta(minutes=5))
    assert api.get("/v1/wallet").status_code == 200
    clock.advance(minutes=6)
    error_of(api.get("/v1/wallet"), 401, "invalid_api_key")


def test_two_keys_of_one_organisation_see_the_same(api: Api, tenant: Tenant) -> None:
    quote = api.quote(row("a"))
    _, second = create_api_key(organisation=tenant.organisation, name="second", at=now_source.now())
    response = Client().get(f"/v1/quotes/{quote['id']}", headers={"Authorization": f"Bearer {second.text}"})
    assert response.json()["id"] == quote["id"]


def test_the_test_twin_does_not_see_what_its_organisation_has(api: Api, tenant: Tenant) -> None:
    quote = api.quote(row("a"))
    twin = tenant.organisation.test_twin
    _, key = create_api_key(organisation=twin, name="twin", at=now_source.now())
    assert key.text.startswith("sk-lh-test-acme-")
    response = Client().get(f"/v1/quotes/{quote['id']}", headers={"Authorization": f"Bearer {key.text}"})
    error_of(response, 404, "not_found", "quote_id")


def test_another_tenants_quote_is_not_there(api: Api, other: Api) -> None:
    quote_id = api.quote(row("a"))["id"]
    error_of(other.get(f"/v1/quotes/{quote_id}"), 404, "not_found", "quote_id")
    before = left(api.tenant), left(other.tenant)
    error_of(other.accept(quote_id), 404, "not_found", "quote_id")
    error_of(other.post("/v1/batches", {"metadata": {"quote_id": quote_id}}), 404, "not_found", "quote_id")
    error_of(other.post("/v1/batches", {"input_file_id": quote_id}), 404, "not_found", "quote_id")
    assert (left(api.tenant), left(other.tenant)) == before
    assert api.accept(quote_id).status_code == 200


def test_another_tenants_batch_and_all_that_came_of_it_are_not_there(
    api: Api, other: Api, run: Callable[[], None]
) -> None:
    batch_id = api.accept(api.quote(row("a"), row("b", "[[sim:fail]]"))["id"]).json()["id"]
    run()
    batch = api.batch(batch_id)
    for path, param in [
        (f"batches/{batch_id}", "batch_id"),
        (f"batches/{batch_id}/results", "batch_id"),
        (f"batches/{batch_id}/receipt", "batch_id"),
        (f"batches?after={batch_id}", "after"),
        (f"files/{batch['output_file_id']}", "file_id"),
        (f"files/{batch['output_file_id']}/content", "file_id"),
        (f"files/{batch['error_file_id']}", "file_id"),
        (f"files/{batch['error_file_id']}/content", "file_id"),
        (f"receipts/{batch['receipt_id']}", None),
        (f"receipts?after={batch['receipt_id']}", "after"),
    ]:
        ours = api.get(f"/v1/{path}")
        ours.close()
        assert ours.status_code == 200, path
        theirs = error_of(other.get(f"/v1/{path}"), 404, "not_found", param)
        assert "acme" not in theirs["message"]
    error_of(other.post(f"/v1/batches/{batch_id}/cancel", {}), 404, "not_found", "batch_id")
    assert other.get("/v1/batches").json()["data"] == []
    assert other.get("/v1/receipts").json()["data"] == []
