"""What a file may hold, and what is said of one that does not keep to it."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from ground.errors import RowErrors
from routing.domain.jsonl.table import FileLimits
from routing.domain.offering import QuoteSettings
from routing.domain.plan import QuotePlan
from routing.domain.quoting import make_quote_plan
from routing.domain.scoring import WorkflowProfile
from tests.routing.domain.sample import AT, EMBEDDER, HOUSE, jsonl, row

TEXT = {"type": "text", "text": "hi"}


def quote(body: bytes, **limits: int) -> QuotePlan:
    settings = QuoteSettings(limits=FileLimits(**limits))
    return make_quote_plan(body, HOUSE, WorkflowProfile(), settings, AT)


def refusal(body: bytes, **limits: int) -> RowErrors:
    with pytest.raises(RowErrors) as refused:
        quote(body, **limits)
    return refused.value


def said(item: Any) -> tuple[str, str | None]:
    error = refusal(jsonl(row("good"), item)).errors[0]
    assert (error.row, error.line) == (1, 2)
    return error.code, error.param


def user(content: Any, **other: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": content, **other}]


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        (jsonl(row()).rstrip(), 1),
        (b"\xef\xbb\xbf" + jsonl(row()), 1),
        (jsonl(row("a"), row("b")).replace(b"\n", b"\r\n"), 2),
        (b"\n \t\n" + jsonl(row("a")) + b"\n\r\n" + jsonl(row("b")), 2),
        (b"  " + jsonl(row()), 1),
        (jsonl(row(messages=user("a\u2028b\u0085c\x00"))), 1),
        (jsonl(row("A"), row("a"), row(" a"), row("a ")), 4),
        (jsonl(row(stream=False, max_tokens=None, temperature=None, n=None, tools=None)), 1),
        (jsonl(row(max_tokens=5, max_completion_tokens=5)), 1),
        (jsonl(row(messages=user([TEXT, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]))), 1),
        (jsonl(row(messages=[{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": ""}}]}])), 1),
        (jsonl(row(messages=user("")), row("b", messages=user("x", name="n"))), 2),
        (jsonl({**row(), "model": "nowhere", "extra": [1]}), 1),
    ],
)
def test_good_files_are_accepted(body: bytes, rows: int) -> None:
    assert quote(body).row_count == rows


@pytest.mark.parametrize("body", [b"", b"\n\n", b" \r\n\t\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"])
def test_a_file_without_a_request_is_empty(body: bytes) -> None:
    assert refusal(body).code == "empty_file"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"[1]", "invalid_json_line"),
        (b'"text"', "invalid_json_line"),
        (b"null", "invalid_json_line"),
        (b"{} {}", "invalid_json_line"),
        (b"{", "invalid_json_line"),
        (b"\x0c", "invalid_json_line"),
        (b"\xef\xbb\xbf{}", "invalid_json_line"),
        (b'{"a":Infinity}', "invalid_json_line"),
        (b'{"a":"\xff"}', "invalid_encoding"),
        (b'{"a":"\xed\xa0\x80"}', "invalid_encoding"),
        (b'{"a":"\\ude00\\ud83d"}', "invalid_encoding"),
        (b'{"a":1,"a":1}', "duplicate_key"),
        (b"[" * 101 + b"]" * 101, "too_deep"),
    ],
)
def test_a_line_that_is_no_request_is_named(line: bytes, code: str) -> None:
    error = refusal(jsonl(row("a")) + b"\n" + line + b"\n" + jsonl(row("b"))).errors
    assert [(item.code, item.row, item.line) for item in error] == [(code, 1, 3)]


@pytest.mark.parametrize(
    ("name", "number", "code"),
    [
        ("max_tokens", b"1" + b"0" * 18, "invalid_value"),
        ("max_tokens", b"9" * 300, "invalid_value"),
        ("max_completion_tokens", b"-" + b"9" * 300, "invalid_value"),
        ("n", b"9" * 22, "invalid_value"),
        ("temperature", b"9" * 300, "invalid_value"),
        ("max_tokens", b"99.0", "invalid_type"),
    ],
)
def test_a_whole_number_is_refused_for_its_size_however_many_digits_it_has(name: str, number: bytes, code: str) -> None:
    values: dict[str, Any] = {name: 7654321}
    body = jsonl(row("a"), row("b", **values)).replace(b"7654321", number)
    error = refusal(body).errors[0]
    assert (error.code, error.param, error.line) == (code, f"body.{name}", 2)


@pytest.mark.parametrize(
    ("line", "code", "custom_id"),
    [
        (rb'{"custom_id":"u2","body":{"a":"\ud83d"}}', "invalid_encoding", "u2"),
        (b'{"custom_id":" u2 ","body":{"a":"\xe6\x87"}}', "invalid_encoding", " u2 "),
        (b'{"body":{"a":NaN},"custom_id":"u2"}', "invalid_json_line", "u2"),
        (b'{"body":{"a":1e400},"custom_id":"u2"}', "invalid_value", "u2"),
        (b'{"body":{"a":' + b"[" * 99 + b"]" * 99 + b'},"custom_id":"u2"}', "too_deep", "u2"),
        (b'{"custom_id":"u2","method":"POST","method":"POST"}', "duplicate_key", "u2"),
        (rb'{"c\u0075stom_id":"u2","method":"POST","method":"POST"}', "duplicate_key", "u2"),
        (b'{"custom_id":"u2","custom_id":"u2"}', "duplicate_key", None),
        (rb'{"custom_id":"u2","c\u0075stom_id":"u3"}', "duplicate_key", None),
        (rb'{"custom_id":"u\ud83d"}', "invalid_encoding", None),
        (b'{"custom_id":"u\xff"}', "invalid_encoding", None),
        (b'{"custom_id":"' + b"x" * 513 + b'","a":NaN}', "invalid_json_line", None),
        (b'{"body":{"custom_id":"u2","a":NaN}}', "invalid_json_line", None),
        (b'[{"custom_id":"u2"},NaN]', "invalid_json_line", None),
        (b'{"custom_id":["u2"],"a":NaN}', "invalid_json_line", None),
        (b'{"custom_id":"u2","a":' + b"[" * 20_000 + b"]" * 20_000 + b"}", "too_deep", None),
    ],
)
def test_a_line_that_cannot_be_read_is_named_by_the_one_id_that_stands_in_it(
    line: bytes, code: str, custom_id: str | None
) -> None:
    error = refusal(jsonl(row("a")) + line).errors[0]
    assert (error.code, error.line, error.custom_id) == (code, 2, custom_id)


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"custom_id": 5}, ("invalid_type", "custom_id")),
        ({"custom_id": " \t"}, ("invalid_value", "custom_id")),
        ({"custom_id": "a\x00"}, ("invalid_value", "custom_id")),
        ({"custom_id": "x" * 513}, ("invalid_value", "custom_id")),
        ({"method": "GET"}, ("invalid_value", "method")),
        ({"method": None}, ("invalid_type", "method")),
        ({"url": "/v1/completions"}, ("unsupported_endpoint", "url")),
        ({"url": "/v1/embeddings"}, ("url_mismatch", "url")),
        ({"url": 1}, ("invalid_type", "url")),
        ({"body": []}, ("invalid_type", "body")),
    ],
)
def test_the_envelope_is_checked(change: dict[str, Any], wanted: tuple[str, str]) -> None:
    assert said({**row("x"), **change}) == wanted


@pytest.mark.parametrize("name", ["custom_id", "method", "url", "body"])
def test_a_missing_name_of_the_envelope_is_named(name: str) -> None:
    assert said({key: value for key, value in row("x").items() if key != name}) == ("missing_required_parameter", name)


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"model": 4}, ("invalid_type", "body.model")),
        ({"model": " "}, ("invalid_value", "body.model")),
        ({"model": "gpt-9"}, ("unsupported_model", "body.model")),
        ({"messages": "x"}, ("invalid_type", "body.messages")),
        ({"messages": []}, ("invalid_value", "body.messages")),
        ({"messages": ["x"]}, ("invalid_type", "body.messages[0]")),
        ({"messages": [{"content": "x"}]}, ("missing_required_parameter", "body.messages[0].role")),
        ({"messages": [{"role": "robot", "content": "x"}]}, ("invalid_value", "body.messages[0].role")),
        ({"messages": [{"role": "user"}]}, ("missing_required_parameter", "body.messages[0].content")),
        ({"messages": user(None)}, ("invalid_type", "body.messages[0].content")),
        ({"messages": user(7)}, ("invalid_type", "body.messages[0].content")),
        ({"messages": user([])}, ("invalid_value", "body.messages[0].content")),
        ({"messages": user([{"type": "text"}])}, ("missing_required_parameter", "body.messages[0].content[0].text")),
        ({"messages": user([{"type": "video"}])}, ("invalid_value", "body.messages[0].content[0].type")),
        ({"messages": user([{"type": "file"}])}, ("unsupported_parameter", "body.messages[0].content[0].type")),
        (
            {"messages": user([{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}])},
            ("invalid_value", "body.messages[0].content[0].image_url.url"),
        ),
        ({"stream": True}, ("unsupported_parameter", "body.stream")),
        ({"stream": "no"}, ("invalid_type", "body.stream")),
        ({"n": 0}, ("invalid_value", "body.n")),
        ({"n": 1.5}, ("invalid_type", "body.n")),
        ({"n": True}, ("invalid_type", "body.n")),
        ({"temperature": 2.1}, ("invalid_value", "body.temperature")),
        ({"temperature": "1"}, ("invalid_type", "body.temperature")),
        ({"top_p": -0.1}, ("invalid_value", "body.top_p")),
        ({"max_tokens": 0}, ("invalid_value", "body.max_tokens")),
        ({"max_tokens": 5.0}, ("invalid_type", "body.max_tokens")),
        ({"max_tokens": 5, "max_completion_tokens": 6}, ("invalid_value", "body.max_tokens")),
        ({"tools": {}}, ("invalid_type", "body.tools")),
        ({"response_format": "json"}, ("invalid_type", "body.response_format")),
        ({"web_search_options": {}}, ("unsupported_parameter", "body.web_search_options")),
        ({"modalities": ["audio"]}, ("unsupported_parameter", "body.modalities")),
    ],
)
def test_the_body_is_checked(change: dict[str, Any], wanted: tuple[str, str]) -> None:
    assert said(row("x", **change)) == wanted


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ([], "invalid_value"),
        ("", "invalid_value"),
        (5, "invalid_type"),
        (["a", 1], "invalid_type"),
        ([[1], []], "invalid_type"),
        (["x"] * 2_049, "too_many_inputs"),
        ([1] * 8_193, "too_many_inputs"),
        ([[1] * 8_000] * 38, "too_many_inputs"),
        ("x" * 200_000, "too_many_inputs"),
    ],
)
def test_embedding_inputs_are_checked(given: Any, code: str) -> None:
    assert refusal(jsonl(row("e", url="/v1/embeddings", model=EMBEDDER.slug, input=given))).code == code


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (5, "invalid_type"),
        ([], "invalid_value"),
        ([{"role": "user"}], "missing_required_parameter"),
        ([{"type": "item_reference", "id": "x"}], "unsupported_parameter"),
        ([{"role": "user", "content": [{"type": "input_file"}]}], "unsupported_parameter"),
    ],
)
def test_responses_input_is_checked(given: Any, code: str) -> None:
    assert refusal(jsonl(row("r", url="/v1/responses", input=given))).code == code


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("row", b'"method":"POST",'),
        ("body", b'"max_tokens":50,'),
        ("body", b'"m\\u0061x_tokens":50,'),
    ],
)
def test_a_name_that_stands_twice_is_refused(place: str, text: bytes) -> None:
    line = jsonl(row())
    doubled = line.replace(b"{", b"{" + text, 1) if place == "row" else line.replace(b'"body":{', b'"body":{' + text)
    assert refusal(doubled).code == "duplicate_key"


def test_a_name_twice_in_a_message_is_refused_but_deeper_it_is_passed_on() -> None:
    twice = jsonl(row()).replace(b'"role":"user"', b'"role":"user","role":"user"')
    assert refusal(twice).errors[0].param == "body.messages[0]"
    deeper = jsonl(row(metadata={"a": 1})).replace(b'"a":1', b'"a":1,"a":2')
    assert quote(deeper).row_count == 1


def test_every_duplicate_id_is_listed_with_all_rows_and_lines() -> None:
    error = refusal(b"\n" + jsonl(row("a"), row("b"), row("a"), row("c"), row("b"), row("a")))
    assert [(item.custom_id, item.rows, item.lines) for item in error.duplicates] == [
        ("a", (0, 2, 5), (2, 4, 7)),
        ("b", (1, 4), (3, 6)),
    ]
    assert [(item.code, item.row, item.line) for item in error.errors] == [
        ("duplicate_custom_id", 2, 4),
        ("duplicate_custom_id", 4, 6),
        ("duplicate_custom_id", 5, 7),
    ]


def test_a_thousand_duplicate_ids_are_listed_and_then_a_total() -> None:
    error = refusal(jsonl(*(row(str(index % 1_100)) for index in range(2_200))))
    assert len(error.duplicates) == 1_000
    assert error.extra["duplicate_id_count"] == 1_100
    assert (len(error.errors), error.error_count) == (100, 1_100)


def test_an_id_that_stands_everywhere_is_counted_and_its_first_thousand_places_are_listed() -> None:
    (found,) = refusal(jsonl(*(row("same") for _ in range(1_500)))).duplicates
    assert (found.count, found.rows, found.lines) == (1_500, tuple(range(1_000)), tuple(range(1, 1_001)))
    # Together they are no more than 20,000.
    listed = refusal(jsonl(*(row(str(index % 400)) for index in range(24_000)))).duplicates
    assert {(each.count, len(each.rows)) for each in listed} == {(60, 50)}


def test_a_hundred_errors_are_listed_by_line_and_the_rest_counted() -> None:
    error = refusal(jsonl(*(row(str(index), temperature=9) for index in range(150))))
    assert [item.line for item in error.errors] == list(range(1, 101))
    assert error.error_count == 150


def test_limits_on_rows_and_bytes_name_the_first_row_over() -> None:
    many = refusal(jsonl(*(row(str(index)) for index in range(4))), maximum_rows=3)
    assert (many.code, many.errors[0].row, many.errors[0].line) == ("too_many_rows", 3, 4)
    large = refusal(jsonl(row("a"), row("b", user="x" * 500)), maximum_row_bytes=500)
    assert (large.code, large.errors[0].line) == ("row_too_large", 2)


def test_no_message_repeats_what_the_row_says() -> None:
    secret = "the launch code is 0000"
    bad = [
        row("a", messages=user(secret), temperature=9),
        row("b", messages=[{"role": secret, "content": secret}]),
        row("c", n=secret, **{secret: str(1)}),
        {**row("d"), "url": secret, "method": "POST"},
    ]
    doubled = orjson.dumps(row("e")).replace(b'"body":{', b'"body":{"the launch code":1,"the launch code":2,')
    error = refusal(jsonl(*bad) + doubled)
    assert len(error.errors) == 5
    assert not any("launch" in item.message + str(item.param) for item in error.errors)


def test_the_model_is_named_shortened_and_printable() -> None:
    error = refusal(jsonl(row(model="m\n" + "x" * 300))).errors[0]
    assert len(error.message) < 250
    assert "\n" not in error.message


def test_many_unknown_names_are_answered_in_little_time() -> None:
    error = refusal(jsonl(*(row(str(index), model=f"gpt-4o-min{index}") for index in range(3_000))))
    assert (error.error_count, len(error.errors)) == (3_000, 100)
    assert all("Did you mean" in item.message for item in error.errors)
