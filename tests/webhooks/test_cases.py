"""The public reports of ``tests/cases/webhooks``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from django.test import Client

from accounts.models import Organisation
from accounts.services.organisations import create_api_key
from ground import clock as ground_clock
from tests.webhooks.conftest import Allow
from tests.webhooks.kit import make_endpoint, publish, send_due, the_delivery
from tests.webhooks.receivers import receiving, status
from webhooks.models import DeliveryState, Endpoint

CASES = Path(__file__).parents[1] / "cases" / "webhooks"


def case(name: str) -> dict[str, Any]:
    content: dict[str, Any] = orjson.loads((CASES / name).read_bytes())
    return content


def expected(number: str) -> dict[str, Any]:
    lines = map(orjson.loads, (CASES / "expect.jsonl").read_bytes().splitlines())
    return next(line for line in lines if line["id"] == number)


@pytest.mark.parametrize("one", case("174-retry-classes.json")["cases"], ids=lambda one: one["reply"])
def test_174_which_replies_are_tried_again(organisation: Organisation, allow: Allow, one: dict[str, Any]) -> None:
    assert expected("174")["follow_redirect"] is False
    with receiving() as elsewhere, receiving(status(one["reply"], location=elsewhere.url)) as receiver:
        allow(receiver, elsewhere)
        make_endpoint(organisation, receiver.url)
        event = publish(organisation)
        send_due(receiver.authority, elsewhere.authority)
    assert (the_delivery(event).state == DeliveryState.PENDING) is one["retry"]
    assert elsewhere.requests == []


def test_177_loopback_in_any_spelling_is_refused(organisation: Organisation) -> None:
    _, new = create_api_key(organisation=organisation, name="test", at=ground_clock.now())
    client = Client(headers={"authorization": f"Bearer {new.text}"})
    for step in case("177-ssrf-decimal-ip.json")["steps"]:
        answer = client.post(step["path"], step["body"], content_type="application/json")
        assert 400 <= answer.status_code < 500
        assert answer.json()["error"]["code"] == expected("177")["code"]
    assert not Endpoint.objects.exists()
