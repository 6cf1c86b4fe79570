"""The batch's answer while it runs and after its end, its files and its receipt: they add up, row by row."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from billing.selectors import prove_ledger
from ground import clock as now_source
from routing.schemas import BatchOut
from routing.services import dispatch
from simulators.running import RunningSimulator
from tests.api.world import Api, error_of, row
from tests.harness.clock import Clock

DAY = 86_400
# Pico-USD a token, input and output: micro-USD per million tokens.
RATES = {"gpt-4o-mini": (75_000, 300_000), "gpt-4o": (1_250_000, 5_000_000)}


def micro_usd(pico_usd: int) -> int:
    """Round half to even."""
    whole, rest = divmod(pico_usd, 1_000_000)
    return whole + (rest > 500_000 or (rest == 500_000 and whole % 2 == 1))


def charge_pico_usd(line: dict[str, Any], model: str) -> int:
    usage = line["response"]["body"]["usage"]
    rate_in, rate_out = RATES[model]
    return int(usage["prompt_tokens"] * rate_in + usage["completion_tokens"] * rate_out)


@pytest.fixture
def accepted(api: Api, simulator: RunningSimulator, clock: Clock) -> dict[str, Any]:
    """Two rows of each of two models, accepted at a moment that stands still."""
    clock.freeze(now_source.now())
    rows = [row("a"), row("b", model="gpt-4o"), row("c"), row("d", model="gpt-4o")]
    response = api.accept(api.quote(*rows)["id"], metadata={"run": "7"})
    assert response.status_code == 200
    answer: dict[str, Any] = response.json()
    return answer


def test_a_new_batch_has_every_published_field_and_no_other(accepted: dict[str, Any]) -> None:
    assert set(accepted) == set(BatchOut.model_fields)
    assert BatchOut.model_validate(accepted, strict=True).model_dump() == accepted


def test_a_new_batch_is_in_progress_with_nothing_done(accepted: dict[str, Any], clock: Clock) -> None:
    at = int(clock.now().timestamp())
    lanes = accepted.pop("lanes")
    assert accepted.pop("id").startswith("batch_")
    assert accepted.pop("quote_id") == accepted.pop("input_file_id")
    assert accepted == {
        "object": "batch",
        "endpoint": "/v1/chat/completions",
        "model": None,
        "completion_window": "24h",
        "status": "in_progress",
        "created_at": at,
        "in_progress_at": at,
        "expires_at": at + DAY,
        "request_counts": {"total": 4, "completed": 0, "failed": 0},
        "metadata": {"run": "7"},
        **dict.fromkeys(["errors", "output_file_id", "error_file_id", "usage", "receipt_id", "charge_micro_usd"]),
        **dict.fromkeys(["retry_of", "files_deleted_at"]),
        **dict.fromkeys(["finalizing_at", "completed_at", "failed_at", "expired_at", "cancelling_at", "cancelled_at"]),
    }
    assert [(lane["model"], lane["lane_id"], lane["status"], lane["row_count"]) for lane in lanes] == [
        ("gpt-4o-mini", "openai-direct", "queued", 2),
        ("gpt-4o", "openai-direct", "queued", 2),
    ]


def test_a_batch_of_one_model_names_it(api: Api, simulator: RunningSimulator) -> None:
    assert api.accept(api.quote(row("a"))["id"]).json()["model"] == "gpt-4o-mini"


def test_while_it_runs_its_results_are_incomplete_and_there_is_no_receipt(api: Api, accepted: dict[str, Any]) -> None:
    while dispatch.start_next_sub_lane() or dispatch.submit_next_job():
        pass
    batch = api.batch(accepted["id"])
    assert [lane["status"] for lane in batch["lanes"]] == ["submitted", "submitted"]
    assert batch["request_counts"] == {"total": 4, "completed": 0, "failed": 0}
    error = error_of(api.get(f"/v1/batches/{batch['id']}/receipt"), 404, "not_found", "batch_id")
    assert "in_progress" in error["message"]
    results = api.get(f"/v1/batches/{batch['id']}/results")
    assert (results.getvalue(), results["X-Incomplete"], results["X-Last-Line"]) == (b"", "true", "0.0")


def test_at_its_end_everything_adds_up(api: Api, accepted: dict[str, Any], run: Callable[[], None]) -> None:
    run()
    batch = api.batch(accepted["id"])
    assert batch["status"] == "completed"
    assert BatchOut.model_validate(batch, strict=True).model_dump() == batch
    assert batch["in_progress_at"] <= batch["finalizing_at"] <= batch["completed_at"]
    assert batch["request_counts"] == {"total": 4, "completed": 4, "failed": 0}
    lines = api.lines(f"/v1/batches/{batch['id']}/results")
    usages = [line["response"]["body"]["usage"] for line in lines]
    assert batch["usage"] == {
        "input_tokens": sum(usage["prompt_tokens"] for usage in usages),
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": sum(usage["completion_tokens"] for usage in usages),
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": sum(usage["total_tokens"] for usage in usages),
    }
    assert sum(lane["row_count"] for lane in batch["lanes"]) == 4
    assert [lane["completed_count"] for lane in batch["lanes"]] == [2, 2]
    assert sum(lane["charge_micro_usd"] for lane in batch["lanes"]) == batch["charge_micro_usd"]


def test_the_charge_is_tokens_times_rates_and_a_fee_a_lane(
    api: Api, accepted: dict[str, Any], run: Callable[[], None]
) -> None:
    run()
    batch = api.batch(accepted["id"])
    receipt = api.get(f"/v1/batches/{batch['id']}/receipt").json()
    usage = {
        line["custom_id"]: line["response"]["body"]["usage"] for line in api.lines(f"/v1/batches/{batch['id']}/results")
    }
    expected = 40_000
    for model, ids in (("gpt-4o-mini", "ac"), ("gpt-4o", "bd")):
        rate_in, rate_out = RATES[model]
        expected += micro_usd(sum(usage[each]["prompt_tokens"] for each in ids) * rate_in)
        expected += micro_usd(sum(usage[each]["completion_tokens"] for each in ids) * rate_out)
    assert batch["charge_micro_usd"] == receipt["total_micro_usd"] == expected
    assert sum(line["amount_micro_usd"] for line in receipt["lines"]) == expected
    assert [line["amount_micro_usd"] for line in receipt["lines"] if line["kind"] == "control_plane_fee"] == [
        20_000
    ] * 2


def test_the_receipt_is_the_same_wherever_it_is_read_and_final(
    api: Api, accepted: dict[str, Any], run: Callable[[], None]
) -> None:
    reserved_micro_usd = api.get("/v1/wallet").json()["reserved_micro_usd"]
    run()
    batch = api.batch(accepted["id"])
    receipt = api.get(f"/v1/batches/{batch['id']}/receipt").json()
    run()
    assert api.get(f"/v1/receipts/{batch['receipt_id']}").json() == receipt
    assert api.get("/v1/receipts").json()["data"] == [receipt]
    assert (receipt["batch_id"], receipt["reserved_micro_usd"]) == (batch["id"], reserved_micro_usd)
    assert receipt["released_micro_usd"] == reserved_micro_usd - receipt["total_micro_usd"]
    wallet = api.get("/v1/wallet").json()
    assert (wallet["reserved_micro_usd"], wallet["available_micro_usd"]) == (
        0,
        100_000_000 - receipt["total_micro_usd"],
    )
    assert prove_ledger().holds


def test_the_output_file_is_openais_with_our_member_beside(
    api: Api, accepted: dict[str, Any], run: Callable[[], None]
) -> None:
    run()
    batch = api.batch(accepted["id"])
    lines = api.lines(f"/v1/files/{batch['output_file_id']}/content")
    assert [line["custom_id"] for line in lines] == ["a", "b", "c", "d"]
    first = lines[0]
    assert set(first) == {"id", "custom_id", "response", "error", "lanehouse"}
    assert set(first["response"]) == {"status_code", "request_id", "body"}
    assert (first["response"]["status_code"], first["error"]) == (200, None)
    assert first["lanehouse"] == {
        "lane_id": "openai-direct",
        "re_dispatch_count": 0,
        "charge_pico_usd": charge_pico_usd(first, "gpt-4o-mini"),
    }
    assert api.lines(f"/v1/batches/{batch['id']}/results") == lines


def test_a_file_says_its_size_and_what_it_is_for(api: Api, accepted: dict[str, Any], run: Callable[[], None]) -> None:
    run()
    batch = api.batch(accepted["id"])
    facts = api.get(f"/v1/files/{batch['output_file_id']}").json()
    response = api.get(f"/v1/files/{batch['output_file_id']}/content")
    content = b"".join(response.streaming_content)
    assert response["Content-Type"] == "application/jsonl"
    assert int(response["Content-Length"]) == facts["bytes"] == len(content)
    assert (facts["object"], facts["purpose"], facts["status"]) == ("file", "batch_output", "processed")
    assert facts["filename"] == f"{batch['id']}_output.jsonl"
    assert (facts["created_at"], facts["expires_at"]) == (batch["completed_at"], batch["completed_at"] + 30 * DAY)


def test_a_file_is_gone_after_its_time_and_the_receipt_stays(
    api: Api, accepted: dict[str, Any], run: Callable[[], None], clock: Clock
) -> None:
    run()
    batch = api.batch(accepted["id"])
    clock.advance(days=30, seconds=1)
    for path in (f"files/{batch['output_file_id']}", f"files/{batch['output_file_id']}/content"):
        error_of(api.get(f"/v1/{path}"), 404, "not_found", "file_id")
    error_of(api.get(f"/v1/batches/{batch['id']}/results"), 404, "not_found", "batch_id")
    assert api.get(f"/v1/batches/{batch['id']}/receipt").status_code == 200


def test_a_list_costs_the_same_queries_however_long(
    api: Api, simulator: RunningSimulator, django_assert_max_num_queries: Any
) -> None:
    for number in range(5):
        api.accept(api.quote(row(f"a{number}"))["id"])
    with django_assert_max_num_queries(3):
        assert len(api.get("/v1/batches").json()["data"]) == 5


def test_batches_are_listed_newest_first_and_paged(api: Api, simulator: RunningSimulator, clock: Clock) -> None:
    start = clock.freeze(now_source.now())
    ids: list[str] = []
    for number in range(3):
        clock.freeze(start + timedelta(seconds=number))
        ids.insert(0, api.accept(api.quote(row("a"))["id"]).json()["id"])
    first = api.get("/v1/batches?limit=2").json()
    assert ([each["id"] for each in first["data"]], first["has_more"]) == (ids[:2], True)
    assert (first["first_id"], first["last_id"]) == (ids[0], ids[1])
    second = api.get(f"/v1/batches?limit=2&after={ids[1]}").json()
    assert ([each["id"] for each in second["data"]], second["has_more"]) == (ids[2:], False)
    empty = api.get(f"/v1/batches?after={ids[2]}").json()
    assert empty == {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}
