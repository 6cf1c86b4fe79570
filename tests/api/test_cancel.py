"""``POST /v1/batches/{id}/cancel``."""

from __future__ import annotations

from collections.abc import Callable

import openai
import pytest

from simulators.running import RunningSimulator
from tests.api.world import Api, error_of, row
from tests.harness.world import do_due_steps


@pytest.fixture
def batch_id(api: Api, simulator: RunningSimulator) -> str:
    """A batch of forty rows, accepted."""
    quote = api.quote(*(row(f"{number:02}", f"Zanzibar {number}") for number in range(40)))
    return str(api.accept(quote["id"]).json()["id"])


def test_a_cancel_is_answered_at_once_and_ends_the_batch_later(
    api: Api, batch_id: str, run: Callable[[], None]
) -> None:
    answer = api.post(f"/v1/batches/{batch_id}/cancel", b"")
    assert answer.status_code == 200
    assert (answer.json()["id"], answer.json()["status"]) == (batch_id, "cancelling")
    assert answer.json()["cancelling_at"] is not None
    run()
    batch = api.batch(batch_id)
    assert (batch["status"], batch["charge_micro_usd"], batch["output_file_id"]) == ("cancelled", 0, None)
    assert batch["request_counts"] == {"total": 40, "completed": 0, "failed": 40}
    assert batch["cancelled_at"] is not None
    errors = api.lines(f"/v1/files/{batch['error_file_id']}/content")
    assert {line["error"]["code"] for line in errors} == {"batch_cancelled"}
    assert [line["custom_id"] for line in errors] == [f"{number:02}" for number in range(40)]


def test_what_was_done_before_is_delivered_and_charged(
    api: Api, simulator: RunningSimulator, batch_id: str, run: Callable[[], None]
) -> None:
    simulator.control.freeze()
    simulator.control.change_settings(rows_per_second=1)
    do_due_steps()
    simulator.control.advance(12)
    api.post(f"/v1/batches/{batch_id}/cancel", b"")
    run()
    batch = api.batch(batch_id)
    assert batch["status"] == "cancelled"
    done_count = batch["request_counts"]["completed"]
    assert 0 < done_count < 40
    receipt = api.get(f"/v1/batches/{batch_id}/receipt").json()
    usage = sum(line["exact_pico_usd"] for line in receipt["lines"] if line["kind"] != "control_plane_fee")
    lines = api.lines(f"/v1/batches/{batch_id}/results")
    assert usage == sum(line["lanehouse"]["charge_pico_usd"] for line in lines)
    assert receipt["fee_micro_usd"] == 20_000
    assert receipt["reserved_micro_usd"] == receipt["released_micro_usd"] + receipt["total_micro_usd"]
    wallet = api.get("/v1/wallet").json()
    assert wallet["available_micro_usd"] == 100_000_000 - batch["charge_micro_usd"]


def test_asking_twice_is_one_cancel(api: Api, batch_id: str, run: Callable[[], None]) -> None:
    first = api.post(f"/v1/batches/{batch_id}/cancel", b"").json()
    second = api.post(f"/v1/batches/{batch_id}/cancel", b"").json()
    assert first["cancelling_at"] == second["cancelling_at"]
    run()
    assert api.batch(batch_id)["status"] == "cancelled"


def test_a_batch_that_has_ended_is_refused(api: Api, batch_id: str, run: Callable[[], None]) -> None:
    run()
    error = error_of(api.post(f"/v1/batches/{batch_id}/cancel", b""), 400, "invalid_value", "batch_id")
    assert "completed" in error["message"]


def test_another_tenants_batch_is_not_found(api: Api, other: Api, batch_id: str) -> None:
    error_of(other.post(f"/v1/batches/{batch_id}/cancel", b""), 404, "not_found", "batch_id")
    assert api.batch(batch_id)["status"] == "in_progress"


def test_the_stock_sdk_cancels(api: Api, live_api: str, batch_id: str) -> None:
    client = openai.OpenAI(base_url=live_api, api_key=api.tenant.key_text, max_retries=0)
    with client:
        assert client.batches.cancel(batch_id).status == "cancelling"
