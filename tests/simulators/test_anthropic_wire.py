"""The stand-in Anthropic as the official SDK sees it."""

import json
from datetime import UTC, datetime
from typing import Any

import anthropic
import httpx2 as httpx
import pytest

from simulators.running import RunningSimulator
from tests.simulators.claude import OLD_VERSION, AnthropicDriver, ask, row, rows
from tests.simulators.driver import FROZEN_AT

PATH = "/v1/messages/batches"


def call(simulator: RunningSimulator, method: str, path: str, headers: dict[str, str], **options: Any) -> Any:
    with httpx.Client() as client:
        return client.request(method, simulator.url + path, headers=headers, **options)


def test_a_new_batch_has_every_field(claude: AnthropicDriver) -> None:
    batch = claude.create(rows(3))
    assert batch.id.startswith("msgbatch_")
    assert batch.to_dict(mode="json") == {
        "id": batch.id,
        "type": "message_batch",
        "processing_status": "in_progress",
        "request_counts": {"processing": 3, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0},
        "created_at": "2025-11-24T16:00:00Z",
        "expires_at": "2025-11-25T16:00:00Z",
        "ended_at": None,
        "cancel_initiated_at": None,
        "archived_at": None,
        "results_url": None,
    }


def test_a_succeeded_row_has_a_whole_message(claude: AnthropicDriver) -> None:
    message = claude.message(row("row-1", max_tokens=12))
    text = message["content"][0]["text"]
    assert message == {
        "id": message["id"],
        "type": "message",
        "role": "assistant",
        "model": "claude-haiku-4-5",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "max_tokens",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 3 + 4 + 6,
            "output_tokens": 12,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
            "service_tier": "batch",
            "inference_geo": "not_available",
        },
    }


def test_an_errored_row_nests_its_error_twice(claude: AnthropicDriver) -> None:
    batch = claude.run([row("bad", max_tokens=0)])
    (line,) = claude.batches.results(batch.id)
    assert line.result.type == "errored"
    assert line.result.error.error.type == "invalid_request_error"
    assert "max_tokens" in line.result.error.error.message
    assert (line.result.error.request_id or "").startswith("req_")


def test_an_answer_may_name_the_snapshot(claude: AnthropicDriver) -> None:
    claude.control.change_settings(snapshots={"claude-haiku-4-5": "claude-haiku-4-5-20251001"})
    assert claude.message(row("row-1"))["model"] == "claude-haiku-4-5-20251001"


def test_results_are_lines_of_json_at_the_results_url(claude: AnthropicDriver) -> None:
    batch = claude.run(rows(4))
    assert batch.results_url == f"{claude.simulator.url}{PATH}/{batch.id}/results"
    content = call(claude.simulator, "GET", f"{PATH}/{batch.id}/results", {**OLD_VERSION, "x-api-key": "sk-ant-driver"})
    lines = content.text.split("\n")
    assert lines.pop() == ""
    assert sorted(json.loads(line)["custom_id"] for line in lines) == ["row-0", "row-1", "row-2", "row-3"]


def test_results_come_in_another_order_than_the_rows_but_always_the_same(claude: AnthropicDriver) -> None:
    first, second = (list(claude.results(claude.run(rows(40)))) for _ in range(2))
    assert first == second != [f"row-{number}" for number in range(40)]
    assert sorted(first) == sorted(f"row-{number}" for number in range(40))


def test_results_cannot_be_read_before_the_end(claude: AnthropicDriver) -> None:
    batch = claude.create(rows(1))
    with pytest.raises(anthropic.AnthropicError, match="results_url"):
        claude.batches.results(batch.id)
    response = call(
        claude.simulator, "GET", f"{PATH}/{batch.id}/results", {**OLD_VERSION, "x-api-key": "sk-ant-driver"}
    )
    assert (response.status_code, response.json()["error"]["type"]) == (404, "not_found_error")


@pytest.mark.parametrize("header", [{"x-api-key": "sk-ant-driver"}, {"authorization": "Bearer sk-ant-driver"}])
def test_both_styles_of_key_are_the_same_account(claude: AnthropicDriver, header: dict[str, str]) -> None:
    batch = claude.create(rows(1))
    listed = call(claude.simulator, "GET", f"{PATH}?beta=true", {**header, **OLD_VERSION}).json()
    assert [each["id"] for each in listed["data"]] == [batch.id]


@pytest.mark.parametrize(
    ("headers", "status_code", "error_type"),
    [
        ({}, 401, "authentication_error"),
        ({"x-api-key": "a", "authorization": "Bearer b", **OLD_VERSION}, 401, "authentication_error"),
        ({"x-api-key": "sk-bad", **OLD_VERSION}, 401, "authentication_error"),
        ({"x-api-key": "a"}, 400, "invalid_request_error"),
        ({"x-api-key": "a", "anthropic-version": "2024-01-01"}, 400, "invalid_request_error"),
    ],
)
def test_bad_headers_are_refused(
    claude: AnthropicDriver, headers: dict[str, str], status_code: int, error_type: str
) -> None:
    claude.control.change_settings(bad_keys=["sk-bad"])
    response = call(claude.simulator, "GET", PATH, headers)
    body = response.json()
    assert (response.status_code, body["type"], body["error"]["type"]) == (status_code, "error", error_type)
    assert body["request_id"] == response.headers["request-id"]


def test_an_unknown_path_has_the_error_envelope(claude: AnthropicDriver) -> None:
    response = call(claude.simulator, "POST", "/v1/messages", {})
    assert (response.status_code, response.json()["error"]["type"]) == (404, "not_found_error")


@pytest.mark.parametrize("name", ["temperature", "top_p", "top_k"])
def test_the_newer_version_refuses_sampling_parameters_of_any_row(claude: AnthropicDriver, name: str) -> None:
    requests = [row("good"), row("sampled", **{name: 1})]
    newer = claude.client.with_options(default_headers={"anthropic-version": "2026-10-21"})
    with pytest.raises(anthropic.BadRequestError, match=rf"requests\.1\.params\.{name}"):
        newer.messages.batches.create(requests=requests)
    assert claude.batches.list().data == []
    claude.control.change_settings(refuse_sampling_in_rows=True)
    batch = newer.messages.batches.create(requests=requests)
    claude.control.advance(60)
    assert {name: result["type"] for name, result in claude.results(batch).items()} == {
        "good": "succeeded",
        "sampled": "errored",
    }
    assert claude.results(claude.run(requests))["sampled"]["type"] == "succeeded"


def test_the_sdk_sends_the_newer_version_by_itself(claude: AnthropicDriver) -> None:
    with (
        anthropic.Anthropic(base_url=claude.simulator.url, api_key="sk", max_retries=0) as client,
        pytest.raises(anthropic.BadRequestError, match="2026-10-21"),
    ):
        client.messages.batches.create(requests=[row("row", temperature=1)])


def test_the_newer_version_takes_more_away_row_by_row(claude: AnthropicDriver) -> None:
    cited = [{"type": "text", "text": "Hello", "citations": [{"type": "char_location"}]}]
    document = [{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Hello"}}]
    turns = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": document},
        {"role": "user", "content": "?"},
    ]
    requests = [row("cited", cited), row("document", messages=turns)]
    newer = claude.client.with_options(default_headers={"anthropic-version": "2026-10-21"})
    batch = newer.messages.batches.create(requests=requests)
    claude.control.advance(60)
    assert {result["type"] for result in claude.results(batch).values()} == {"errored"}
    assert {result["type"] for result in claude.results(claude.run(requests)).values()} == {"succeeded"}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"nonsense", "not valid JSON"),
        (b"[]", "not valid JSON"),
        (b"{}", "requests: Field required"),
        (b'{"requests":{}}', "requests: Input should be a valid list"),
        (b'{"requests":[1]}', "requests: Input should be a valid list"),
        (b'{"requests":[]}', "at least 1 item"),
        (b'{"requests":[],"metadata":{}}', "metadata: Extra inputs"),
        (b'{"requests":[{"params":{}}]}', "requests.0.custom_id: Field required"),
        (b'{"requests":[{"custom_id":"a"}]}', "requests.0.params: Field required"),
        (b'{"requests":[{"custom_id":"a","params":{},"url":"x"}]}', "requests.0.url: Extra inputs"),
        (b'{"requests":[{"custom_id":7,"params":{}}]}', "requests.0.custom_id: Input should be a valid string"),
        (b'{"requests":[{"custom_id":"a b","params":{}}]}', "requests.0.custom_id: String should match pattern"),
        (b'{"requests":[{"custom_id":"a\\n","params":{}}]}', "requests.0.custom_id: String should match pattern"),
        (b'{"requests":[{"custom_id":"' + b"a" * 65 + b'","params":{}}]}', "String should match pattern"),
        (b'{"requests":[{"custom_id":"","params":{}}]}', "String should match pattern"),
        (b'{"requests":[{"custom_id":"a","params":[]}]}', "requests.0.params: Input should be a valid dictionary"),
        (
            b'{"requests":[{"custom_id":"a","params":{}},{"custom_id":"a","params":{}}]}',
            "requests.1.custom_id: Duplicate custom_id",
        ),
    ],
)
def test_a_create_of_a_wrong_shape_is_refused(claude: AnthropicDriver, body: bytes, message: str) -> None:
    response = call(claude.simulator, "POST", PATH, {"x-api-key": "sk-ant-driver", **OLD_VERSION}, content=body)
    assert (response.status_code, response.json()["error"]["type"]) == (400, "invalid_request_error")
    assert message in response.json()["error"]["message"]
    assert claude.batches.list().data == []


def test_what_is_inside_params_never_fails_the_create(claude: AnthropicDriver) -> None:
    requests = [
        {"custom_id": "empty", "params": {}},
        {"custom_id": "odd", "params": {"model": 7, "messages": "Hi", "max_tokens": "many"}},
        row("streaming", stream=True),
        row("unknown", frequency_penalty=1),
        row("good"),
    ]
    results = claude.results(claude.run(requests))
    assert {name for name, result in results.items() if result["type"] == "succeeded"} == {"good"}
    assert results["unknown"]["error"]["error"]["message"] == "frequency_penalty: Extra inputs are not permitted"


def test_too_many_rows_and_too_many_bytes_are_refused(claude: AnthropicDriver) -> None:
    claude.control.change_settings(max_row_count=2, max_body_bytes=2_000)
    with pytest.raises(anthropic.BadRequestError, match="at most 2 items"):
        claude.create(rows(3))
    with pytest.raises(anthropic.APIStatusError) as refused:
        claude.create([row("large", "x" * 1_000_000)])
    assert (refused.value.status_code, refused.value.type) == (413, "request_too_large")
    assert claude.create(rows(2)).processing_status == "in_progress"


def test_too_many_rows_in_processing_are_refused_until_some_end(claude: AnthropicDriver) -> None:
    claude.control.change_settings(max_processing_rows=5)
    claude.create(rows(3))
    with pytest.raises(anthropic.RateLimitError) as limited:
        claude.create(rows(3))
    assert limited.value.response.headers["retry-after"] == "60"
    claude.control.advance(60)
    assert claude.create(rows(3)).processing_status == "in_progress"


def test_models_may_differ_from_row_to_row_and_a_missing_one_is_a_404_of_its_row(claude: AnthropicDriver) -> None:
    claude.control.change_settings(unknown_models=["claude-gone"])
    results = claude.results(claude.run([row("a"), row("b", model="claude-opus-5"), row("c", model="claude-gone")]))
    assert (results["a"]["message"]["model"], results["b"]["message"]["model"]) == ("claude-haiku-4-5", "claude-opus-5")
    assert results["c"]["error"]["error"] == {"type": "not_found_error", "message": "model: claude-gone"}


def test_another_account_sees_nothing(claude: AnthropicDriver) -> None:
    batch = claude.create(rows(1))
    other = claude.client.with_options(api_key="sk-ant-other").messages.batches
    assert other.list().data == []
    for act in (other.retrieve, other.cancel, other.delete):
        with pytest.raises(anthropic.NotFoundError):
            act(batch.id)


def test_pages_go_both_ways(claude: AnthropicDriver) -> None:
    made = [claude.create(rows(1)).id for _ in range(7)]
    newest_first = made[::-1]
    assert [batch.id for batch in claude.batches.list(limit=3)] == newest_first
    page = claude.batches.list(limit=3)
    assert (page.has_more, page.first_id, page.last_id) == (True, newest_first[0], newest_first[2])
    page = claude.batches.list(limit=3, after_id=newest_first[3])
    assert ([batch.id for batch in page.data], page.has_more) == (newest_first[4:], False)
    page = claude.batches.list(limit=2, before_id=newest_first[4])
    assert ([batch.id for batch in page.data], page.has_more) == (newest_first[2:4], True)
    page = claude.batches.list(limit=2, before_id=newest_first[2])
    assert ([batch.id for batch in page.data], page.has_more) == (newest_first[:2], False)
    assert [batch.id for batch in claude.batches.list(limit=2, before_id=newest_first[6])] == [
        newest_first[index] for index in (4, 5, 2, 3, 0, 1)
    ]


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "after_id=a&before_id=b"])
def test_a_bad_page_is_refused(claude: AnthropicDriver, query: str) -> None:
    response = call(claude.simulator, "GET", f"{PATH}?{query}", {"x-api-key": "sk", **OLD_VERSION})
    assert (response.status_code, response.json()["error"]["type"]) == (400, "invalid_request_error")


def test_an_ended_batch_can_be_deleted(claude: AnthropicDriver) -> None:
    batch = claude.create(rows(1))
    with pytest.raises(anthropic.BadRequestError, match="still processing"):
        claude.batches.delete(batch.id)
    claude.control.advance(60)
    deleted = claude.batches.delete(batch.id)
    assert (deleted.id, deleted.type) == (batch.id, "message_batch_deleted")
    assert claude.batches.list().data == []
    with pytest.raises(anthropic.NotFoundError):
        claude.batches.retrieve(batch.id)


def test_results_are_kept_29_days(claude: AnthropicDriver) -> None:
    batch = claude.run(rows(1))
    claude.control.freeze(FROZEN_AT + 29 * 86_400 - 1)
    assert len(claude.lines(batch)) == 1
    claude.control.advance(1)
    batch = claude.batches.retrieve(batch.id)
    assert batch.archived_at == datetime.fromtimestamp(FROZEN_AT + 29 * 86_400, UTC)
    assert (batch.results_url, batch.processing_status) == (None, "ended")
    response = call(
        claude.simulator, "GET", f"{PATH}/{batch.id}/results", {"x-api-key": "sk-ant-driver", **OLD_VERSION}
    )
    assert response.status_code == 404


def test_whatever_line_breaks_a_request_has_it_is_one_row(claude: AnthropicDriver) -> None:
    body = json.dumps({"requests": [{"custom_id": "a", "params": ask("x\u2028y")}]}, indent=2, ensure_ascii=False)
    headers = {"x-api-key": "sk-ant-driver", **OLD_VERSION}
    batch_id = call(claude.simulator, "POST", PATH, headers, content=body.encode()).json()["id"]
    claude.control.advance(60)
    assert [line["custom_id"] for line in claude.lines(claude.batches.retrieve(batch_id))] == ["a"]
