"""Batches by ``input_file_id``: what is refused at once, and what becomes of the rest."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from billing.models import Hold
from ground import clock as the_clock
from ground.leases import claim
from routing.models import Batch, BatchStatus, FilePricing, PricingState
from routing.services.file_batches import validate_next_batch
from routing.services.file_quotes import price_next_file
from routing.services.notices import gather_notices
from tests.api.test_cases import FOLDER, cases_in
from tests.api.uploads import content_of, part, uploaded
from tests.api.world import Api, error_of, left, lines_of, row
from tests.harness.clock import Clock
from tests.harness.laws import assert_laws, event_of
from tests.harness.world import make_tenant

CHAT = "/v1/chat/completions"
ROWS = lines_of(row("a"), row("b", "[[sim:fail]]"), row("c"))


def file_of(api: Api, content: bytes) -> str:
    file_id: str = uploaded(api, part("purpose", "batch"), part("file", content, "rows.jsonl"))["id"]
    return file_id


def sent(api: Api, content: bytes = ROWS, **body: Any) -> dict[str, Any]:
    wanted = {"input_file_id": file_of(api, content), "endpoint": CHAT, "completion_window": "24h", **body}
    response = api.post("/v1/batches", wanted)
    assert response.status_code == 200, response.content
    answer: dict[str, Any] = response.json()
    return answer


def failed(api: Api, content: bytes, **body: Any) -> dict[str, Any]:
    before = left(api.tenant)
    batch_id = sent(api, content, **body)["id"]
    assert price_next_file()
    assert validate_next_batch()
    batch = api.batch(batch_id)
    assert (batch["status"], batch["charge_micro_usd"], batch["receipt_id"]) == ("failed", None, None)
    assert batch["failed_at"] is not None
    assert batch["errors"]["object"] == "list"
    after = left(api.tenant)
    assert (after.hold_count, after.available_micro_usd) == (before.hold_count, before.available_micro_usd)
    return batch


def test_a_batch_that_never_went_has_no_results_yet_or_ever(api: Api) -> None:
    batch_id = sent(api)["id"]
    for is_incomplete, status in (("true", "validating"), ("false", "cancelled")):
        response = api.get(f"/v1/batches/{batch_id}/results")
        assert (response.status_code, b"".join(response.streaming_content)) == (200, b"")
        assert (response["X-Incomplete"], response["X-Last-Line"]) == (is_incomplete, "0.0")
        assert api.batch(batch_id)["status"] == status
        api.post(f"/v1/batches/{batch_id}/cancel", b"")


def test_a_file_becomes_a_batch_that_runs_to_its_end(api: Api, run: Callable[[], None], clock: Clock) -> None:
    at = int(clock.freeze(the_clock.now()).timestamp())
    batch = sent(api, metadata={"run": "7"})
    assert (batch["status"], batch["request_counts"]["total"], batch["errors"]) == ("validating", 0, None)
    assert (batch["created_at"], batch["in_progress_at"], batch["expires_at"]) == (at, None, at + 86_400)
    assert (batch["input_file_id"][:5], batch["quote_id"][:3], batch["lanes"]) == ("file-", "qt_", [])
    run()
    ended = api.batch(batch["id"])
    assert ended["status"] == "completed"
    assert ended["request_counts"] == {"total": 3, "completed": 2, "failed": 1}
    assert (ended["input_file_id"], ended["metadata"]) == (batch["input_file_id"], {"run": "7"})
    assert api.get(f"/v1/quotes/{batch['quote_id']}").json()["status"] == "accepted"
    assert content_of(api, batch["input_file_id"]) == ROWS
    assert_laws(batch["id"])


def test_216_a_repeated_id_fails_the_batch_with_its_line(api: Api) -> None:
    case = cases_in("api")["216"]
    steps = json.loads((FOLDER / "api" / case["input"]).read_text("utf-8"))["steps"]
    content = steps[0]["multipart"]["file"]["text"].encode()
    final = case["final"]
    batch = failed(api, content)
    assert batch["status"] == final["status"]
    (error,) = final["errors"]["data"]
    (shown,) = batch["errors"]["data"]
    assert {name: shown[name] for name in error} == error


def test_rows_for_another_endpoint_than_the_batchs_are_named_by_their_lines(api: Api) -> None:
    batch = failed(api, b"\n" + ROWS, endpoint="/v1/responses")
    found = [(error["code"], error["line"], error["param"]) for error in batch["errors"]["data"]]
    assert found == [("url_mismatch", line, "url") for line in (2, 3, 4)]


def test_too_little_credit_fails_the_batch_and_holds_nothing(db: None) -> None:
    poor = Api(make_tenant("poor", credit_micro_usd=20_000))
    batch = failed(poor, ROWS)
    (error,) = batch["errors"]["data"]
    assert (error["code"], error["line"]) == ("insufficient_credit", None)
    assert batch["lanes"] == []
    assert gather_notices() == 1
    (told,) = json.loads(bytes(event_of(Batch.objects.get()).payload))["data"]["batches"]
    assert (told["status"], told["charge_micro_usd"], told["receipt_id"]) == ("failed", None, None)


@pytest.mark.parametrize(
    ("body", "status", "code", "param"),
    [
        ({"endpoint": None}, 400, "missing_required_parameter", "endpoint"),
        ({"completion_window": None}, 400, "missing_required_parameter", "completion_window"),
        ({"completion_window": "1h"}, 400, "invalid_value", "completion_window"),
        ({"endpoint": "/v1/audio/speech"}, 400, "invalid_value", "endpoint"),
        ({"input_file_id": "file-nope"}, 404, "not_found", "input_file_id"),
        ({"metadata": {"k": 7}}, 400, "invalid_type", "metadata"),
        (
            {"output_expires_after": {"anchor": "created_at", "seconds": 3_599}},
            400,
            "invalid_value",
            "output_expires_after.seconds",
        ),
        (
            {"output_expires_after": {"anchor": "now", "seconds": 3_600}},
            400,
            "invalid_value",
            "output_expires_after.anchor",
        ),
    ],
)
def test_shape_window_and_file_are_refused_at_once(
    api: Api, body: dict[str, Any], status: int, code: str, param: str
) -> None:
    wanted = {"input_file_id": file_of(api, ROWS), "endpoint": CHAT, "completion_window": "24h", **body}
    before = left(api.tenant)
    error_of(api.post("/v1/batches", wanted), status, code, param)
    assert left(api.tenant) == before


def test_what_a_batch_put_out_is_no_input(api: Api, run: Callable[[], None]) -> None:
    batch_id = sent(api)["id"]
    run()
    wanted = {"input_file_id": api.batch(batch_id)["output_file_id"], "endpoint": CHAT, "completion_window": "24h"}
    error_of(api.post("/v1/batches", wanted), 400, "invalid_value", "input_file_id")


@pytest.mark.parametrize("step", ["before", "while", "after"])
def test_a_cancel_before_it_goes_ends_it_at_once(api: Api, step: str, clock: Clock) -> None:
    before = left(api.tenant)
    batch_id = sent(api)["id"]
    if step == "while":
        assert claim(FilePricing, state_field="state", states=(PricingState.PENDING,)) is not None
    elif step == "after":
        price_next_file()
    answer = api.post(f"/v1/batches/{batch_id}/cancel", b"").json()
    assert (answer["status"], answer["charge_micro_usd"]) == ("cancelled", None)
    assert answer["cancelling_at"] == answer["cancelled_at"]
    clock.advance(minutes=2)
    assert not price_next_file()
    assert not validate_next_batch()
    error_of(api.post(f"/v1/batches/{batch_id}/cancel", b""), 400, "invalid_value", "batch_id")
    assert api.batch(batch_id)["status"] == "cancelled"
    assert (Hold.objects.count(), left(api.tenant).available_micro_usd) == (0, before.available_micro_usd)


def test_an_accept_that_was_overtaken_by_a_cancel_changes_nothing(api: Api, clock: Clock) -> None:
    batch_id = sent(api)["id"]
    price_next_file()
    assert claim(Batch, state_field="status", states=(BatchStatus.VALIDATING,)) is not None
    assert api.post(f"/v1/batches/{batch_id}/cancel", b"").status_code == 200
    clock.advance(minutes=2)
    assert not validate_next_batch()
    assert api.batch(batch_id)["status"] == "cancelled"


def test_the_quote_of_a_batch_cannot_be_accepted_again(api: Api) -> None:
    quote_id = sent(api)["quote_id"]
    price_next_file()
    error_of(api.accept(quote_id), 400, "quote_already_used", "quote_id")


def test_a_file_quote_is_accepted_with_its_file_named_beside_it(api: Api) -> None:
    file_id = file_of(api, ROWS)
    quote_id = api.post("/v1/quotes/model", {"input_file_id": file_id}).json()["id"]
    price_next_file()
    error_of(api.accept(quote_id, input_file_id="file-other"), 400, "invalid_value", "input_file_id")
    batch = api.accept(quote_id, input_file_id=file_id, endpoint=CHAT, completion_window="24h").json()
    assert (batch["status"], batch["input_file_id"]) == ("in_progress", file_id)
