"""``/v1/wallet`` and ``/v1/receipts``: shapes of the public contract, by cursor, within one organisation."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client, RequestFactory

from accounts.models import Organisation
from accounts.services.organisations import create_api_key
from billing import api
from billing.services.settlement import settle_batch
from ground.errors import NotFound
from tests.billing.kit import AT, fee, hold, make_organisation, settlement, usage

Call = Callable[..., dict[str, Any]]


def call(view: Callable[..., Any], organisation: Organisation, *arguments: object, **named: object) -> dict[str, Any]:
    request = RequestFactory().get("/")
    request.auth = SimpleNamespace(organisation=organisation)  # type: ignore[attr-defined]
    answer: dict[str, Any] = json.loads(view(request, *arguments, **named).model_dump_json())
    return answer


def test_a_wallet_shows_what_is_there_reserved_and_owed(organisation: Organisation) -> None:
    hold(organisation, "batch_1", a=300)
    assert call(api.get_wallet, organisation) == {
        "object": "wallet",
        "available_micro_usd": 700,
        "reserved_micro_usd": 300,
        "balance_micro_usd": 1_000,
        "receivable_micro_usd": 0,
        "blocked": False,
    }


def test_a_receipt_has_the_shape_of_the_contract(organisation: Organisation) -> None:
    hold(organisation, "batch_1", a=400)
    receipt = settle_batch(settlement(organisation, "batch_1", usage("a", 300), fees=[fee("a", 20)]))
    shown = call(api.get_receipt, organisation, receipt.public_id)
    line = {"lane_id": "lane-a", "model": "model-a"}
    assert shown == {
        "id": receipt.public_id,
        "object": "receipt",
        "batch_id": "batch_1",
        "settled_at": int(AT.timestamp()),
        "lines": [
            {
                **line,
                "kind": "input",
                "tokens": 300,
                "rate_micro_usd_per_mtok": 1_000_000,
                "amount_micro_usd": 300,
                "exact_pico_usd": 300_000_000,
            },
            {
                **line,
                "kind": "control_plane_fee",
                "tokens": None,
                "rate_micro_usd_per_mtok": None,
                "amount_micro_usd": 20,
                "exact_pico_usd": 20_000_000,
            },
        ],
        "usage_charge_micro_usd": 300,
        "fee_micro_usd": 20,
        "total_micro_usd": 320,
        "reserved_micro_usd": 400,
        "released_micro_usd": 80,
        "estimate_total_micro_usd": 0,
    }
    assert api.receipt_answer(receipt) == shown


def test_another_organisations_receipt_is_not_found(organisation: Organisation) -> None:
    receipt = settle_batch(settlement(organisation, "batch_1", usage("a", 5)))
    other = make_organisation()
    with pytest.raises(NotFound):
        call(api.get_receipt, other, receipt.public_id)
    with pytest.raises(NotFound):
        call(api.list_receipts, other, after=receipt.public_id)
    assert call(api.list_receipts, other) == {
        "object": "list",
        "data": [],
        "first_id": None,
        "last_id": None,
        "has_more": False,
    }


def test_pages_by_cursor_neither_repeat_nor_miss_while_receipts_are_added(organisation: Organisation) -> None:
    def settle(number: int) -> str:
        # Pairs share an instant: the cursor must tell them apart.
        at = AT + timedelta(seconds=number // 2)
        request = settlement(organisation, f"batch_{number}", usage("a", 1), settled_at=at)
        return settle_batch(request).public_id

    made = [settle(number) for number in range(7)]
    seen: list[str] = []
    after = None
    while True:
        page = call(api.list_receipts, organisation, after=after, limit=3)
        seen += [receipt["id"] for receipt in page["data"]]
        assert (page["first_id"], page["last_id"]) == (seen[-len(page["data"])], seen[-1])
        if not page["has_more"]:
            break
        after = page["last_id"]
        settle(100 + len(seen))
    assert seen == made[::-1]


def test_the_calls_are_served_under_v1_to_the_keys_own_organisation(organisation: Organisation, client: Client) -> None:
    _, key = create_api_key(organisation=organisation, name="test", at=AT)
    headers = {"authorization": f"Bearer {key.text}"}
    receipt = settle_batch(settlement(organisation, "batch_1", usage("a", 5)))
    assert client.get("/v1/wallet", headers=headers).json()["available_micro_usd"] == 995
    assert client.get("/v1/receipts", headers=headers).json()["data"][0]["id"] == receipt.public_id
    assert client.get(f"/v1/receipts/{receipt.public_id}", headers=headers).json()["total_micro_usd"] == 5
    missing = client.get("/v1/receipts/rcpt_other", headers=headers)
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "not_found")
    assert client.get("/v1/receipts?limit=0", headers=headers).status_code == 400
    assert client.get("/v1/wallet").status_code == 401
