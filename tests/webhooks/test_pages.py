"""The customers' pages."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from accounts.models import Organisation, User
from accounts.services.organisations import add_member
from ground import clock as ground_clock
from tests.webhooks.conftest import Allow
from tests.webhooks.kit import make_endpoint, make_organisation, publish, secret_of, send_due, the_delivery
from tests.webhooks.receivers import receiving, status
from webhooks.models import DeliveryState, Endpoint, EndpointState

LIST = "/app/webhooks/"
URL = "https://hooks.example.com/lanehouse"
DIALOG = {"HX-Request": "true", "HX-Target": "dialog"}


def member_of(organisation: Organisation, role: str = "developer") -> Client:
    user = User.objects.create_user(
        email=f"{role}@{organisation.slug}.example.com", name="Ada", created_at=ground_clock.now()
    )
    add_member(organisation=organisation, user=user, role=role, at=ground_clock.now())
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def developer(organisation: Organisation) -> Client:
    return member_of(organisation)


def text(response: Any) -> str:
    return " ".join(response.content.decode().split())


def test_first_use_says_what_an_endpoint_is(developer: Client) -> None:
    assert "No endpoints yet" in text(developer.get(LIST))


def test_the_secret_is_shown_in_the_answer_to_the_creation_and_never_again(
    organisation: Organisation, developer: Client
) -> None:
    made = developer.post(f"{LIST}new/", {"url": URL, "name": "Main", "event_types": ["batch.failed"]}, headers=DIALOG)
    endpoint = Endpoint.objects.get(organisation=organisation)
    secret = secret_of(endpoint)
    assert secret in text(made)
    for page in (LIST, f"{LIST}{endpoint.public_id}/"):
        shown = text(developer.get(page))
        assert secret not in shown
        assert URL in shown
    assert endpoint.event_types == ["batch.failed"]


@pytest.mark.parametrize("headers", [{}, DIALOG])
def test_a_refused_url_stands_at_its_field_with_the_reason(developer: Client, headers: dict[str, str]) -> None:
    answer = developer.post(f"{LIST}new/", {"url": "https://127.1/"}, headers=headers)
    assert answer.status_code == 422
    assert "must be a name, not an IP address" in text(answer)
    assert 'aria-invalid="true"' in text(answer)


def test_an_endpoint_is_edited_switched_off_and_on(organisation: Organisation, developer: Client) -> None:
    endpoint, _ = make_endpoint(organisation, URL)
    page = f"{LIST}{endpoint.public_id}/"
    edited = developer.post(f"{page}edit/", {"url": f"{URL}2", "name": "Two"}, headers=DIALOG)
    assert edited["HX-Retarget"] == "#endpoint"
    assert "dialog-close" in edited["HX-Trigger"]
    assert f"{URL}2" in text(edited)
    assert developer.post(f"{page}state/", {"state": "disabled"}).status_code == 302
    assert "This endpoint is off" in text(developer.get(page))
    on_again = developer.post(
        f"{page}state/", {"state": "enabled"}, headers={"HX-Request": "true", "HX-Target": "endpoint"}
    )
    assert "Enabled" in text(on_again)


def test_a_rotation_shows_the_new_secret_once(organisation: Organisation, developer: Client) -> None:
    endpoint, old = make_endpoint(organisation, URL)
    answer = developer.post(f"{LIST}{endpoint.public_id}/rotate/", {"overlap": "24"}, headers=DIALOG)
    endpoint.refresh_from_db()
    assert secret_of(endpoint) != old
    assert secret_of(endpoint) in text(answer)
    assert "signs too until" in text(developer.get(f"{LIST}{endpoint.public_id}/"))


def test_a_deletion_says_what_it_ends(organisation: Organisation, developer: Client) -> None:
    endpoint, _ = make_endpoint(organisation, URL)
    event = publish(organisation)
    page = f"{LIST}{endpoint.public_id}/"
    assert "<strong>1</strong> pending delivery will not be made" in text(developer.get(f"{page}delete/"))
    assert developer.post(f"{page}delete/", headers=DIALOG)["HX-Redirect"] == LIST
    assert developer.get(page).status_code == 404
    shown = text(developer.get(f"{LIST}deliveries/{the_delivery(event).public_id}/"))
    assert "The endpoint was deleted before it arrived." in shown


def test_a_test_event_appears_with_its_answer(organisation: Organisation, developer: Client, allow: Allow) -> None:
    with receiving(status(500, b"<script>alert(1)</script>")) as receiver:
        allow(receiver)
        endpoint, _ = make_endpoint(organisation, receiver.url)
        sent = developer.post(f"{LIST}{endpoint.public_id}/test/", follow=True)
        assert "A test event is on its way." in text(sent)
        assert "data-poll" in text(sent)
        send_due(receiver.authority)
    page = developer.get(f"{LIST}{endpoint.public_id}/")
    assert "data-poll" not in text(page)
    found = re.search(r'href="(/app/webhooks/deliveries/dlv_[^"]+)"', text(page))
    assert found
    detail = text(developer.get(found[1]))
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in detail
    assert "<script>alert" not in detail
    assert "Receiver failed" in detail


def test_a_delivery_is_live_until_nothing_is_due_and_is_sent_again(
    organisation: Organisation, developer: Client, allow: Allow
) -> None:
    with receiving(status(503), status(200)) as receiver:
        allow(receiver)
        make_endpoint(organisation, receiver.url)
        event = publish(organisation)
        send_due(receiver.authority)
        page = f"{LIST}deliveries/{the_delivery(event).public_id}/"
        region = {"HX-Request": "true", "HX-Target": "delivery"}
        first = text(developer.get(page, headers=region))
        found = re.search(r'hx-get="([^"]+)"', first)
        assert found
        assert developer.get(found[1], headers=region).status_code == 204
        asked = developer.post(f"{page}resend/", headers=region)
        assert "It is being sent again." in asked["HX-Trigger"]
        send_due(receiver.authority)
    after = text(developer.get(page, headers=region))
    assert "data-poll" not in after
    assert "sent again by hand (Ada)" in after
    assert the_delivery(event).state == DeliveryState.DELIVERED


def test_the_list_is_filtered_and_paged(organisation: Organisation, developer: Client) -> None:
    first, _ = make_endpoint(organisation, URL, event_types=("batch.failed",))
    make_endpoint(organisation, f"{URL}/two")
    for _ in range(51):
        publish(organisation)
    publish(organisation, type="batch.failed")
    page = f"{LIST}deliveries/"
    whole = text(developer.get(page))
    assert whole.count("<tr>") == 51
    older = re.search(r'rel="next" href="([^"]+)"', whole)
    assert older
    assert text(developer.get(older[1].replace("&amp;", "&"))).count("<tr>") == 1 + 3
    assert text(developer.get(page, {"endpoint": first.public_id})).count("<tr>") == 1 + 1
    assert text(developer.get(page, {"event_type": "batch.failed"})).count("<tr>") == 1 + 2
    nothing = text(developer.get(page, {"state": "failed"}, headers={"HX-Request": "true", "HX-Target": "list"}))
    assert nothing.startswith('<section id="list"')
    assert "Nothing failed" in nothing


@pytest.mark.parametrize("role", ["viewer", "billing"])
def test_who_may_only_look_sees_the_endpoints_and_no_payload(organisation: Organisation, role: str) -> None:
    endpoint, _ = make_endpoint(organisation, URL)
    reader = member_of(organisation, role)
    assert URL in text(reader.get(LIST))
    assert "New endpoint" not in text(reader.get(LIST))
    for path in (f"{LIST}new/", f"{LIST}{endpoint.public_id}/", f"{LIST}deliveries/"):
        assert reader.get(path).status_code == 403
    assert reader.post(f"{LIST}{endpoint.public_id}/state/", {"state": "disabled"}).status_code == 403
    endpoint.refresh_from_db()
    assert endpoint.state == EndpointState.ENABLED


def test_another_organisations_pages_do_not_exist(organisation: Organisation) -> None:
    endpoint, _ = make_endpoint(organisation, URL)
    event = publish(organisation)
    stranger = member_of(make_organisation())
    for path in ("", "edit/", "rotate/", "delete/"):
        assert stranger.get(f"{LIST}{endpoint.public_id}/{path}").status_code == 404
    assert stranger.post(f"{LIST}{endpoint.public_id}/test/").status_code == 404
    delivery = f"{LIST}deliveries/{the_delivery(event).public_id}/"
    assert stranger.get(delivery).status_code == stranger.post(f"{delivery}resend/").status_code == 404


def test_a_visitor_is_asked_to_sign_in(db: None) -> None:
    assert Client().get(LIST).status_code == 302
