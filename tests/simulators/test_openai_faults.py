"""Everything that can be made to go wrong."""

from typing import Any

import openai
import pytest

from simulators.remote import ControlError
from tests.simulators.driver import CHAT, Driver, chat_row, chat_rows


def create_again(driver: Driver, file_id: str) -> None:
    driver.client.batches.create(input_file_id=file_id, endpoint=CHAT, completion_window="24h")


def test_a_429_carries_its_retry_after(driver: Driver) -> None:
    driver.control.add_fault("http_error", operation="batches.create", status_code=429, retry_after_seconds=7, times=1)
    file_id = driver.upload(chat_rows(1))
    with pytest.raises(openai.RateLimitError) as limited:
        create_again(driver, file_id)
    assert (limited.value.response.headers["retry-after"], limited.value.code) == ("7", "rate_limit_exceeded")
    create_again(driver, file_id)
    assert len(driver.client.batches.list().data) == 1


def test_an_insufficient_quota_is_a_429_with_its_code(driver: Driver) -> None:
    driver.control.add_fault("http_error", status_code=429, code="insufficient_quota", error_type="insufficient_quota")
    with pytest.raises(openai.RateLimitError) as limited:
        driver.client.batches.list()
    assert (limited.value.code, limited.value.type) == ("insufficient_quota", "insufficient_quota")


def test_a_500_strikes_until_it_is_cleared(driver: Driver) -> None:
    driver.control.add_fault("http_error")
    for _ in range(3):
        with pytest.raises(openai.InternalServerError):
            driver.client.files.list()
    driver.control.clear_faults()
    assert driver.client.files.list().data == []


def test_a_proxy_page_comes_instead_of_an_answer(driver: Driver) -> None:
    driver.control.add_fault("html_page", times=1)
    with pytest.raises(openai.InternalServerError) as page:
        driver.client.batches.list()
    assert page.value.status_code == 502
    assert page.value.response.headers["content-type"].startswith("text/html")
    driver.control.add_fault("html_page", status_code=200)
    assert isinstance(driver.client.batches.retrieve("batch_any"), str)


def test_a_slow_answer_times_out(driver: Driver) -> None:
    driver.control.add_fault("slow", delay_seconds=0.3, times=1)
    with pytest.raises(openai.APITimeoutError):
        driver.client.with_options(timeout=0.05).batches.list()
    assert driver.client.batches.list().data == []


def test_a_connection_cut_after_the_create_leaves_a_batch(driver: Driver) -> None:
    driver.control.add_fault("cut_after", operation="batches.create", times=1)
    file_id = driver.upload(chat_rows(1))
    with pytest.raises(openai.APIConnectionError):
        create_again(driver, file_id)
    assert [batch.input_file_id for batch in driver.client.batches.list()] == [file_id]


def test_the_sdk_retries_an_ambiguous_create_into_two_batches(driver: Driver) -> None:
    driver.control.add_fault("cut_after", operation="batches.create", times=1)
    Driver(driver.simulator, driver.client.with_options(max_retries=1)).create(chat_rows(1))
    assert len(driver.client.batches.list().data) == 2
    assert driver.control.call_count("batches.create") == 2


def test_a_connection_cut_before_the_create_leaves_nothing(driver: Driver) -> None:
    driver.control.add_fault("cut_before", operation="batches.create", times=1)
    file_id = driver.upload(chat_rows(1))
    with pytest.raises(openai.APIConnectionError):
        create_again(driver, file_id)
    assert driver.client.batches.list().data == []


@pytest.mark.parametrize(("kind", "files_left"), [("cut_before", 0), ("cut_after", 1)])
def test_an_upload_can_be_cut(driver: Driver, kind: str, files_left: int) -> None:
    driver.control.add_fault(kind, operation="files.create", times=1)
    with pytest.raises(openai.APIConnectionError):
        driver.upload(chat_rows(500))
    assert len(driver.client.files.list().data) == files_left


@pytest.mark.parametrize("after_bytes", [None, 1, 1000])
def test_a_download_can_be_cut_in_the_middle(driver: Driver, after_bytes: int | None) -> None:
    batch = driver.run(chat_rows(20))
    whole = driver.client.files.content(batch.output_file_id or "").content
    driver.control.add_fault("cut_midway", operation="files.content", after_bytes=after_bytes, times=1)
    got = bytearray()
    streamed = driver.client.files.with_streaming_response.content(batch.output_file_id or "")
    # A streamed body fails in the HTTP library, below what the SDK translates.
    with pytest.raises(Exception, match=r"(?i)incomplete|closed|disconnect"), streamed as response:  # noqa: PT012
        for chunk in response.iter_bytes():
            got += chunk
    assert len(got) == (len(whole) // 2 if after_bytes is None else after_bytes)
    assert whole.startswith(got)
    assert driver.client.files.content(batch.output_file_id or "").content == whole


def test_cuts_are_counted_apart(driver: Driver) -> None:
    driver.control.add_fault("cut_after", operation="batches.list", times=1)
    with pytest.raises(openai.APIConnectionError):
        driver.client.batches.list()
    driver.client.batches.list()
    calls: Any = driver.control.state()["calls"]
    assert calls["by_status"]["batches.list"] == {"cut_after": 1, "200": 1}


def test_a_fault_can_be_meant_for_one_key_and_one_model(driver: Driver) -> None:
    driver.control.add_fault("http_error", operation="batches.create", key="sk-driver", model="gpt-4o")
    driver.create(chat_rows(1))
    with pytest.raises(openai.InternalServerError):
        driver.create(chat_rows(1, model="gpt-4o"))
    other = driver.client.with_options(api_key="sk-other")
    Driver(driver.simulator, other).create(chat_rows(1, model="gpt-4o"))


def test_a_batch_can_be_made_to_fail(driver: Driver) -> None:
    driver.control.add_fault("fail_batch", code="billing_hard_limit_reached", message="Billing.", times=1)
    batch = driver.run(chat_rows(2))
    assert batch.status == "failed"
    errors = (batch.errors and batch.errors.data) or []
    assert [(each.code, each.line, each.message) for each in errors] == [
        ("billing_hard_limit_reached", None, "Billing.")
    ]
    assert driver.run(chat_rows(2)).status == "completed"


def test_a_batch_can_be_made_to_expire_early(driver: Driver) -> None:
    driver.control.add_fault("expire_batch", after_rows=4, model="gpt-4o-mini", times=1)
    batch = driver.run(chat_rows(10), seconds=30)
    assert batch.status == "expired"
    assert (batch.request_counts and batch.request_counts.to_dict()) == {"total": 10, "completed": 4, "failed": 0}
    assert (len(driver.outputs(batch)), len(driver.errors(batch))) == (4, 6)


def test_a_batch_that_expires_at_once_has_no_output(driver: Driver) -> None:
    driver.control.add_fault("expire_batch", times=1)
    batch = driver.run(chat_rows(3), seconds=30)
    assert (batch.status, batch.output_file_id, len(driver.errors(batch))) == ("expired", None, 3)


@pytest.mark.parametrize(
    ("fields", "status_code", "error_type", "code"),
    [
        ({}, 500, "server_error", None),
        ({"status_code": 429, "code": "rate_limit_exceeded"}, 429, "rate_limit_exceeded", "rate_limit_exceeded"),
        ({"status_code": 400, "code": "model_not_found"}, 400, "invalid_request_error", "model_not_found"),
    ],
)
def test_a_row_can_be_made_to_fail(
    driver: Driver, fields: dict[str, Any], status_code: int, error_type: str, code: str | None
) -> None:
    driver.control.add_fault("row_error", custom_id="row-[12]", **fields)
    batch = driver.run(chat_rows(4))
    assert (batch.request_counts and batch.request_counts.to_dict()) == {"total": 4, "completed": 2, "failed": 2}
    failed = driver.errors(batch)
    assert sorted(failed) == ["row-1", "row-2"]
    assert failed["row-1"]["error"] is None
    assert failed["row-1"]["response"]["status_code"] == status_code
    error = failed["row-1"]["response"]["body"]["error"]
    assert (error["type"], error["code"]) == (error_type, code)


def test_a_row_may_never_have_run(driver: Driver) -> None:
    driver.control.add_fault("row_unrun", contains="number 2")
    line = driver.errors(driver.run(chat_rows(4)))["row-2"]
    assert (line["response"], line["error"]["code"]) == (None, "request_timeout")


def test_row_faults_strike_as_often_as_asked(driver: Driver) -> None:
    driver.control.add_fault("row_error", times=3)
    assert len(driver.errors(driver.run(chat_rows(5)))) == 3
    assert driver.errors(driver.run(chat_rows(5))) == {}
    assert [fault["fired_count"] for fault in driver.control.faults()] == [3]


def test_a_row_can_be_missing_from_the_results(driver: Driver) -> None:
    driver.control.add_fault("row_missing", custom_id="row-1")
    batch = driver.run(chat_rows(3))
    assert (batch.request_counts and batch.request_counts.completed) == 3
    assert sorted(driver.outputs(batch)) == ["row-0", "row-2"]
    assert batch.error_file_id is None


def test_a_row_can_come_twice(driver: Driver) -> None:
    driver.control.add_fault("row_duplicated", custom_id="row-1")
    lines = driver.lines(driver.run(chat_rows(3)).output_file_id)
    assert sorted(line["custom_id"] for line in lines) == ["row-0", "row-1", "row-1", "row-2"]


def test_a_foreign_row_can_come(driver: Driver) -> None:
    driver.control.add_fault("row_foreign", custom_id="row-1")
    assert sorted(driver.outputs(driver.run(chat_rows(2)))) == ["foreign-row-1", "row-0", "row-1"]
    driver.control.clear_faults()
    driver.control.add_fault("row_foreign", message="from-elsewhere", times=1)
    assert "from-elsewhere" in driver.outputs(driver.run(chat_rows(2)))


def test_usage_can_be_changed_by_a_fault(driver: Driver) -> None:
    driver.control.add_fault("row_usage", cached_tokens=5, reasoning_tokens=9)
    batch = driver.run(chat_rows(4))
    assert batch.usage is not None
    assert batch.usage.input_tokens_details.cached_tokens == 20
    assert batch.usage.output_tokens_details.reasoning_tokens == 36


@pytest.mark.parametrize(
    ("marker", "status_code", "code"),
    [
        ("fail", 500, "server_error"),
        ("context_length", 400, "context_length_exceeded"),
        ("content_filter", 400, "content_filter"),
    ],
)
def test_a_marker_in_a_user_message_fails_the_row(driver: Driver, marker: str, status_code: int, code: str) -> None:
    parts = [{"type": "text", "text": f"Please [[sim:{marker}]]"}]
    batch = driver.run([chat_row("text", f"Please [[sim:{marker}]]"), chat_row("parts", parts), chat_row("good")])
    failed = driver.errors(batch)
    assert sorted(failed) == ["parts", "text"]
    for line in failed.values():
        assert line["response"]["status_code"] == status_code
        assert line["response"]["body"]["error"]["code"] == code


def test_a_marker_counts_only_where_the_user_speaks(driver: Driver) -> None:
    messages = [{"role": "system", "content": "[[sim:fail]]"}, {"role": "user", "content": "Name a river."}]
    assert driver.run([chat_row("row", messages=messages)]).error_file_id is None


def test_a_filtered_answer_may_also_end_early(driver: Driver) -> None:
    answer = driver.answer(chat_row("row", "[[sim:content_filter_finish]]"))
    assert answer["choices"][0]["finish_reason"] == "content_filter"


def test_fail_once_fails_the_first_time_an_account_sends_the_row(driver: Driver) -> None:
    rows = [chat_row("a", "[[sim:fail_once]] one"), chat_row("b", "[[sim:fail_once]] two")]
    assert sorted(driver.errors(driver.run(rows))) == ["a", "b"]
    renamed = [chat_row("c", "[[sim:fail_once]] one"), chat_row("d", "[[sim:fail_once]] three")]
    assert list(driver.errors(driver.run(renamed))) == ["d"]
    elsewhere = Driver(driver.simulator, driver.client.with_options(api_key="sk-elsewhere"))
    assert sorted(elsewhere.errors(elsewhere.run(rows))) == ["a", "b"]


def test_a_fault_that_nobody_knows_is_refused(driver: Driver) -> None:
    with pytest.raises(ControlError, match="unknown kind"):
        driver.control.add_fault("earthquake")
    with pytest.raises(ControlError, match="unknown fields"):
        driver.control.add_fault("slow", seconds=3)
    with pytest.raises(ControlError, match="times"):
        driver.control.add_fault("slow", times="often")
    assert driver.control.faults() == []


def test_one_fault_can_be_taken_back(driver: Driver) -> None:
    kept = driver.control.add_fault("row_error", times=1)
    dropped = driver.control.add_fault("http_error")
    driver.control.remove_fault(str(dropped["id"]))
    assert [fault["id"] for fault in driver.control.faults()] == [kept["id"]]
    with pytest.raises(ControlError):
        driver.control.remove_fault(str(dropped["id"]))


@pytest.mark.parametrize("wanted", [{"speed": 3}, {"rows_per_second": "fast"}, {"max_row_count": 0}, {"bad_keys": "x"}])
def test_settings_that_nobody_knows_are_refused(driver: Driver, wanted: dict[str, Any]) -> None:
    before = driver.control.settings()
    with pytest.raises(ControlError):
        driver.control.change_settings(**wanted)
    assert driver.control.settings() == before
