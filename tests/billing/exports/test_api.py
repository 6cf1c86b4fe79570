"""``/v1/exports`` as programs meet it."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest
from django.test import Client

from accounts.domain.staff_scopes import StaffScope
from accounts.models import Organisation, StaffRole
from accounts.services.organisations import create_api_key
from billing.exports.models import Export
from tests.billing.kit import AT, make_organisation
from tests.billing.reconciliation.test_finance_api import ask, key_of
from tests.routing.pages.scenes import staff


class Program:
    """A program of an organisation."""

    def __init__(self, organisation: Organisation) -> None:
        _, new = create_api_key(organisation=organisation, name="books", at=AT)
        self.client = Client(headers={"authorization": f"Bearer {new.text}"})

    def make(self, status: int = 201, **body: Any) -> Any:
        answer = self.client.post("/v1/exports", json.dumps(body), content_type="application/json")
        assert answer.status_code == status, answer.content
        return answer.json()


def test_an_export_is_made_listed_and_downloaded_with_its_hash(customer: Organisation) -> None:
    program = Program(customer)
    made = program.make(kind="usage", format="csv", since="2026-11-03", until="2026-11-03")
    said = {name: made[name] for name in ("object", "status", "zone", "row_count", "totals", "filename")}
    assert said == {
        "object": "export",
        "status": "completed",
        "zone": "Asia/Kathmandu",
        "row_count": 2,
        "totals": {"charge_usd": "0.021615"},
        "filename": "lanehouse_usage_2026-11-03_2026-11-03_Asia-Kathmandu.csv",
    }
    answer: Any = program.client.get(f"/v1/exports/{made['id']}/content")
    content = b"".join(answer.streaming_content)
    digest = hashlib.sha256(content).digest()
    assert made["sha256"] == digest.hex()
    assert answer["Repr-Digest"] == f"sha-256=:{base64.b64encode(digest).decode()}:"
    assert int(answer["Content-Length"]) == len(content) == made["size_bytes"]
    assert f'filename="{made["filename"]}"' in answer["Content-Disposition"]
    assert program.client.get("/v1/exports").json()["data"] == [made]
    assert program.client.post(f"/v1/exports/{made['id']}/cancel").json() == made
    again = program.make(kind="usage", format="csv", since="2026-11-03", until="2026-11-03")
    assert again["sha256"] == made["sha256"]
    newer = program.client.get(f"/v1/exports?limit=1&after={again['id']}").json()
    assert ([each["id"] for each in newer["data"]], newer["has_more"]) == ([made["id"]], False)


def test_a_repeated_call_with_its_key_is_the_same_export(customer: Organisation) -> None:
    client = Program(customer).client
    made = [
        client.post(
            "/v1/exports",
            json.dumps({"kind": "receipts"}),
            content_type="application/json",
            headers={"Idempotency-Key": "month-end"},
        ).json()
        for _ in range(2)
    ]
    assert made[0] == made[1]
    assert Export.objects.count() == 1
    answer = client.get(f"/v1/exports/{made[0]['id']}/content")
    answer.close()
    assert answer.status_code == 200


def test_focus_comes_with_its_metadata(customer: Organisation) -> None:
    program = Program(customer)
    made = program.make(kind="focus", format="parquet")
    (schema,) = program.client.get(f"/v1/exports/{made['id']}/metadata").json()["Schema"]
    assert schema["FocusVersion"] == "1.2"
    assert {"ColumnName": "EffectiveCost", "DataType": "DECIMAL", "NumericPrecision": 38, "NumberScale": 12} in schema[
        "ColumnDefinition"
    ]
    plain = program.make(kind="usage")
    assert program.client.get(f"/v1/exports/{plain['id']}/metadata").status_code == 404


def test_another_organisations_export_is_not_there(customer: Organisation) -> None:
    made = Program(customer).make(kind="usage")
    stranger = Program(make_organisation()).client
    for path in ("", "/content", "/metadata"):
        assert stranger.get(f"/v1/exports/{made['id']}{path}").status_code == 404
    assert stranger.post(f"/v1/exports/{made['id']}/cancel").status_code == 404
    assert stranger.get(f"/v1/exports?after={made['id']}").status_code == 404
    assert stranger.get("/v1/exports/%C3%A4").status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"kind": "journal"},
        {"kind": "usage", "format": "beancount"},
        {"kind": "usage", "since": "yesterday"},
        {"kind": "usage", "since": "0001-01-01"},
        {"kind": "usage", "zone": "Mars"},
        {"kind": "usage", "filters": {"organisation": "org_1"}},
        {"kind": "usage", "filters": {"model": 5}},
        {"kind": "usage", "columns": ["all"]},
    ],
)
def test_what_cannot_be_meant_is_refused(customer: Organisation, body: dict[str, Any]) -> None:
    assert Program(customer).make(400, **body)["error"]["message"]


def test_finances_programs_make_the_houses_exports_and_customers_keys_do_not(customer: Organisation) -> None:
    fay = staff(StaffRole.FINANCE, name="Fay Finance")
    writes, reads = key_of(fay, StaffScope.FINANCE_WRITE), key_of(fay, StaffScope.FINANCE_READ)
    address = "/v1/finance/exports"
    ask("POST", address, reads, {"kind": "journal", "format": "beancount"}, status=403)
    made = ask("POST", address, writes, {"kind": "journal", "format": "beancount"})
    assert (made["status"], made["zone"]) == ("completed", "UTC")
    assert ask("GET", address, reads)["data"] == [made]
    assert ask("POST", f"{address}/{made['id']}/cancel", writes) == made
    answer: Any = Client().get(f"{address}/{made['id']}/content", headers={"authorization": f"Bearer {reads}"})
    assert hashlib.sha256(b"".join(answer.streaming_content)).hexdigest() == made["sha256"]
    own = Program(customer)
    assert own.client.get(f"/v1/exports/{made['id']}").status_code == 404
    assert own.client.get(address).status_code == 401
    ask("GET", f"{address}/{own.make(kind='usage')['id']}", reads, status=404)
    assert ask("POST", address, writes, {"kind": "x"}, status=400)["error"]["param"] == "kind"
