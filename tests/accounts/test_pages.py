"""Who sees a page: visitors, members, staff."""

from __future__ import annotations

import pytest
from django.test import Client

from accounts.models import User
from ground import clock
from tests.harness.world import make_tenant

PAGE = "/app/batches/"


@pytest.fixture
def outsider(db: None) -> User:
    return User.objects.create_user(
        email="Outsider@Example.com", password="a long password", name="Out", created_at=clock.now()
    )


def test_a_visitor_is_led_to_sign_in_and_back(client: Client, db: None) -> None:
    answer = client.get(PAGE)
    assert (answer.status_code, answer["Location"]) == (302, "/login?next=/app/batches/")


def test_a_poll_after_the_session_ended_leads_the_whole_page(client: Client, db: None) -> None:
    headers = {"HX-Request": "true", "HX-Current-URL": "https://lanehouse.example/app/batches/?state=failed"}
    answer = client.get(PAGE, headers=headers)
    assert (answer.status_code, answer["HX-Redirect"]) == (204, "/login?next=/app/batches/")


def test_who_belongs_nowhere_finds_nothing(client: Client, outsider: User) -> None:
    client.force_login(outsider)
    assert client.get(PAGE).status_code == 404


def test_an_address_signs_in_whatever_its_case(client: Client, outsider: User) -> None:
    answer = client.post("/login", {"username": "OUTSIDER@example.COM", "password": "a long password"})
    assert (answer.status_code, answer["Location"]) == (302, "/")


@pytest.mark.parametrize("field", ["username", "password"])
def test_a_wrong_pair_does_not_say_which_half_was_wrong(client: Client, outsider: User, field: str) -> None:
    pair = {"username": "outsider@example.com", "password": "a long password"} | {field: "wrong@example.com"}
    answer = client.post("/login", pair)
    assert answer.status_code == 422
    assert b"The e-mail or the password is not right." in answer.content


def test_a_sign_in_leads_nowhere_else(client: Client, outsider: User) -> None:
    pair = {"username": "outsider@example.com", "password": "a long password", "next": "https://example.com/"}
    assert client.post("/login", pair)["Location"] == "/"


def test_tenants_are_separate_by_key(db: None) -> None:
    assert make_tenant("one").organisation != make_tenant("two").organisation


def test_a_poll_from_an_address_that_is_none_leads_to_the_start(client: Client, db: None) -> None:
    answer = client.get(PAGE, headers={"HX-Request": "true", "HX-Current-URL": "http://["})
    assert (answer.status_code, answer["HX-Redirect"]) == (204, "/login?next=/")


@pytest.mark.parametrize("address", ["/app/webhooks/deliveries/?after=%00", "/ops/lanes/%00/x/rotate/"])
def test_a_nul_in_an_address_is_nothing_here(client: Client, outsider: User, address: str) -> None:
    client.force_login(outsider)
    assert client.get(address).status_code == 404
