"""Files that are refused: what the answer says, and that nothing of them stays."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from tests.api.world import PROMPT_WORD, Api, Left, error_of, lines_of, row
from tests.harness.clock import Clock
from tests.harness.world import make_tenant

QUOTE = "/v1/quotes/model"
JSONL = "application/jsonl"


def send(api: Api, body: bytes, **environ: Any) -> Any:
    """Post a file as a server hands it on, whatever it says of its length."""
    return api.client.generic("POST", QUOTE, body, content_type=JSONL, **{"wsgi.input": io.BytesIO(body), **environ})


def test_an_empty_file_is_refused(api: Api, nothing_done: Left) -> None:
    error_of(api.post(QUOTE, b"", JSONL), 400, "empty_file")


def test_a_file_of_blank_lines_is_empty(api: Api, nothing_done: Left) -> None:
    error_of(api.post(QUOTE, b"\n  \r\n\n", JSONL), 400, "empty_file")


def test_prose_is_no_jsonl_and_each_line_is_named(api: Api, nothing_done: Left) -> None:
    error = error_of(api.post(QUOTE, f"Dear {PROMPT_WORD},\n\nhello\n".encode(), JSONL), 400, "invalid_json_line")
    assert [(each["row"], each["line"]) for each in error["errors"]] == [(0, 1), (1, 3)]
    assert (error["row"], error["line"], error["custom_id"], error["error_count"]) == (0, 1, None, 2)


def test_a_form_is_no_jsonl(api: Api, nothing_done: Left) -> None:
    body = b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\n{}\r\n--x--\r\n'
    error_of(api.post(QUOTE, body, "multipart/form-data; boundary=x"), 400, "invalid_json_line")


def test_an_unknown_model_is_named_with_its_row_and_id(api: Api, nothing_done: Left) -> None:
    body = b"\n" + lines_of(row("good"), row("bad", model="gpt-4o-mimi"))
    error = error_of(api.post(QUOTE, body, JSONL), 400, "unsupported_model", "body.model")
    assert (error["row"], error["line"], error["custom_id"]) == (1, 3, "bad")
    assert "gpt-4o-mimi" in error["message"]
    assert "gpt-4o-mini" in error["message"]


def test_duplicate_ids_are_listed_with_all_their_rows(api: Api, nothing_done: Left) -> None:
    body = lines_of(row("a"), row("b"), row("a"), row("b"), row("a"))
    error = error_of(api.post(QUOTE, body, JSONL), 400, "duplicate_custom_id", "custom_id")
    assert error["duplicates"] == [
        {"custom_id": "a", "count": 3, "rows": [0, 2, 4], "lines": [1, 3, 5]},
        {"custom_id": "b", "count": 2, "rows": [1, 3], "lines": [2, 4]},
    ]


def test_a_hundred_errors_are_listed_and_all_are_counted(api: Api, nothing_done: Left) -> None:
    error = error_of(api.post(QUOTE, b"{}\n" * 150, JSONL), 400, "missing_required_parameter", "custom_id")
    assert len(error["errors"]) == 100
    assert error["error_count"] >= 150
    assert [each["line"] for each in error["errors"]] == sorted(each["line"] for each in error["errors"])


def test_a_file_over_10_mib_is_refused_and_the_file_flow_named(api: Api, nothing_done: Left) -> None:
    error = error_of(send(api, lines_of(row("a", "x" * 10_485_760))), 413, "payload_too_large")
    assert "10 MiB" in error["message"]
    assert "/v1/files" in error["message"]
    assert "row" not in error


def test_a_file_of_exactly_10_mib_is_quoted(api: Api) -> None:
    body = lines_of(row("a")).ljust(10_485_760)
    assert api.post(QUOTE, body, JSONL).status_code == 201


def test_a_compressed_file_is_refused_as_such(api: Api, nothing_done: Left) -> None:
    error_of(send(api, b"\x1f\x8b", HTTP_CONTENT_ENCODING="gzip"), 415, "unsupported_media_type")


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/json", "application/x-www-form-urlencoded"])
def test_jsonl_is_taken_whatever_its_content_type(api: Api, content_type: str) -> None:
    assert api.post(QUOTE, lines_of(row("a")), content_type).status_code == 201


def test_a_command_names_a_file_that_is_not_there(api: Api, nothing_done: Left) -> None:
    error_of(api.post(QUOTE, {"input_file_id": "file-nope"}), 404, "not_found", "input_file_id")


def test_a_command_whose_file_id_is_no_string_is_refused_as_a_command(api: Api, nothing_done: Left) -> None:
    error_of(api.post(QUOTE, {"input_file_id": 5}), 400, "invalid_type", "input_file_id")


def test_an_unknown_workflow_is_not_found(api: Api, nothing_done: Left) -> None:
    error_of(api.post(f"{QUOTE}?workflow=nightly", lines_of(row("a")), JSONL), 404, "not_found", "workflow")


def test_deep_nesting_in_a_row_is_an_error_of_its_line_and_the_next_call_is_served(api: Api) -> None:
    bomb = b'{"custom_id":"a","body":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    assert error_of(api.post(QUOTE, bomb, JSONL), 400, "too_deep")["line"] == 1
    assert api.post(QUOTE, lines_of(row("a")), JSONL).status_code == 201


def test_a_file_can_be_quoted_without_credit_and_says_so(db: None) -> None:
    poor = Api(make_tenant(credit_micro_usd=0))
    quote = poor.quote(row("a"))
    assert (quote["available_micro_usd"], quote["sufficient_credit"]) == (0, False)


def test_wrong_rows_are_never_quoted_back(api: Api, clock: Clock, nothing_done: Left) -> None:
    wrong = json.dumps(
        {"custom_id": "a", "method": "GET", "url": f"/v1/{PROMPT_WORD}", "body": {"messages": PROMPT_WORD}}
    )
    response = api.post(QUOTE, wrong.encode(), JSONL)
    assert response.status_code == 400
    assert PROMPT_WORD not in response.content.decode()
