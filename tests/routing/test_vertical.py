"""One model's file from quote to receipt, on real parts."""

from __future__ import annotations

import json

from django.test import Client

from billing.selectors import prove_ledger
from simulators.running import RunningSimulator
from tests.harness.clock import Clock
from tests.harness.world import Tenant, do_due_steps


def chat_rows(count: int, *, model: str = "gpt-4o-mini") -> bytes:
    rows = [
        {
            "custom_id": f"row-{number}",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {
                "model": model,
                "messages": [{"role": "user", "content": f"Name river number {number}."}],
                "max_tokens": 20,
            },
        }
        for number in range(count)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def test_a_file_goes_from_quote_to_receipt(
    client: Client, tenant: Tenant, simulator: RunningSimulator, clock: Clock
) -> None:
    answer = client.post("/v1/quotes/model", chat_rows(10), content_type="application/jsonl", headers=tenant.headers)
    assert answer.status_code == 201, answer.content
    quote = answer.json()
    answer = client.post(
        "/v1/batches", {"quote_id": quote["id"]}, content_type="application/json", headers=tenant.headers
    )
    assert answer.status_code == 200, answer.content
    batch_id = answer.json()["id"]
    simulator.control.advance(3_600)
    for _ in range(6):
        do_due_steps()
        simulator.control.advance(60)
        clock.advance(seconds=61)
    batch = client.get(f"/v1/batches/{batch_id}", headers=tenant.headers).json()
    assert batch["status"] == "completed"
    lines = client.get(f"/v1/batches/{batch_id}/results", headers=tenant.headers).getvalue()
    rows = [json.loads(line) for line in lines.splitlines()]
    assert [row["custom_id"] for row in rows] == [f"row-{number}" for number in range(10)]
    receipt = client.get(f"/v1/batches/{batch_id}/receipt", headers=tenant.headers).json()
    assert receipt["total_micro_usd"] == batch["charge_micro_usd"]
    assert prove_ledger().holds
