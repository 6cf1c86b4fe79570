"""Everything that can be made to go wrong at the stand-in Anthropic."""

import struct
from base64 import b64encode
from typing import Any

import anthropic
import pytest

from simulators.remote import ControlError
from tests.simulators.claude import AnthropicDriver, row, rows


@pytest.mark.parametrize(
    ("fields", "raised", "status_code", "error_type"),
    [
        ({}, anthropic.InternalServerError, 500, "api_error"),
        ({"status_code": 429, "retry_after_seconds": 7}, anthropic.RateLimitError, 429, "rate_limit_error"),
        ({"status_code": 529}, anthropic.InternalServerError, 529, "overloaded_error"),
        ({"status_code": 402}, anthropic.APIStatusError, 402, "billing_error"),
        ({"status_code": 413}, anthropic.APIStatusError, 413, "request_too_large"),
        ({"status_code": 504}, anthropic.APIStatusError, 504, "timeout_error"),
        ({"status_code": 418}, anthropic.APIStatusError, 418, "invalid_request_error"),
        ({"status_code": 503, "error_type": "odd"}, anthropic.APIStatusError, 503, "odd"),
    ],
)
def test_a_call_can_be_refused(
    claude: AnthropicDriver, fields: dict[str, Any], raised: type[Exception], status_code: int, error_type: str
) -> None:
    claude.control.add_fault("http_error", operation="batches.create", times=1, **fields)
    with pytest.raises(raised) as refused:
        claude.create(rows(1))
    error: Any = refused.value
    assert (error.status_code, error.type, error.request_id[:4]) == (status_code, error_type, "req_")
    assert error.response.headers.get("retry-after") == ("7" if status_code == 429 else None)
    claude.create(rows(1))
    assert len(claude.batches.list().data) == 1


def test_a_code_stands_in_the_details(claude: AnthropicDriver) -> None:
    claude.control.add_fault("http_error", status_code=400, code="enforced_spend_limit_reached")
    with pytest.raises(anthropic.BadRequestError) as refused:
        claude.batches.list()
    assert refused.value.error_code == "enforced_spend_limit_reached"


def test_a_proxy_page_comes_instead_of_an_answer(claude: AnthropicDriver) -> None:
    claude.control.add_fault("html_page", times=1)
    with pytest.raises(anthropic.InternalServerError) as page:
        claude.batches.list()
    assert page.value.response.headers["content-type"].startswith("text/html")


def test_a_slow_answer_times_out(claude: AnthropicDriver) -> None:
    claude.control.add_fault("slow", delay_seconds=0.3, times=1)
    with pytest.raises(anthropic.APITimeoutError):
        claude.client.with_options(timeout=0.05).messages.batches.list()


def test_a_connection_cut_after_the_create_leaves_an_orphan_without_a_name(claude: AnthropicDriver) -> None:
    claude.control.add_fault("cut_after", operation="batches.create", times=1)
    with pytest.raises(anthropic.APIConnectionError):
        claude.create(rows(2))
    (orphan,) = claude.batches.list().data
    assert orphan.request_counts.processing == 2
    claude.control.advance(60)
    assert set(claude.results(claude.batches.retrieve(orphan.id))) == {"row-0", "row-1"}


def test_the_sdk_retries_an_ambiguous_create_into_two_batches(claude: AnthropicDriver) -> None:
    claude.control.add_fault("cut_after", operation="batches.create", times=1)
    claude.client.with_options(max_retries=1).messages.batches.create(requests=rows(1))
    assert len(claude.batches.list().data) == 2
    assert claude.control.call_count("batches.create", "sk-ant-driver") == 2


def test_a_connection_cut_before_the_create_leaves_nothing(claude: AnthropicDriver) -> None:
    claude.control.add_fault("cut_before", operation="batches.create", times=1)
    with pytest.raises(anthropic.APIConnectionError):
        claude.create(rows(1))
    assert claude.batches.list().data == []


def test_results_can_be_cut_in_the_middle(claude: AnthropicDriver) -> None:
    batch = claude.run(rows(50))
    claude.control.add_fault("cut_midway", operation="batches.results", times=1)
    read: list[Any] = []
    with pytest.raises(Exception, match=r"(?i)incomplete|closed|disconnect|JSON|unterminated"):
        read.extend(claude.batches.results(batch.id))
    assert 0 < len(read) < 50
    assert len(claude.lines(batch)) == 50


def test_a_fault_can_be_meant_for_one_key_and_one_model(claude: AnthropicDriver) -> None:
    claude.control.add_fault("http_error", operation="batches.create", key="sk-ant-driver", model="claude-opus-5")
    claude.create(rows(1))
    with pytest.raises(anthropic.InternalServerError):
        claude.create(rows(1, model="claude-opus-5"))
    claude.client.with_options(api_key="other").messages.batches.create(requests=rows(1, model="claude-opus-5"))


def test_a_batch_can_be_made_to_expire_early(claude: AnthropicDriver) -> None:
    claude.control.add_fault("expire_batch", after_rows=4, times=1)
    batch = claude.run(rows(10), seconds=30)
    assert batch.processing_status == "ended"
    assert (batch.request_counts.succeeded, batch.request_counts.expired) == (4, 6)
    claude.control.add_fault("expire_batch", times=1)
    assert claude.run(rows(3), seconds=30).request_counts.expired == 3


def test_a_batch_cannot_fail_as_a_whole_here(claude: AnthropicDriver) -> None:
    with pytest.raises(ControlError, match="no fail_batch"):
        claude.control.add_fault("fail_batch")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {"type": "api_error", "message": "Internal server error"}),
        ({"status_code": 529, "message": "Overloaded"}, {"type": "overloaded_error", "message": "Overloaded"}),
        (
            {"error_type": "billing_error", "message": "No.", "code": "organization_on_hold"},
            {"type": "billing_error", "message": "No.", "details": {"error_code": "organization_on_hold"}},
        ),
    ],
)
def test_a_row_can_be_made_to_fail(claude: AnthropicDriver, fields: dict[str, Any], expected: dict[str, Any]) -> None:
    claude.control.add_fault("row_error", custom_id="row-[12]", **fields)
    batch = claude.run(rows(4))
    assert (batch.request_counts.succeeded, batch.request_counts.errored) == (2, 2)
    results = claude.results(batch)
    assert {name for name, result in results.items() if result["type"] == "errored"} == {"row-1", "row-2"}
    assert results["row-1"]["error"]["error"] == expected


def test_a_row_fault_can_be_meant_for_the_model_of_its_row(claude: AnthropicDriver) -> None:
    claude.control.add_fault("row_error", model="claude-opus-5")
    results = claude.results(claude.run([row("a"), row("b", model="claude-opus-5")]))
    assert (results["a"]["type"], results["b"]["type"]) == ("succeeded", "errored")


def test_a_row_may_never_have_run(claude: AnthropicDriver) -> None:
    claude.control.add_fault("row_unrun", contains="number 2")
    batch = claude.run(rows(4))
    assert (batch.request_counts.succeeded, batch.request_counts.expired) == (3, 1)
    assert claude.results(batch)["row-2"] == {"type": "expired"}


def test_a_row_can_be_missing_come_twice_or_be_foreign(claude: AnthropicDriver) -> None:
    claude.control.add_fault("row_missing", custom_id="row-0")
    claude.control.add_fault("row_duplicated", custom_id="row-1")
    claude.control.add_fault("row_foreign", custom_id="row-2")
    batch = claude.run(rows(4))
    assert batch.request_counts.succeeded == 4
    names = sorted(line["custom_id"] for line in claude.lines(batch))
    assert names == ["foreign-row-2", "row-1", "row-1", "row-2", "row-3"]


def test_usage_can_be_changed_by_a_fault_and_stays_in_balance(claude: AnthropicDriver) -> None:
    plain = claude.message(row("a"))["usage"]
    claude.control.add_fault("row_usage", cached_tokens=5, reasoning_tokens=9)
    changed = claude.message(row("a"))["usage"]
    assert (changed["cache_read_input_tokens"], changed["input_tokens"]) == (5, plain["input_tokens"] - 5)
    assert changed["output_tokens_details"] == {"thinking_tokens": 9}
    assert changed["output_tokens"] == plain["output_tokens"] + 9


@pytest.mark.parametrize(
    ("marker", "error_type", "message"),
    [
        ("fail", "api_error", "Internal server error"),
        ("overloaded", "overloaded_error", "Overloaded"),
        ("context_length", "invalid_request_error", "prompt is too long: 200001 tokens > 200000 maximum"),
        ("content_filter", "invalid_request_error", "Output blocked by content filtering policy"),
    ],
)
def test_a_marker_in_a_user_message_fails_the_row(
    claude: AnthropicDriver, marker: str, error_type: str, message: str
) -> None:
    batch = claude.run([row("bad", f"Please [[sim:{marker}]]"), row("system", system=f"[[sim:{marker}]]")])
    results = claude.results(batch)
    assert results["system"]["type"] == "succeeded"
    assert results["bad"]["error"]["error"] == {"type": error_type, "message": message}


def test_fail_once_fails_the_first_time_an_account_sends_the_content(claude: AnthropicDriver) -> None:
    assert claude.refusal(row("a", "[[sim:fail_once]] one"))["type"] == "api_error"
    assert claude.message(row("b", "[[sim:fail_once]] one", max_tokens=5))["stop_reason"] == "max_tokens"
    assert claude.refusal(row("c", "[[sim:fail_once]] one", model="claude-opus-5"))["type"] == "api_error"


def test_markers_change_tokens_and_the_ending(claude: AnthropicDriver) -> None:
    usage = claude.message(row("a", "[[sim:tokens=7]] [[sim:cached=4]] [[sim:cache_write=3]]"))["usage"]
    assert (usage["output_tokens"], usage["cache_read_input_tokens"]) == (7, 4)
    assert usage["cache_creation"] == {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 0}
    refused = claude.message(row("b", "[[sim:content_filter_finish]]"))
    assert (refused["stop_reason"], refused["stop_details"]["type"]) == ("refusal", "refusal")


def test_a_prompt_beyond_the_window_is_refused(claude: AnthropicDriver) -> None:
    claude.control.change_settings(context_window_tokens={"claude-haiku-4-5": 200})
    assert claude.refusal(row("a", max_tokens=188))["message"] == "prompt is too long: 13 tokens > 200 maximum"
    assert claude.message(row("b", max_tokens=187))["role"] == "assistant"


def test_an_image_counts_by_its_area(claude: AnthropicDriver) -> None:
    header = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", 300, 250)
    source = {"type": "base64", "media_type": "image/png", "data": b64encode(header).decode()}
    usage = claude.message(row("a", [{"type": "image", "source": source}]))["usage"]
    assert usage["input_tokens"] == 3 + 4 + 100
