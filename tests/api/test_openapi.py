"""The published OpenAPI: it names every call and every status, and nothing of our inside."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.test import Client

from tests.api.world import Api, lines_of, row

DOWNLOAD = {"200", "206", "304", "400", "401", "403", "404", "416", "429", "500", "503"}
CALLS = {
    ("post", "/v1/quotes/model"): {"201", "202", "400", "401", "403", "404", "409", "413", "415", "429", "500", "503"},
    ("get", "/v1/quotes/{quote_id}"): {"200", "400", "401", "403", "404", "429", "500", "503"},
    ("post", "/v1/workflows"): {"201", "400", "401", "403", "404", "409", "413", "415", "429", "500", "503"},
    ("post", "/v1/batches/{batch_id}/cancel"): {"200", "400", "401", "403", "404", "409", "413", "429", "500", "503"},
    ("post", "/v1/batches"): {"200", "400", "401", "402", "403", "404", "409", "413", "415", "429", "500", "503"},
    ("get", "/v1/batches"): {"200", "400", "401", "403", "404", "429", "500", "503"},
    ("get", "/v1/batches/{batch_id}"): {"200", "400", "401", "403", "404", "429", "500", "503"},
    ("get", "/v1/batches/{batch_id}/results"): DOWNLOAD,
    ("get", "/v1/batches/{batch_id}/receipt"): {"200", "400", "401", "403", "404", "429", "500", "503"},
    ("get", "/v1/files/{file_id}"): {"200", "400", "401", "403", "404", "429", "500", "503"},
    ("get", "/v1/files/{file_id}/content"): DOWNLOAD,
    ("get", "/v1/wallet"): {"200", "400", "401", "403", "404", "429", "500", "503"},
    ("get", "/v1/receipts"): {"200", "400", "401", "403", "404", "429", "500", "503"},
    ("get", "/v1/receipts/{receipt_id}"): {"200", "400", "401", "403", "404", "429", "500", "503"},
    ("get", "/v1/usage"): {"200", "400", "401", "403", "404", "429", "500", "503"},
    ("get", "/v1/models"): {"200", "400", "401", "404", "429", "500", "503"},
    ("get", "/v1/models/{model_name}"): {"200", "400", "401", "404", "429", "500", "503"},
}
INSIDE = re.compile(
    r"routing|django|ninja|pydantic|psycopg|celery|selectors|Raises:|Args:|``|(?-i:[a-z](?:Out|Answer)\")",
    re.IGNORECASE,
)


@pytest.fixture
def document(db: None) -> dict[str, Any]:
    response = Client().get("/v1/openapi.json")
    assert response.status_code == 200
    answer: dict[str, Any] = response.json()
    return answer


def operations(document: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(method, path): each for path, methods in document["paths"].items() for method, each in methods.items()}


def test_every_call_is_there_with_its_statuses(document: dict[str, Any]) -> None:
    found = {call: set(operation["responses"]) for call, operation in operations(document).items()}
    assert {call: found.get(call) for call in CALLS} == CALLS


def test_nothing_of_our_inside_is_in_it(document: dict[str, Any]) -> None:
    assert INSIDE.findall(json.dumps(document)) == []


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    names = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document)))
    assert names <= set(document["components"]["schemas"])
    assert {"Quote", "Batch", "BatchList", "File", "Receipt", "Wallet", "Model", "Error"} <= names


def test_what_is_sent_and_what_is_answered_have_shapes_of_their_own(document: dict[str, Any]) -> None:
    calls = operations(document).values()
    sent, answered = (
        set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps([call.get(part) for call in calls])))
        for part in ("requestBody", "responses")
    )
    assert {"EndpointTestRequest", "EndpointCreate"} <= sent
    assert not sent & answered
    assert "delivery_id" in document["components"]["schemas"]["EndpointTest"]["properties"]


def test_every_operation_is_named_and_described_in_words(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for operation in operations(document).values()]
    assert len(names) == len(set(names))
    assert "create_model_quote" in names
    assert all(operation["description"] for operation in operations(document).values())


def test_it_says_how_to_authenticate(document: dict[str, Any]) -> None:
    assert document["security"] == [{"bearer": []}, {"header": []}]
    assert document["components"]["securitySchemes"]["bearer"] == {"type": "http", "scheme": "bearer"}


def test_files_are_jsonl_in_and_out(document: dict[str, Any]) -> None:
    calls = operations(document)
    assert "application/jsonl" in calls["post", "/v1/quotes/model"]["requestBody"]["content"]
    content = calls["get", "/v1/files/{file_id}/content"]["responses"]["200"]["content"]
    assert list(content) == ["application/jsonl"]


def test_an_answer_has_the_fields_that_are_published(api: Api, document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    quote = api.quote(row("a"))
    assert set(quote) == set(schemas["Quote"]["properties"])
    assert set(quote["lanes"][0]) == set(schemas["QuoteLane"]["properties"])
    assert set(quote["explanation"][0]["candidates"][0]) == set(schemas["Candidate"]["properties"])
    batch = api.accept(quote["id"]).json()
    assert set(batch) == set(schemas["Batch"]["properties"])
    assert set(batch["lanes"][0]) == set(schemas["BatchLane"]["properties"])
    refused = api.post("/v1/quotes/model", lines_of(row("a"), row("a")), "application/jsonl").json()["error"]
    said = {"model", "rejected_lanes"}
    of_other_refusals = {"successor", "alternative", "quote", "estimate", "available_micro_usd", "required_micro_usd"}
    of_other_refusals |= {"receivable_micro_usd", "stored_bytes", "stored_max_bytes"}
    assert set(refused) == set(schemas["ErrorBody"]["properties"]) - said - of_other_refusals
    assert set(refused["errors"][0]) == set(schemas["RowError"]["properties"])
    api.post("/v1/workflows", {"name": "near", "constraints": {"finish_by_minutes": 1}})
    left_out = api.post("/v1/quotes/model?workflow=near", lines_of(row("a")), "application/jsonl").json()["error"]
    assert said <= set(left_out) <= set(schemas["ErrorBody"]["properties"])
    assert set(left_out["rejected_lanes"][0]) == set(schemas["RejectedLane"]["properties"])
