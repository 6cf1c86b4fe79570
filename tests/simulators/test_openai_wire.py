"""The official SDK is the judge of the wire format."""

import http.client
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import openai
import pytest
from openai import OpenAI

from tests.simulators.driver import CHAT, FROZEN_AT, Driver, as_jsonl, chat_row, chat_rows


def raw_call(
    driver: Driver, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(urlsplit(driver.simulator.url).netloc, timeout=10)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()


def raw_json(driver: Driver, path: str) -> dict[str, Any]:
    status, _, body = raw_call(driver, "GET", path, authorization="Bearer sk-driver")
    assert status == 200
    answer: dict[str, Any] = json.loads(body)
    return answer


def test_the_sdk_accepts_every_answer_under_strict_validation(driver: Driver) -> None:
    with OpenAI(
        base_url=driver.simulator.base_url, api_key="sk-strict", max_retries=0, _strict_response_validation=True
    ) as client:
        strict = Driver(driver.simulator, client)
        batch = strict.create([*chat_rows(3), chat_row("bad", "[[sim:fail]]")], metadata={"token": "t-1"})
        assert batch.status == "validating"
        for seconds in (1, 0.2, 1, 1):
            driver.control.advance(seconds)
            batch = client.batches.retrieve(batch.id)
        assert batch.status == "completed"
        assert [each.id for each in client.batches.list()] == [batch.id]
        assert len([each.id for each in client.files.list()]) == 3
        assert client.files.retrieve(batch.output_file_id or "").purpose == "batch_output"
        waiting = strict.create(chat_rows(1))
        assert client.batches.cancel(waiting.id).status == "cancelling"
        assert client.files.delete(batch.input_file_id).deleted


def test_a_new_batch_has_every_member_of_the_object(driver: Driver) -> None:
    batch = driver.create(chat_rows(1), metadata={"token": "t-1"})
    assert raw_json(driver, f"/v1/batches/{batch.id}") == {
        "id": batch.id,
        "object": "batch",
        "endpoint": CHAT,
        "model": None,
        "errors": None,
        "input_file_id": batch.input_file_id,
        "completion_window": "24h",
        "status": "validating",
        "output_file_id": None,
        "error_file_id": None,
        "created_at": FROZEN_AT,
        "in_progress_at": None,
        "expires_at": FROZEN_AT + 86_400,
        "finalizing_at": None,
        "completed_at": None,
        "failed_at": None,
        "expired_at": None,
        "cancelling_at": None,
        "cancelled_at": None,
        "request_counts": {"total": 0, "completed": 0, "failed": 0},
        "usage": {
            "input_tokens": 0,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 0,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 0,
        },
        "metadata": {"token": "t-1"},
    }


def test_a_file_has_every_member_of_the_object(driver: Driver) -> None:
    file_id = driver.upload(chat_rows(1))
    assert raw_json(driver, f"/v1/files/{file_id}") == {
        "object": "file",
        "id": file_id,
        "purpose": "batch",
        "filename": "rows.jsonl",
        "bytes": len(as_jsonl(chat_rows(1))),
        "created_at": FROZEN_AT,
        "expires_at": FROZEN_AT + 30 * 86_400,
        "status": "processed",
        "status_details": None,
    }


def test_a_file_comes_back_byte_for_byte(driver: Driver) -> None:
    content = b"\x00\xff not json \r\n" * 1000
    stored = driver.client.files.create(file=("odd.jsonl", content), purpose="batch")
    assert driver.client.files.content(stored.id).content == content


def test_an_upload_from_disk_keeps_its_name(driver: Driver, tmp_path: Path) -> None:
    path = tmp_path / "from-disk.jsonl"
    path.write_bytes(as_jsonl(chat_rows(2)))
    assert driver.client.files.create(file=path, purpose="batch").filename == "from-disk.jsonl"


def test_a_batch_file_must_be_named_jsonl(driver: Driver) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        driver.client.files.create(file=b"{}", purpose="batch")
    assert refused.value.response.json() == {
        "error": {
            "message": "Invalid file format for Batch API. Must be .jsonl",
            "type": "invalid_request_error",
            "param": None,
            "code": None,
        },
        "detail": {"message": "Invalid file format for Batch API. Must be .jsonl", "code": None},
    }


def test_an_unknown_purpose_is_refused(driver: Driver) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        driver.client.files.create(file=("a.jsonl", b"{}"), purpose="batch_output")  # type: ignore[arg-type]
    assert refused.value.param == "purpose"


@pytest.mark.parametrize("body", [b"", b"--x\r\nnonsense", b"--x--\r\n"])
def test_a_broken_form_is_a_400_and_leaves_nothing(driver: Driver, tmp_path: Path, body: bytes) -> None:
    status, _, answer = raw_call(
        driver,
        "POST",
        "/v1/files",
        body,
        authorization="Bearer sk-driver",
        content_type="multipart/form-data; boundary=x",
    )
    assert (status, json.loads(answer)["error"]["type"]) == (400, "invalid_request_error")
    assert list((tmp_path / "openai" / "files").iterdir()) == []


def test_a_file_lasts_as_long_as_asked(driver: Driver) -> None:
    stored = driver.client.files.create(
        file=("a.jsonl", b"{}"), purpose="batch", expires_after={"anchor": "created_at", "seconds": 3_600}
    )
    driver.control.advance(3_599)
    assert driver.client.files.retrieve(stored.id).expires_at == FROZEN_AT + 3_600
    driver.control.advance(1)
    with pytest.raises(openai.NotFoundError):
        driver.client.files.retrieve(stored.id)


def test_a_deleted_file_is_gone_but_its_batch_runs_on(driver: Driver) -> None:
    batch = driver.create(chat_rows(2))
    driver.client.files.delete(batch.input_file_id)
    with pytest.raises(openai.NotFoundError):
        driver.client.files.content(batch.input_file_id)
    driver.control.advance(60)
    assert driver.client.batches.retrieve(batch.id).status == "completed"


def test_lists_are_paged_newest_first(driver: Driver) -> None:
    made = [driver.create(chat_rows(1)).id for _ in range(5)]
    page = driver.client.batches.list(limit=2)
    assert [batch.id for batch in page.data] == made[:2:-1]
    assert (page.has_more, page.first_id, page.last_id) == (True, made[4], made[3])  # type: ignore[attr-defined]
    assert [batch.id for batch in driver.client.batches.list(limit=2)] == made[::-1]
    assert driver.client.batches.list(limit=5).has_more is False


def test_files_are_listed_by_purpose_and_in_both_orders(driver: Driver) -> None:
    batch = driver.run(chat_rows(1))
    other = driver.client.files.create(file=("notes.txt", b"x"), purpose="user_data").id
    listed = driver.client.files.list
    assert [each.id for each in listed(order="asc", limit=1)] == [batch.input_file_id, batch.output_file_id, other]
    assert [each.id for each in listed(limit=1)] == [other, batch.output_file_id, batch.input_file_id]
    assert [each.id for each in listed(purpose="user_data")] == [other]


@pytest.mark.parametrize("limit", ["0", "101", "x", "-1"])
def test_a_page_size_out_of_range_is_refused(driver: Driver, limit: str) -> None:
    status, _, body = raw_call(driver, "GET", f"/v1/batches?limit={limit}", authorization="Bearer sk-driver")
    assert (status, json.loads(body)["error"]["param"]) == (400, "limit")


def test_keys_do_not_see_each_other(driver: Driver) -> None:
    batch = driver.create(chat_rows(1))
    stranger = driver.client.with_options(api_key="sk-stranger")
    assert list(stranger.batches.list()) == []
    assert list(stranger.files.list()) == []
    with pytest.raises(openai.NotFoundError) as hidden:
        stranger.batches.retrieve(batch.id)
    assert batch.id in hidden.value.message
    with pytest.raises(openai.NotFoundError):
        stranger.files.content(batch.input_file_id)
    with pytest.raises(openai.NotFoundError):
        stranger.batches.create(input_file_id=batch.input_file_id, endpoint=CHAT, completion_window="24h")


def test_a_bad_key_and_no_key_are_401(driver: Driver) -> None:
    driver.control.change_settings(bad_keys=["sk-revoked"])
    with pytest.raises(openai.AuthenticationError) as bad:
        driver.client.with_options(api_key="sk-revoked").batches.list()
    assert bad.value.code == "invalid_api_key"
    status, _, body = raw_call(driver, "GET", "/v1/batches")
    assert (status, json.loads(body)["error"]["code"]) == (401, None)


def test_every_answer_has_a_request_id(driver: Driver) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        driver.client.batches.retrieve("batch_unknown")
    assert (unknown.value.request_id or "").startswith("req_")
    assert (unknown.value.type, unknown.value.param) == ("invalid_request_error", "id")
    assert (driver.client.files.list()._request_id or "").startswith("req_")


def test_an_unknown_url_has_the_envelope(driver: Driver) -> None:
    status, _, body = raw_call(driver, "GET", "/v1/files/", authorization="Bearer sk-driver")
    assert (status, json.loads(body)["error"]["code"]) == (404, "unknown_url")


@pytest.mark.parametrize(
    ("changed", "param"),
    [
        ({"completion_window": "1h"}, "completion_window"),
        ({"endpoint": "/v1/nothing"}, "endpoint"),
        ({"endpoint": None}, "endpoint"),
        ({"input_file_id": 7}, "input_file_id"),
        ({"metadata": {str(number): "x" for number in range(17)}}, "metadata"),
        ({"metadata": {"k" * 65: "x"}}, "metadata"),
        ({"metadata": {"k": "x" * 513}}, "metadata.k"),
        ({"metadata": {"k": 1}}, "metadata.k"),
        ({"metadata": []}, "metadata"),
        ({"output_expires_after": {"anchor": "created_at", "seconds": 60}}, "output_expires_after.seconds"),
    ],
)
def test_a_create_that_breaks_a_rule_is_refused(driver: Driver, changed: dict[str, Any], param: str) -> None:
    wanted = {"input_file_id": driver.upload(chat_rows(1)), "endpoint": CHAT, "completion_window": "24h", **changed}
    with pytest.raises(openai.BadRequestError) as refused:
        driver.client.post("/batches", body=wanted, cast_to=object)
    assert refused.value.param == param
    assert driver.client.batches.list().data == []


@pytest.mark.parametrize("body", [b"{", b"[]"])
def test_a_create_without_an_object_is_refused(driver: Driver, body: bytes) -> None:
    status, _, _ = raw_call(driver, "POST", "/v1/batches", body, authorization="Bearer sk-driver")
    assert status == 400


def test_a_file_of_another_purpose_cannot_be_run(driver: Driver) -> None:
    other = driver.client.files.create(file=("a.jsonl", as_jsonl(chat_rows(1))), purpose="user_data")
    with pytest.raises(openai.BadRequestError):
        driver.client.batches.create(input_file_id=other.id, endpoint=CHAT, completion_window="24h")


def test_results_last_as_long_as_asked(driver: Driver) -> None:
    batch = driver.run(chat_rows(1), output_expires_after={"anchor": "created_at", "seconds": 7_200})
    assert batch.completed_at is not None
    stored = driver.client.files.retrieve(batch.output_file_id or "")
    assert stored.expires_at == batch.completed_at + 7_200
    assert stored.filename == f"{batch.id}_output.jsonl"
