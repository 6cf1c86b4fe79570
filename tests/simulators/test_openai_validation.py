"""An input file that breaks a rule is accepted at first and fails the batch."""

import json
from typing import Any

import pytest

from tests.simulators.driver import CHAT, FROZEN_AT, Driver, chat_row, chat_rows

GOOD = chat_row("good")


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in chat_row("other").items() if key != name}


@pytest.mark.parametrize(
    ("second_line", "code", "param"),
    [
        ("{not json", "invalid_json_line", None),
        ("[1]", "invalid_request", None),
        (json.dumps(GOOD).replace("river", "\\ud800"), "invalid_json_line", None),
        (GOOD, "duplicate_custom_id", "custom_id"),
        (chat_row("other", url="/v1/responses"), "mismatched_url", "url"),
        (chat_row("other", model="gpt-4o"), "mismatched_model", "body.model"),
        ({**GOOD, "custom_id": "other", "method": "GET"}, "invalid_method", "method"),
        ({**GOOD, "custom_id": "other", "body": {"messages": []}}, "missing_required_parameter", "body.model"),
        (without("custom_id"), "missing_required_parameter", "custom_id"),
        (without("method"), "missing_required_parameter", "method"),
        (without("url"), "missing_required_parameter", "url"),
        (without("body"), "missing_required_parameter", "body"),
    ],
)
def test_a_bad_line_fails_the_batch_with_its_line(driver: Driver, second_line: Any, code: str, param: Any) -> None:
    batch = driver.create([GOOD, second_line])
    assert (batch.status, batch.errors) == ("validating", None)
    driver.control.advance(1)
    batch = driver.client.batches.retrieve(batch.id)
    assert (batch.status, batch.failed_at, batch.in_progress_at) == ("failed", FROZEN_AT + 1, None)
    assert batch.errors is not None
    assert batch.errors.object == "list"
    assert [(each.code, each.line, each.param) for each in batch.errors.data or ()] == [(code, 2, param)]
    assert (batch.output_file_id, batch.error_file_id) == (None, None)


def test_every_bad_line_is_named_up_to_a_hundred(driver: Driver) -> None:
    batch = driver.run(["{"] * 150)
    assert batch.errors is not None
    assert [each.line for each in batch.errors.data or ()] == list(range(1, 101))


@pytest.mark.parametrize("lines", [[], ["", "  "]])
def test_a_file_without_rows_fails(driver: Driver, lines: list[str]) -> None:
    batch = driver.run(lines)
    assert batch.errors is not None
    assert [(each.code, each.line) for each in batch.errors.data or ()] == [("empty_file", None)]


def test_blank_lines_are_skipped_but_counted(driver: Driver) -> None:
    good = driver.run(["", GOOD, " ", chat_row("other")])
    assert (good.status, good.request_counts and good.request_counts.total) == ("completed", 2)
    bad = driver.run(["", GOOD, GOOD])
    assert [each.line for each in (bad.errors and bad.errors.data) or ()] == [3]


def test_too_many_rows_fail_the_batch(driver: Driver) -> None:
    driver.control.change_settings(max_row_count=3)
    assert driver.run(chat_rows(3)).status == "completed"
    batch = driver.run(chat_rows(4))
    assert [each.code for each in (batch.errors and batch.errors.data) or ()] == ["too_many_tasks"]


def test_too_many_bytes_fail_the_batch(driver: Driver) -> None:
    driver.control.change_settings(max_input_bytes=100)
    batch = driver.run(chat_rows(4))
    assert [each.code for each in (batch.errors and batch.errors.data) or ()] == ["file_too_large"]


def test_an_unknown_model_fails_the_batch(driver: Driver) -> None:
    driver.control.change_settings(unknown_models=["gpt-4o-mini"])
    batch = driver.run([GOOD])
    assert [each.code for each in (batch.errors and batch.errors.data) or ()] == ["model_not_found"]


def test_the_enqueued_token_limit_counts_what_is_in_flight(driver: Driver) -> None:
    rows = chat_rows(10)
    used = driver.run(rows).usage
    assert used is not None
    driver.control.change_settings(enqueued_tokens_limits={"gpt-4o-mini": used.input_tokens + 1})
    first, second = driver.create(rows), driver.create(rows)
    driver.control.advance(1)
    second = driver.client.batches.retrieve(second.id)
    assert second.status == "failed"
    errors = (second.errors and second.errors.data) or []
    assert [(each.code, each.line) for each in errors] == [("token_limit_exceeded", None)]
    assert "gpt-4o-mini" in (errors[0].message or "")
    driver.control.advance(60)
    assert driver.client.batches.retrieve(first.id).status == "completed"
    assert driver.run(rows).status == "completed"


def test_the_enqueued_token_limit_is_held_by_model(driver: Driver) -> None:
    driver.control.change_settings(enqueued_tokens_limits={"gpt-4o": 1})
    assert driver.run(chat_rows(1)).status == "completed"
    assert driver.run(chat_rows(1, model="gpt-4o")).status == "failed"
    driver.control.change_settings(enqueued_tokens_limits={"*": 1})
    assert driver.run(chat_rows(1)).status == "failed"


def test_the_batch_must_be_for_the_endpoint_of_its_rows(driver: Driver) -> None:
    batch = driver.run(chat_rows(1), "/v1/responses")
    assert CHAT in ((batch.errors and batch.errors.data) or [])[0].message  # type: ignore[operator]
