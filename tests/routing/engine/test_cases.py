"""Cases from real life that only a whole batch can show (``tests/cases/engine``), and settlements of whole batches."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from starlette.responses import Response

from billing.models import Receipt
from catalog.domain.records import TokenKind
from catalog.models import Card, Lane, RateLine, RateOrigin, RateVersion
from ground import clock
from routing.domain.stitching import StitchedRow, result_line
from routing.models import Batch, BatchStatus
from routing.providers.base import RowResult
from routing.providers.bedrock.wire import read_line
from tests.harness.laws import lines_of, result_lines
from tests.harness.world import do_due_steps, use_simulator
from tests.routing.engine.kit import MODEL, STEPS, Engine, chat_file
from tests.routing.engine.lanes import FIRST, SECOND, add_lane, counts_of
from tests.routing.engine.scripted import Script, ScriptedProvider, scripted

CASES = Path(__file__).parents[2] / "cases"


def cases_in(folder: str) -> dict[str, dict[str, Any]]:
    lines = (CASES / folder / "expect.jsonl").read_text().splitlines()
    return {case["id"]: case for case in map(json.loads, lines)}


EXPECTED = cases_in("engine")
SETTLEMENTS = cases_in("billing")


def case_input(case_id: str, folder: str = "engine") -> dict[str, Any]:
    expected = EXPECTED if folder == "engine" else SETTLEMENTS
    read: dict[str, Any] = json.loads((CASES / folder / expected[case_id]["input"]).read_text())
    return read


def file_of(custom_ids: list[str]) -> bytes:
    """A file whose rows have these ids."""
    lines = chat_file(*(f"What about {custom_id}?" for custom_id in custom_ids), max_tokens=2_000).splitlines()
    return b"".join(
        json.dumps({**json.loads(line), "custom_id": custom_id}).encode() + b"\n"
        for line, custom_id in zip(lines, custom_ids, strict=True)
    )


def run(engine: Engine, provider: ScriptedProvider) -> Batch:
    use_simulator(provider.base_url)
    return engine.finish(engine.accept(file_of(provider.custom_ids)))


def script_of(lane: dict[str, Any]) -> Script:
    return Script(output=lane["output"], error=lane["error"], looks=[lane.get("status", "completed")])


def assert_stitched(batch: Batch, expected: dict[str, Any]) -> list[dict[str, Any]]:
    lines = result_lines(batch)
    assert [line["custom_id"] for line in lines if line["error"] is None] == expected["ok"]
    assert [line["custom_id"] for line in lines if line["error"] is not None] == expected["failed"]
    assert [line["custom_id"] for line in lines_of(batch.output_file)] == expected["ok"]
    assert [line["custom_id"] for line in lines_of(batch.error_file)] == expected["failed"]
    return lines


@pytest.mark.parametrize("case_id", ["099", "105", "108", "114"])
def test_a_batch_is_stitched_as_the_case_says(engine: Engine, case_id: str) -> None:
    case, expected = case_input(case_id), EXPECTED[case_id]
    (lane,) = case["lanes"]
    with scripted(case["requests"], script_of(lane)) as provider:
        provider.told_counts = lane.get("request_counts")
        batch = run(engine, provider)
    lines = assert_stitched(batch, expected)
    charged = [line["custom_id"] for line in lines if line["lanehouse"]["charge_pico_usd"]]
    assert charged == expected.get("charged_rows", expected["ok"])
    for custom_id, error in expected.get("error", {}).items():
        assert error.items() <= next(line["error"] for line in lines if line["custom_id"] == custom_id).items()
    assert len(lines) == expected.get("lines_total", len(lines))
    counts = {"total": batch.row_count, "completed": batch.completed_count, "failed": batch.failed_count}
    assert counts == expected.get("request_counts", counts)


def test_117_only_unfinished_rows_are_sent_again(engine: Engine) -> None:
    case, expected = case_input("117"), EXPECTED["117"]
    add_lane()
    with scripted(case["requests"], *map(script_of, case["lanes"])) as provider:
        batch = run(engine, provider)
        assert provider.sent_ids(1) == expected["sent_to_L2"]
    lines = assert_stitched(batch, expected)
    texts = {line["custom_id"]: line["response"]["body"]["choices"][0]["message"]["content"] for line in lines}
    assert texts == expected["text_by_id"]
    assert counts_of(batch) == {FIRST: (1, 1, 0, 2, 0), SECOND: (2, 2, 0, 0, 2)}


def test_120_a_raw_record_of_bedrock_comes_back_in_the_one_shape() -> None:
    (lane,) = case_input("120")["lanes"]
    text = json.dumps({**lane["output"][0], "recordId": "lh-tokenr0"}).encode()
    read = read_line(
        text, token="lh-token", answer_prefix="", result_ref="out", line=1, created_at_seconds=1_800_000_000
    )
    assert isinstance(read, RowResult)
    line = json.loads(
        result_line(
            StitchedRow(
                batch_public_id="batch_1",
                row=0,
                custom_id_json=b'"a"',
                succeeded=True,
                code="",
                status_code=read.status_code or 0,
                body=read.body or b"",
                lane_id="anthropic-bedrock-us-east-1",
                re_dispatch_count=0,
                charge_pico_usd=1,
            )
        )
    )
    assert (line["custom_id"], line["response"]["status_code"]) == ("a", 200)
    assert line["response"]["body"]["choices"][0]["message"]["content"] == "Po"
    usage = line["response"]["body"]["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (11, 2)


def answered(
    custom_id: str, text: str = "Yes.", *, prompt_tokens: int = 20, completion_tokens: int = 2
) -> dict[str, Any]:
    return {
        "id": "batch_req_x",
        "custom_id": custom_id,
        "response": {
            "status_code": 200,
            "request_id": "r",
            "body": {
                "id": "chatcmpl-x",
                "object": "chat.completion",
                "model": MODEL,
                "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
                "usage": {
                    "prompt_tokens": prompt_tokens,
                    "completion_tokens": completion_tokens,
                    "total_tokens": prompt_tokens + completion_tokens,
                },
            },
        },
        "error": None,
    }


def test_123_two_batches_with_the_same_ids_keep_their_own_answers(engine: Engine) -> None:
    case, expected = case_input("123"), EXPECTED["123"]
    ids = case["batch_1"]["requests"]
    assert ids == case["batch_2"]["requests"]
    scripts = [
        Script(output=[answered(custom_id, case[name]["answer"]) for custom_id in ids])
        for name in ("batch_1", "batch_2")
    ]
    with scripted(ids, *scripts) as provider:
        use_simulator(provider.base_url)
        batches = [engine.accept(file_of(ids)), engine.accept(file_of(ids))]
        # Each step of the one between two steps of the other.
        for name in STEPS:
            assert STEPS[name]()
            assert STEPS[name]()
            engine.pass_time(61)
        for batch, name in zip(batches, ("batch_1", "batch_2"), strict=True):
            engine.finish(batch)
            told = {
                line["custom_id"]: line["response"]["body"]["choices"][0]["message"]["content"]
                for line in result_lines(batch)
            }
            assert told == expected[name]
    keys = [row["custom_id"] for sent in provider.sent for row in sent]
    assert len(set(keys)) == len(keys)


def test_159_a_page_of_html_never_decides_a_batch(engine: Engine) -> None:
    replies = case_input("159")["lane_replies"]
    looks: list[str | Response] = [
        reply["body"]
        if reply["status"] == 200
        else Response(reply["text"], reply["status"], media_type=reply["content_type"])
        for reply in replies
    ]
    with scripted(["a"], Script(output=[answered("a")], looks=looks)) as provider:
        batch = run(engine, provider)
        assert len(provider.sent) == EXPECTED["159"]["dispatches"]
    assert batch.status == EXPECTED["159"]["final"]


def test_162_results_that_could_not_be_fetched_are_fetched_again(engine: Engine) -> None:
    replies = case_input("162")["lane_replies"]
    script = Script(
        output=[answered("a")],
        looks=[reply["body"] for reply in replies if "body" in reply],
        reads=[reply["results"] for reply in replies if "results" in reply],
    )
    with scripted(["a"], script) as provider:
        batch = run(engine, provider)
        assert provider.read_count == EXPECTED["162"]["fetches"]
    assert (batch.status, batch.completed_count) == (EXPECTED["162"]["final"], 1)


def settled_rows(case: dict[str, Any]) -> list[dict[str, Any]]:
    if "repeat" not in case:
        rows: list[dict[str, Any]] = case["rows"]
        return rows
    usage = case["repeat"]["usage"]
    return [
        answered(f"row-{number}", prompt_tokens=usage["prompt_tokens"], completion_tokens=usage["completion_tokens"])
        for number in range(case["repeat"]["rows"])
    ]


def raise_prices(case: dict[str, Any]) -> None:
    """Bring today's catalog to the prices that hold after the quote."""
    price = case["catalog_price_now"][MODEL]
    lane = Lane.objects.get(model__slug=MODEL, lane_id=FIRST)
    with transaction.atomic():
        version = RateVersion.objects.create(
            lane=lane, card=Card.SELL, origin=RateOrigin.OPERATOR, valid_from=clock.now(), made_at=clock.now()
        )
        RateLine.objects.bulk_create(
            RateLine(version=version, kind=kind, published_rate_micro_usd_per_mtok=rate, rate_micro_usd_per_mtok=rate)
            for kind in TokenKind
            for rate in [price["out" if kind is TokenKind.OUTPUT else "in"]]
        )


@pytest.mark.parametrize("case_id", ["126", "129", "132", "135", "138", "153", "222"])
def test_a_batch_without_fees_settles_at_the_exact_amount(engine: Engine, settings: Any, case_id: str) -> None:
    settings.CONTROL_PLANE_FEE_MICRO_USD = 0
    case, expected = case_input(case_id, "billing"), SETTLEMENTS[case_id]
    rows = settled_rows(case)
    good = [row for row in rows if row["response"]["status_code"] == 200]
    bad = [row for row in rows if row["response"]["status_code"] != 200]
    script = Script(output=good, error=bad, looks=[case.get("status", "completed")])
    custom_ids = [row["custom_id"] for row in rows]
    with scripted(custom_ids, script) as provider:
        use_simulator(provider.base_url)
        batch = engine.accept(file_of(custom_ids))
        engine.pass_time(1)
        if "catalog_price_now" in case:
            raise_prices(case)
        do_due_steps()
        engine.finish(batch)
    assert batch.status == BatchStatus.COMPLETED
    receipt = Receipt.objects.get(batch_public_id=batch.public_id)
    exact_pico_usd = int(Decimal(str(expected["exact_micro_usd"])) * 1_000_000)
    assert sum(int(line.exact_pico_usd) for line in receipt.lines.all()) == exact_pico_usd
    assert abs(receipt.total_micro_usd * 1_000_000 - exact_pico_usd) <= expected["tolerance_micro_usd"] * 1_000_000
    assert receipt.released_micro_usd == receipt.reserved_micro_usd - receipt.total_micro_usd
    assert batch.reasoning_tokens == expected.get("reasoning_tokens", 0)
