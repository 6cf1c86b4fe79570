"""Batches whose rows fail at the provider: each row once, in order, failures free, no id of the provider shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import openai
import pytest

from billing.selectors import prove_ledger
from simulators.running import RunningSimulator
from tests.api.world import Api, row

# What stands in a prompt, what becomes of its row.
OUTCOMES = {
    "fine": None,
    "[[sim:fail]]": "provider_error",
    "[[sim:context_length]]": "context_length_exceeded",
    "[[sim:content_filter]]": "content_filtered",
    "left-out": "result_missing",
    "twice": None,
}


@pytest.fixture
def mixed(api: Api, simulator: RunningSimulator, run: Callable[[], None]) -> dict[str, Any]:
    """Sixty rows, ten of each outcome, out of order, with a duplicated and a foreign line among the provider's."""
    simulator.control.add_fault("row_missing", contains="left-out")
    simulator.control.add_fault("row_duplicated", contains="twice")
    simulator.control.add_fault("row_foreign", contains="fine", times=1)
    texts = list(OUTCOMES) * 10
    rows = [row(f"{number:02}", f"{text} {number}") for number, text in enumerate(texts)]
    batch_id = api.accept(api.quote(*rows)["id"]).json()["id"]
    run()
    return api.batch(batch_id)


def test_every_row_is_there_once_in_the_order_of_the_input(api: Api, mixed: dict[str, Any]) -> None:
    lines = api.lines(f"/v1/batches/{mixed['id']}/results")
    assert [line["custom_id"] for line in lines] == [f"{number:02}" for number in range(60)]
    codes = [line["error"] and line["error"]["code"] for line in lines]
    assert codes == list(OUTCOMES.values()) * 10


def test_the_two_files_are_the_results_split(api: Api, mixed: dict[str, Any]) -> None:
    output = api.lines(f"/v1/files/{mixed['output_file_id']}/content")
    errors = api.lines(f"/v1/files/{mixed['error_file_id']}/content")
    assert [line["custom_id"] for line in output] == [f"{number:02}" for number in range(60) if number % 6 in {0, 5}]
    assert [line["custom_id"] for line in errors] == [
        f"{number:02}" for number in range(60) if number % 6 in {1, 2, 3, 4}
    ]
    assert all(line["error"] is None and line["response"]["status_code"] == 200 for line in output)
    assert all(line["error"]["code"] and line["error"]["message"] for line in errors)


def test_the_counts_are_those_of_the_rows(mixed: dict[str, Any]) -> None:
    assert mixed["status"] == "completed"
    assert mixed["request_counts"] == {"total": 60, "completed": 20, "failed": 40}
    (lane,) = mixed["lanes"]
    assert (lane["row_count"], lane["completed_count"], lane["failed_count"]) == (60, 20, 40)
    assert (lane["moved_out_count"], lane["re_dispatched_count"], lane["status"]) == (0, 0, "completed")


def test_failed_rows_cost_nothing_and_the_receipt_has_the_others(api: Api, mixed: dict[str, Any]) -> None:
    lines = api.lines(f"/v1/batches/{mixed['id']}/results")
    charges = [line["lanehouse"]["charge_pico_usd"] for line in lines]
    assert all((charge == 0) == (line["error"] is not None) for charge, line in zip(charges, lines, strict=True))
    receipt = api.get(f"/v1/receipts/{mixed['receipt_id']}").json()
    fees = [line for line in receipt["lines"] if line["kind"] == "control_plane_fee"]
    usage = [line for line in receipt["lines"] if line["kind"] != "control_plane_fee"]
    assert sum(line["exact_pico_usd"] for line in usage) == sum(charges)
    assert [fee["amount_micro_usd"] for fee in fees] == [20_000]
    assert receipt["total_micro_usd"] == mixed["charge_micro_usd"]
    assert mixed["usage"]["input_tokens"] == sum(line["tokens"] for line in usage if line["kind"] == "input")
    assert prove_ledger().holds


def test_no_id_of_the_provider_is_in_any_answer(api: Api, simulator: RunningSimulator, mixed: dict[str, Any]) -> None:
    issued = ids_issued_by(simulator)
    assert len(issued) > 60
    answers = [
        api.get(f"/v1/{path}").content.decode()
        for path in (
            f"batches/{mixed['id']}",
            "batches",
            f"batches/{mixed['id']}/receipt",
            "receipts",
            f"quotes/{mixed['quote_id']}",
            f"files/{mixed['output_file_id']}",
        )
    ]
    answers += [
        json.dumps(api.lines(f"/v1/{path}"))
        for path in (
            f"batches/{mixed['id']}/results",
            f"files/{mixed['output_file_id']}/content",
            f"files/{mixed['error_file_id']}/content",
        )
    ]
    shown = [each for each in issued if any(each in answer for answer in answers)]
    assert shown == []


def ids_issued_by(simulator: RunningSimulator) -> set[str]:
    """Every id that the provider gave: of files, batches, lines, requests, answers, and our own stand-ins for ids."""
    client = openai.OpenAI(api_key="key-of-customer", base_url=simulator.base_url)
    issued: set[str] = set()
    for batch in client.batches.list():
        issued |= {batch.id, batch.input_file_id}
        for file_id in (batch.output_file_id, batch.error_file_id):
            if file_id is None:
                continue
            issued.add(file_id)
            for line in map(json.loads, client.files.content(file_id).text.splitlines()):
                issued |= {line["id"], line["custom_id"]}
                if line["response"]:
                    issued |= {line["response"]["request_id"], line["response"]["body"].get("id", line["id"])}
    client.close()
    return issued


@pytest.fixture
def hopeless(api: Api, run: Callable[[], None]) -> dict[str, Any]:
    """A batch of which every row fails."""
    rows = [row("a", "[[sim:fail]]"), row("b", "[[sim:context_length]]"), row("c", "[[sim:content_filter]]")]
    batch_id = api.accept(api.quote(*rows)["id"]).json()["id"]
    run()
    return api.batch(batch_id)


def test_a_batch_whose_every_row_failed_is_free_and_has_an_error_file_alone(api: Api, hopeless: dict[str, Any]) -> None:
    assert (hopeless["status"], hopeless["output_file_id"]) == ("completed", None)
    assert hopeless["request_counts"] == {"total": 3, "completed": 0, "failed": 3}
    assert (hopeless["charge_micro_usd"], hopeless["lanes"][0]["charge_micro_usd"]) == (0, 0)
    assert hopeless["usage"]["total_tokens"] == 0
    errors = api.lines(f"/v1/files/{hopeless['error_file_id']}/content")
    assert [line["custom_id"] for line in errors] == ["a", "b", "c"]
    assert api.lines(f"/v1/batches/{hopeless['id']}/results") == errors


def test_a_free_batch_has_its_receipt_all_the_same_and_gives_everything_back(
    api: Api, hopeless: dict[str, Any]
) -> None:
    receipt = api.get(f"/v1/receipts/{hopeless['receipt_id']}").json()
    assert (receipt["total_micro_usd"], receipt["fee_micro_usd"], receipt["usage_charge_micro_usd"]) == (0, 0, 0)
    assert sum(line["amount_micro_usd"] for line in receipt["lines"]) == 0
    assert receipt["released_micro_usd"] == receipt["reserved_micro_usd"] > 0
    wallet = api.get("/v1/wallet").json()
    assert (wallet["available_micro_usd"], wallet["reserved_micro_usd"]) == (100_000_000, 0)
    assert prove_ledger().holds


def test_cached_and_reasoning_tokens_are_shown_apart_and_charged_once(api: Api, run: Callable[[], None]) -> None:
    text = "[[sim:tokens=5]] [[sim:cached=4]] [[sim:reasoning=3]]"
    batch_id = api.accept(api.quote(row("a", text))["id"]).json()["id"]
    run()
    batch = api.batch(batch_id)
    (line,) = api.lines(f"/v1/batches/{batch_id}/results")
    usage = line["response"]["body"]["usage"]
    assert batch["usage"]["input_tokens_details"] == {"cached_tokens": 4}
    assert batch["usage"]["output_tokens_details"] == {"reasoning_tokens": 3}
    assert (batch["usage"]["input_tokens"], batch["usage"]["output_tokens"]) == (usage["prompt_tokens"], 8)
    fresh = usage["prompt_tokens"] - 4
    assert line["lanehouse"]["charge_pico_usd"] == fresh * 75_000 + 4 * 37_500 + 8 * 300_000
