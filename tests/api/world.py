"""What the API's tests share: rows written out, a caller, and what there is to count after a refusal."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.test import Client

from billing.models import Hold
from billing.selectors import wallet
from routing.models import Batch, Quote
from tests.harness.world import Tenant

# Stands in every prompt; no answer to bad input and no log line may hold it.
PROMPT_WORD = "Zanzibar"


def row(custom_id: str, content: str = PROMPT_WORD, *, model: str = "gpt-4o-mini", **body: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": content}]
    return {
        "custom_id": custom_id,
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"model": model, "messages": messages, "max_tokens": 20, **body},
    }


def lines_of(*rows: dict[str, Any]) -> bytes:
    return "".join(json.dumps(each) + "\n" for each in rows).encode()


class Api:
    """A client program of one tenant; CSRF is enforced, as in the product."""

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant
        self.client = Client(enforce_csrf_checks=True, headers=tenant.headers)

    def get(self, path: str) -> Any:
        return self.client.get(path)

    def post(self, path: str, body: Any, content_type: str = "application/json") -> Any:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.client.generic("POST", path, content, content_type=content_type)

    def quote(self, *rows: dict[str, Any]) -> dict[str, Any]:
        response = self.post("/v1/quotes/model", lines_of(*rows), "application/jsonl")
        assert response.status_code == 201, response.content
        answer: dict[str, Any] = response.json()
        return answer

    def accept(self, quote_id: str, **body: Any) -> Any:
        return self.post("/v1/batches", {"quote_id": quote_id, **body})

    def batch(self, batch_id: str) -> dict[str, Any]:
        answer: dict[str, Any] = self.get(f"/v1/batches/{batch_id}").json()
        return answer

    def lines(self, path: str) -> list[dict[str, Any]]:
        response = self.get(path)
        assert response.status_code == 200
        return [json.loads(line) for line in b"".join(response.streaming_content).splitlines()]


def error_of(response: Any, status: int, code: str, param: str | None = None) -> dict[str, Any]:
    """Give the error of a refusal after checking what every refusal must be."""
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/json"
    assert response["x-request-id"]
    assert PROMPT_WORD not in response.content.decode()
    error: dict[str, Any] = response.json()["error"]
    assert (error["code"], error["param"]) == (code, param), error
    assert error["message"]
    assert error["type"]
    return error


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What is there: rows, blobs, money."""

    quote_count: int
    batch_count: int
    hold_count: int
    blobs: tuple[str, ...]
    available_micro_usd: int
    reserved_micro_usd: int


def left(tenant: Tenant) -> Left:
    state = wallet(tenant.organisation)
    folder: Path = settings.STATE_DIR / "blobs"
    return Left(
        quote_count=Quote.objects.count(),
        batch_count=Batch.objects.count(),
        hold_count=Hold.objects.count(),
        blobs=tuple(sorted(path.name for path in folder.rglob("*") if path.is_file())),
        available_micro_usd=state.available_micro_usd,
        reserved_micro_usd=state.held_micro_usd,
    )
