"""The pages of API keys."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client

from accounts.models import ApiKey
from accounts.selectors import caller_by_key
from accounts.services.organisations import KEYS_MAX_COUNT, create_api_key
from ground import clock as product_clock
from ground.errors import AuthenticationFailed, InvalidRequest
from tests.harness.clock import Clock
from tests.harness.world import Tenant, make_tenant
from tests.routing.pages.conftest import as_role, html_of, signed_in, words_of  # noqa: F401 -- a fixture among them
from tests.routing.pages.scenes import member

LIST = "/app/keys/"
DIALOG = {"HX-Request": "true", "HX-Target": "dialog"}
ALL = ["quotes", "batches", "files", "webhooks", "read"]
AsRole = Callable[[str], Client]


@pytest.fixture
def tenant(db: None) -> Tenant:
    return make_tenant()


@pytest.fixture
def admin(tenant: Tenant) -> Client:
    return signed_in(member(tenant.organisation))


def wanted(**changes: object) -> dict[str, object]:
    return {"name": "Nightly jobs", "kind": "live", "scopes": ALL, "lifetime_days": "never", **changes}


@pytest.mark.parametrize("headers", [{}, DIALOG])
def test_a_key_is_shown_in_the_answer_to_its_creation_and_never_again(
    tenant: Tenant, admin: Client, headers: dict[str, str]
) -> None:
    made = admin.post(f"{LIST}new/", wanted(scopes=["quotes", "batches"], lifetime_days="30"), headers=headers)
    (text,) = set(re.findall(r"sk-lh-acme-[A-Za-z0-9]{46}", html_of(made)))
    caller = caller_by_key(text)
    assert caller.organisation == tenant.organisation
    key = ApiKey.objects.get(name="Nightly jobs")
    assert caller.api_key == key
    assert (key.scopes, key.expires_at) == (["batches", "quotes"], key.created_at + timedelta(days=30))
    shown = html_of(admin.get(LIST))
    assert text not in shown
    assert f"{key.prefix}…{key.last_four}" in shown
    assert "batches, quotes" in shown
    assert key.created_by is not None
    assert key.created_by.name in shown


def test_a_test_key_belongs_to_the_test_twin(tenant: Tenant, admin: Client) -> None:
    made = html_of(admin.post(f"{LIST}new/", wanted(kind="test")))
    (text,) = set(re.findall(r"sk-lh-test-acme-[A-Za-z0-9]{46}", made))
    assert caller_by_key(text).organisation == tenant.organisation.test_twin
    assert "Nightly jobs" in words_of(admin.get(f"{LIST}?kind=test"))
    assert "Nightly jobs" not in words_of(admin.get(f"{LIST}?kind=live"))


def test_a_key_that_may_do_nothing_is_not_made(tenant: Tenant, admin: Client) -> None:
    answer = admin.post(f"{LIST}new/", wanted(scopes=[], name=" "), headers=DIALOG)
    assert answer.status_code == 422
    assert "Tick at least one" in words_of(answer)
    assert ApiKey.objects.count() == 1


def test_a_revocation_says_what_it_ends_and_holds_at_once(tenant: Tenant, admin: Client) -> None:
    page = f"{LIST}{tenant.api_key.public_id}/revoke/"
    assert "are refused from the next call on" in words_of(admin.get(page))
    assert caller_by_key(tenant.key_text).api_key == tenant.api_key
    assert admin.post(page, headers=DIALOG)["HX-Redirect"] == LIST
    with pytest.raises(AuthenticationFailed):
        caller_by_key(tenant.key_text)
    listed = words_of(admin.get(f"{LIST}?state=revoked"))
    assert "was revoked" in listed
    assert "No keys match" in words_of(admin.get(f"{LIST}?state=active"))


def test_an_expired_key_is_listed_as_such(tenant: Tenant, admin: Client, clock: Clock) -> None:
    admin.post(f"{LIST}new/", wanted(lifetime_days="7"))
    clock.advance(days=7, seconds=1)
    admin = signed_in(member(tenant.organisation, name="Later"))
    assert "Nightly jobs" in words_of(admin.get(f"{LIST}?state=expired"))
    assert "Nightly jobs" not in words_of(admin.get(f"{LIST}?state=active"))


def test_a_developer_sees_keys_and_changes_none(tenant: Tenant, as_role: AsRole) -> None:  # noqa: F811
    developer = as_role("developer")
    shown = words_of(developer.get(LIST))
    assert tenant.api_key.last_four in shown
    assert "New key" not in shown
    revoke = f"{LIST}{tenant.api_key.public_id}/revoke/"
    assert [developer.post(page).status_code for page in (f"{LIST}new/", revoke)] == [403, 403]
    assert caller_by_key(tenant.key_text).api_key == tenant.api_key
    assert "API keys" not in words_of(as_role("viewer").get("/app/batches/"))
    assert "API keys" in words_of(developer.get("/app/batches/"))


def test_another_organisations_key_is_not_there(tenant: Tenant, admin: Client) -> None:
    other = make_tenant("globex")
    assert admin.post(f"{LIST}{other.api_key.public_id}/revoke/").status_code == 404
    assert admin.get(f"{LIST}?after={other.api_key.public_id}").status_code == 404
    assert other.api_key.last_four not in words_of(admin.get(LIST))
    assert caller_by_key(other.key_text).api_key == other.api_key


def test_an_organisation_has_a_hundred_keys_in_use_at_most(tenant: Tenant, clock: Clock) -> None:
    keys = [
        ApiKey(
            public_id=f"key_{number}",
            organisation=tenant.organisation,
            name=f"k{number}",
            key_hash=bytes([number]) * 32,
            created_at=product_clock.now(),
        )
        for number in range(KEYS_MAX_COUNT - 1)
    ]
    ApiKey.objects.bulk_create(keys)
    with pytest.raises(InvalidRequest):
        create_api_key(organisation=tenant.organisation, name="one more", at=product_clock.now())
    ApiKey.objects.filter(name="k0").update(revoked_at=product_clock.now())
    create_api_key(organisation=tenant.organisation, name="one more", at=product_clock.now())
