"""The public calls."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from accounts.models import Organisation
from accounts.services.organisations import create_api_key
from ground import clock as ground_clock
from tests.harness.clock import Clock
from tests.webhooks.conftest import Allow
from tests.webhooks.kit import make_endpoint, make_organisation, publish, send_due, the_delivery
from tests.webhooks.receivers import receiving, status

URL = "https://hooks.example.com/lanehouse"


def client_of(organisation: Organisation) -> Client:
    _, new = create_api_key(organisation=organisation, name="test", at=ground_clock.now())
    return Client(headers={"authorization": f"Bearer {new.text}"})


@pytest.fixture
def api(organisation: Organisation) -> Client:
    return client_of(organisation)


def post(api: Client, path: str, body: Any = None) -> Any:
    if body is None:
        return api.post(f"/v1{path}", content_type="application/json")
    return api.post(f"/v1{path}", body, content_type="application/json")


def test_the_secret_is_in_the_answer_to_the_creation_and_in_no_other(api: Client) -> None:
    made = post(api, "/webhook_endpoints", {"url": URL, "name": "Main", "event_types": ["batch.completed"]})
    assert made.status_code == 200, made.content
    endpoint = made.json()
    secret = endpoint.pop("signing_secret")
    assert secret.startswith("whsec_")
    assert endpoint["event_types"] == ["batch.completed"]
    assert endpoint["status"] == "enabled"
    answers = [api.get(f"/v1/webhook_endpoints/{endpoint['id']}"), api.get("/v1/webhook_endpoints")]
    assert answers[0].json() == endpoint
    assert answers[1].json()["data"] == [endpoint]
    assert all(secret.encode() not in answer.content for answer in answers)


def test_the_words_of_the_stock_sdk_and_of_case_177_mean_the_same(api: Client) -> None:
    made = post(api, "/webhook_endpoints", {"url": URL, "description": "Main", "events": ["batch.failed"]}).json()
    assert (made["name"], made["event_types"]) == ("Main", ["batch.failed"])


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({}, "missing_required_parameter", "url"),
        ({"url": 5}, "invalid_type", "url"),
        ({"url": None}, "invalid_type", "url"),
        ({"url": "http://example.com/"}, "invalid_url", "url"),
        ({"url": URL, "event_types": ["batch.done"]}, "invalid_value", "event_types"),
        ({"url": URL, "secret": "mine"}, "unsupported_parameter", "secret"),
        ({"url": URL, "name": "x" * 201}, "invalid_value", "name"),
    ],
)
def test_what_cannot_be_taken_is_refused_by_name(api: Client, body: dict[str, Any], code: str, param: str) -> None:
    answer = post(api, "/webhook_endpoints", body)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["code"], error["param"]) == (code, param)
    assert api.get("/v1/webhook_endpoints").json()["data"] == []


def test_an_endpoint_is_changed_switched_off_and_deleted(api: Client) -> None:
    path = f"/v1/webhook_endpoints/{post(api, '/webhook_endpoints', {'url': URL}).json()['id']}"
    changed = api.patch(path, {"name": "New", "status": "disabled"}, content_type="application/json").json()
    assert (changed["name"], changed["status"], changed["disabled_reason"]) == (
        "New",
        "disabled",
        "Switched off by hand.",
    )
    assert api.post(path, {"status": "enabled"}, content_type="application/json").json()["status"] == "enabled"
    assert api.delete(path).json() == {
        "id": path.rpartition("/")[2],
        "object": "webhook_endpoint.deleted",
        "deleted": True,
    }
    assert api.get(path).status_code == api.delete(path).status_code == 404


def test_a_deleted_endpoint_gets_nothing_more(organisation: Organisation, api: Client, allow: Allow) -> None:
    with receiving() as receiver:
        allow(receiver)
        endpoint, _ = make_endpoint(organisation, receiver.url)
        event = publish(organisation)
        api.delete(f"/v1/webhook_endpoints/{endpoint.public_id}")
        assert send_due(receiver.authority) == 0
    assert receiver.requests == []
    found = api.get("/v1/deliveries", {"event_id": event.public_id}).json()["data"]
    assert [(entry["status"], entry["reason"]) for entry in found] == [("ended", "endpoint_deleted")]


def test_a_rotation_gives_a_new_secret_and_says_how_long_the_old_one_counts(api: Client) -> None:
    made = post(api, "/webhook_endpoints", {"url": URL}).json()
    path = f"/webhook_endpoints/{made['id']}/rotate_secret"
    by_default = post(api, path).json()
    assert by_default["signing_secret"] != made["signing_secret"]
    assert 86_390 <= by_default["previous_secret_expires_at"] - by_default["updated_at"] <= 86_410
    assert post(api, path, {"keep_old_secret_active_for_24_hours": False}).json()["previous_secret_expires_at"] is None
    assert post(api, path, {"overlap_hours": 169}).status_code == 400


def test_a_test_event_goes_to_its_endpoint_once_whatever_it_is_subscribed_to(
    organisation: Organisation, api: Client, allow: Allow, clock: Clock
) -> None:
    with receiving(status(500)) as receiver:
        allow(receiver)
        endpoint, _ = make_endpoint(organisation, receiver.url, event_types=("batch.failed",))
        path = f"/webhook_endpoints/{endpoint.public_id}/test"
        answer = post(api, path)
        sent = answer.json()
        assert (answer.status_code, answer["Location"]) == (202, f"/v1/deliveries/{sent['delivery_id']}")
        # Nothing was sent yet, and nothing else is said.
        assert (sent["status"], sent["success"], sent["status_code"]) == ("pending", None, None)
        assert receiver.requests == []
        assert post(api, path).json()["delivery_id"] == sent["delivery_id"]
        send_due(receiver.authority)
        clock.advance(days=2)
        assert send_due(receiver.authority) == 0
        assert post(api, path, {"event_type": "batch.completed"}).json()["event_type"] == "batch.completed"
    (request,) = receiver.requests
    assert request.headers["webhook-id"] == sent["event_id"]
    delivery = api.get(f"/v1/deliveries/{sent['delivery_id']}").json()
    assert (delivery["status"], delivery["is_test"], delivery["last_status_code"]) == ("failed", True, 500)
    assert [attempt["trigger"] for attempt in delivery["attempts"]] == ["test"]


def test_a_delivery_shows_each_attempt_and_is_sent_again_on_request(
    organisation: Organisation, api: Client, allow: Allow
) -> None:
    with receiving(status(500, b"<b>down</b>\x00", server="x"), status(200)) as receiver:
        allow(receiver)
        make_endpoint(organisation, receiver.url)
        event = publish(organisation)
        send_due(receiver.authority)
        path = f"/v1/deliveries/{the_delivery(event).public_id}"
        before = api.get(path).json()
        asked = [post(api, f"{path.removeprefix('/v1')}/resend") for _ in range(2)]
        assert {answer.status_code for answer in asked} == {200}
        assert send_due(receiver.authority) == 1
    assert before["attempts"][0]["response_body"] == "<b>down</b>\ufffd"
    assert before["next_attempt_at"] is not None
    after = api.get(path).json()
    assert (after["status"], after["attempt_count"], after["next_attempt_at"]) == ("delivered", 2, None)
    assert [attempt["trigger"] for attempt in after["attempts"]] == ["manual", "auto"]
    assert after["attempts"][0]["requested_by"].startswith("key_")
    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 1


def test_another_tenants_ids_do_not_exist(organisation: Organisation) -> None:
    endpoint, _ = make_endpoint(organisation, URL)
    event = publish(organisation)
    delivery = the_delivery(event)
    stranger = client_of(make_organisation())
    for path in (
        f"/v1/webhook_endpoints/{endpoint.public_id}",
        f"/v1/events/{event.public_id}",
        f"/v1/deliveries/{delivery.public_id}",
    ):
        assert stranger.get(path).status_code == 404
    assert post(stranger, f"/deliveries/{delivery.public_id}/resend").status_code == 404
    for path in ("/v1/webhook_endpoints", "/v1/events", "/v1/deliveries"):
        assert stranger.get(path).json()["data"] == []


def test_lists_are_paged_by_the_last_id(organisation: Organisation, api: Client) -> None:
    make_endpoint(organisation, URL)
    events = [publish(organisation).public_id for _ in range(5)]
    seen: list[str] = []
    after: dict[str, str] = {}
    while True:
        page = api.get("/v1/events", {"limit": "2", **after}).json()
        seen += [entry["id"] for entry in page["data"]]
        if not page["has_more"]:
            break
        after = {"after": page["last_id"]}
    assert seen == events[::-1]
    unknown = api.get("/v1/events", {"after": "evt_none"})
    assert (unknown.status_code, unknown.json()["error"]["param"]) == (404, "after")


def test_an_entry_that_left_the_list_still_marks_its_place(organisation: Organisation, api: Client) -> None:
    ids = [make_endpoint(organisation, f"{URL}/{number}")[0].public_id for number in range(3)]
    api.delete(f"/v1/webhook_endpoints/{ids[1]}")
    page = api.get("/v1/webhook_endpoints", {"after": ids[1]}).json()
    assert [entry["id"] for entry in page["data"]] == [ids[0]]


def test_an_organisation_has_twenty_endpoints_at_most(api: Client) -> None:
    answers = [post(api, "/webhook_endpoints", {"url": f"{URL}/{number}"}).status_code for number in range(21)]
    assert answers == [200] * 20 + [400]


def test_the_event_types_are_published(api: Client) -> None:
    assert "batches.completed" in api.get("/v1/webhook_event_types").json()["data"]
