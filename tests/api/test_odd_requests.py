"""Requests that no SDK sends: every one has its answer in the standard envelope, none a 500."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.world import Api, Left, error_of, row

ID = "0" * 26
LATEST = "7" + "Z" * 25


@pytest.mark.parametrize("path", ["/v1", "/v1/", "/v1/nope", "/v1/batches/", "/v1/chat/completions", "/v1//batches"])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS"])
def test_an_unknown_address_is_not_found_whatever_the_method(api: Api, method: str, path: str) -> None:
    error_of(api.client.generic(method, path, b"{}", content_type="application/json"), 404, "not_found")


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v1/batches", {"GET", "POST"}),
        ("/v1/quotes/model", {"POST", "GET"}),
        (f"/v1/batches/batch_{ID}", {"GET"}),
        ("/v1/wallet", {"GET"}),
    ],
)
@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "FOO"])
def test_a_wrong_method_is_405_in_the_envelope(api: Api, method: str, path: str, allowed: set[str]) -> None:
    response = api.client.generic(method, path)
    error = error_of(response, 405, "method_not_allowed")
    assert set(response["Allow"].split(", ")) <= allowed
    assert error["type"] == "invalid_request_error"


def test_head_is_405_without_a_body(api: Api) -> None:
    response = api.client.head("/v1/batches")
    assert (response.status_code, response.content) == (405, b"")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", "invalid_json_line"),
        (b"\xff\xfe", "invalid_json_line"),
        (b'{"quote_id": NaN}', "invalid_json_line"),
        (b'{"quote_id": "\\ud800"}', "invalid_json_line"),
        (b"[" * 100_000, "invalid_json_line"),
        (b'{"metadata":' * 20_000 + b"1" + b"}" * 20_000, "invalid_json_line"),
        (b"[]", "invalid_type"),
        (b"null", "invalid_type"),
        (b'"qt_1"', "invalid_type"),
        (b"", "missing_required_parameter"),
        (b'{"metadata":' * 1_000 + b"1" + b"}" * 1_000, "too_deep"),
    ],
)
def test_a_body_that_is_no_json_object_is_refused(api: Api, nothing_done: Left, body: bytes, code: str) -> None:
    error_of(api.post("/v1/batches", body), 400, code)


@pytest.mark.parametrize("quote_id", [5, True, ["qt_1"], {"id": "qt_1"}])
def test_a_quote_id_that_is_no_string_is_of_the_wrong_type(api: Api, nothing_done: Left, quote_id: Any) -> None:
    error_of(api.post("/v1/batches", {"quote_id": quote_id}), 400, "invalid_type", "quote_id")


@pytest.mark.parametrize(
    "quote_id", ["qt_\x00", f"qt_{LATEST}", f"qt_{ID}\n", "qt_" + "x" * 100_000, "'; --", "\u00e4"]
)
def test_a_quote_id_that_cannot_be_is_not_found(api: Api, nothing_done: Left, quote_id: str) -> None:
    error = error_of(api.post("/v1/batches", {"quote_id": quote_id}), 404, "not_found", "quote_id")
    assert len(error["message"]) < 120


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
def test_a_command_of_another_content_type_is_415(api: Api, nothing_done: Left, content_type: str) -> None:
    error_of(api.post("/v1/batches", b"quote_id=1", content_type), 415, "unsupported_media_type")


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", ""])
def test_json_is_taken_with_a_charset_and_without_a_type(api: Api, content_type: str) -> None:
    body = b'{"quote_id": "qt_nope"}'
    error_of(api.post("/v1/batches", body, content_type), 404, "not_found", "quote_id")


def test_a_command_of_a_megabyte_is_too_large(api: Api, nothing_done: Left) -> None:
    body = {"quote_id": "qt_nope", "metadata": {"k": "v" * 1_000_000}}
    error_of(api.post("/v1/batches", body), 413, "payload_too_large")
    error_of(api.post("/v1/batches", b" " * 11_000_000), 413, "payload_too_large")


@pytest.mark.parametrize(
    "path",
    [
        f"batches/batch_{ID}",
        f"batches/batch_{ID}/results",
        f"batches/batch_{ID}/receipt",
        f"quotes/qt_{LATEST}",
        f"quotes/qt_{ID}",
        f"files/file-{ID}",
        f"files/file-{ID}/content",
        "receipts/rcpt_nope",
        "models/nope",
    ],
)
def test_an_id_that_is_not_there_is_not_found(api: Api, path: str) -> None:
    response = api.get(f"/v1/{path}")
    assert (response.status_code, response.json()["error"]["code"]) == (404, "not_found")


@pytest.mark.parametrize("kind", ["batches", "quotes", "files", "receipts", "models"])
@pytest.mark.parametrize("spelling", ["%00", "batch_%00", "%ff", "%ED%A0%80", "..", "%2e%2e%2f", "a" * 5_000, "%0a"])
def test_no_spelling_of_an_id_breaks_an_address(api: Api, kind: str, spelling: str) -> None:
    response = api.get(f"/v1/{kind}/{spelling}")
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "not_found"


@pytest.mark.parametrize("path", ["/v1/batches", "/v1/receipts"])
@pytest.mark.parametrize(
    ("limit", "code"),
    [("abc", "invalid_type"), ("-1", "invalid_value"), ("0", "invalid_value"), ("101", "invalid_value"),
     ("1.5", "invalid_type"), ("", "invalid_type"), ("9" * 30, "invalid_value"), ("%00", "invalid_value")],
)  # fmt: skip
def test_a_limit_is_1_to_100(api: Api, path: str, limit: str, code: str) -> None:
    error_of(api.get(f"{path}?limit={limit}"), 400, code, "limit")


@pytest.mark.parametrize(("after", "status"), [("%00", 400), ("batch_nope", 404), ("%ff", 404), (f"qt_{ID}", 404)])
def test_a_page_after_what_is_not_there_is_refused(api: Api, after: str, status: int) -> None:
    code = "not_found" if status == 404 else "invalid_value"
    error_of(api.get(f"/v1/batches?after={after}"), status, code, "after")
    assert api.get(f"/v1/receipts?after={after}").status_code == status


def test_a_nul_in_any_parameter_is_refused(api: Api, nothing_done: Left) -> None:
    error_of(api.get("/v1/batches?metadata[%00]=b"), 400, "invalid_value", "metadata[\x00]")
    error_of(api.post("/v1/quotes/model?workflow=a%00b", b"", "application/jsonl"), 400, "invalid_value", "workflow")


def test_an_address_with_thousands_of_parameters_is_refused(api: Api) -> None:
    error_of(api.get("/v1/batches?" + "&".join(["a=1"] * 1_200)), 400, "invalid_value")


def test_huge_and_odd_headers_change_nothing(api: Api) -> None:
    response = api.client.get("/v1/wallet", headers={"x-request-id": "a b\u00e4" * 1_000, "x-odd": "y" * 60_000})
    assert response.status_code == 200
    assert response["x-request-id"].startswith("req_")


def test_a_harmless_request_id_comes_back(api: Api) -> None:
    assert api.client.get("/v1/nope", headers={"x-request-id": "trace-7"})["x-request-id"] == "trace-7"


def test_answers_are_not_kept_by_caches(api: Api) -> None:
    assert api.get("/v1/wallet")["Cache-Control"] == "no-store"
    assert api.get("/v1/nope")["Cache-Control"] == "no-store"


def test_after_every_odd_request_a_good_one_works(api: Api) -> None:
    api.post("/v1/batches", b"[" * 100_000)
    assert api.accept(api.quote(row("a"))["id"]).status_code == 200


def test_a_quote_command_that_names_two_files_is_refused(api: Api, nothing_done: Left) -> None:
    body = b'{"input_file_id":"file-1","input_file_id":"file-2"}'
    error_of(api.post("/v1/quotes/model", body), 400, "duplicate_key", "input_file_id")


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b'{"quote_id":"qt_1","quote_id":"qt_2"}', "quote_id"),
        (b'{"quote_id":"qt_1","\\u0071uote_id":"qt_1"}', "quote_id"),
        (b'{"quote_id":"qt_1","metadata":{"a":"1","a":"2"}}', "a"),
    ],
)
def test_a_command_that_holds_a_name_twice_is_refused(api: Api, nothing_done: Left, body: bytes, name: str) -> None:
    error_of(api.post("/v1/batches", body), 400, "duplicate_key", name)
