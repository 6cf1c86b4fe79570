from __future__ import annotations

import msgspec
import pytest

from catalog.domain.records import Endpoint
from routing.providers.base import (
    BrokenLine,
    ForeignLine,
    LineProblem,
    Outcome,
    RowCode,
    TokenUsage,
    UsageProblem,
    make_row_key,
    row_of_key,
)
from routing.providers.openai.wire import encode_row
from tests.routing.providers.lines_by_hand import (
    COMPLETION,
    KEY,
    TOKEN,
    answered,
    body_of,
    never_ran,
    read,
    read_row,
    refused,
)


def members(text: bytes) -> dict[str, msgspec.Raw]:
    return msgspec.json.decode(text, type=dict[str, msgspec.Raw])


def encoded(body: bytes) -> bytes:
    return encode_row(row_key="token-12r0", endpoint=Endpoint.CHAT_COMPLETIONS, model_id="the-pin", body=members(body))


def test_a_row_is_one_line_with_our_key_and_the_pin() -> None:
    line = encoded(b'{"model":"gpt-4o-mini","messages":[],"max_tokens":5}')
    assert line == (
        b'{"custom_id":"token-12r0","method":"POST","url":"/v1/chat/completions",'
        b'"body":{"model":"the-pin","messages":[],"max_tokens":5}}\n'
    )


def test_number_text_and_unknown_members_are_sent_as_written() -> None:
    assert b'"temperature":0.10,"x_new":{"a":1e400}' in encoded(b'{"model":"m","temperature":0.10,"x_new":{"a":1e400}}')


def test_a_body_without_a_model_gets_the_pin() -> None:
    assert b'"body":{"a":1,"model":"the-pin"}' in encoded(b'{"a":1}')


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085"])
def test_separators_in_strings_are_escaped_and_mean_the_same(separator: str) -> None:
    line = encoded(f'{{"messages":[{{"content":"a{separator}b"}}]}}'.encode())
    assert separator.encode() not in line
    assert msgspec.json.decode(line)["body"]["messages"][0]["content"] == f"a{separator}b"


def test_white_space_between_tokens_does_not_end_the_line() -> None:
    line = encoded(b'{"messages":[\r\n{"content":"a"}\r]}')
    assert line.count(b"\n") == 1
    assert b"\r" not in line


def test_a_success_keeps_everything_but_the_provider_s_id() -> None:
    result = read_row(answered(200, COMPLETION))
    assert (result.row_key, result.row, result.outcome, result.status_code) == (KEY, 7, Outcome.SUCCEEDED, 200)
    assert body_of(result) == {**COMPLETION, "id": "chatcmpl-ours-7"}
    assert result.usage == TokenUsage(input_tokens=14, output_tokens=5)
    assert (result.code, result.healable, result.usage_problem) == (None, False, None)


def test_the_numbers_of_a_success_keep_their_text() -> None:
    line = answered(200, COMPLETION).replace(b'"created":1764400000', b'"created":1764400000,"x":1.10')
    assert b'"x":1.10' in (read_row(line).body or b"")


def test_a_refused_row_with_a_null_error_is_a_failure() -> None:
    result = read_row(refused(400, "context_length_exceeded", "Too long."))
    assert (result.outcome, result.code, result.healable) == (
        Outcome.FAILED,
        RowCode.CONTEXT_LENGTH_EXCEEDED,
        False,
    )
    assert result.status_code == 400
    assert body_of(result)["error"]["message"] == "Too long."


@pytest.mark.parametrize(
    ("code", "outcome", "ours", "healable"),
    [
        ("batch_expired", Outcome.EXPIRED, RowCode.BATCH_EXPIRED, True),
        ("batch_cancelled", Outcome.CANCELLED, RowCode.BATCH_CANCELLED, False),
        ("request_timeout", Outcome.FAILED, RowCode.PROVIDER_ERROR, True),
        ("invalid_request", Outcome.FAILED, RowCode.PROVIDER_ERROR, False),
        ("something_new", Outcome.FAILED, RowCode.PROVIDER_ERROR, True),
    ],
)
def test_a_row_that_never_ran(code: str, outcome: Outcome, ours: RowCode, healable: object) -> None:
    result = read_row(never_ran(code))
    assert (result.outcome, result.code, result.healable) == (outcome, ours, healable)
    assert (result.status_code, result.body, result.usage) == (None, None, TokenUsage())
    assert result.provider_code == code


@pytest.mark.parametrize("status_code", [0, None, "200", 200.0, True, 199, 302, 700])
def test_what_is_no_status_is_the_lane_s_failure(status_code: object) -> None:
    result = read_row(refused(status_code, None))
    assert (result.outcome, result.code, result.healable) == (Outcome.FAILED, RowCode.PROVIDER_ERROR, True)
    assert (result.status_code, result.body) == (None, None)


@pytest.mark.parametrize(
    "body",
    [
        {},
        None,
        [],
        "text",
        {"choices": []},
        {"choices": None},
        {"choices": [{"index": 0}]},
        {"choices": [{"message": None}]},
        {"data": []},
        {"output": [], "status": "failed"},
        {"error": {"message": "No."}},
    ],
    ids=str,
)
def test_a_success_status_without_a_completion_is_a_failure(body: object) -> None:
    result = read_row(answered(200, body))
    assert (result.outcome, result.code, result.healable) == (Outcome.FAILED, RowCode.PROVIDER_ERROR, True)
    assert (result.status_code, result.body) == (None, None)


def test_a_failure_that_the_provider_bills_keeps_its_usage() -> None:
    body = {"output": [], "status": "failed", "usage": {"input_tokens": 9, "output_tokens": 2}}
    assert read_row(answered(200, body)).usage == TokenUsage(input_tokens=9, output_tokens=2)


def test_a_responses_answer_is_a_success_under_our_id() -> None:
    body = {"id": "resp_1", "object": "response", "status": "completed", "output": [{"type": "message"}]}
    result = read_row(answered(200, {**body, "usage": {"input_tokens": 3, "output_tokens": 4}}))
    assert (result.outcome, body_of(result)["id"]) == (Outcome.SUCCEEDED, "resp_ours-7")
    assert result.usage == TokenUsage(input_tokens=3, output_tokens=4)


def test_embeddings_are_a_success_without_output_tokens() -> None:
    data = [{"object": "embedding", "index": 0, "embedding": [0.25]}]
    body = {"object": "list", "data": data, "model": "e", "usage": {"prompt_tokens": 8, "total_tokens": 8}}
    result = read_row(answered(200, body))
    assert (result.outcome, result.usage_problem) == (Outcome.SUCCEEDED, None)
    assert result.usage == TokenUsage(input_tokens=8)
    assert body_of(result) == body


def test_a_success_without_usage_is_delivered_and_flagged() -> None:
    result = read_row(answered(200, {key: value for key, value in COMPLETION.items() if key != "usage"}))
    assert (result.outcome, result.usage, result.usage_problem) == (
        Outcome.SUCCEEDED,
        TokenUsage(),
        UsageProblem.ABSENT,
    )


@pytest.mark.parametrize("status_code", [401, 402, 403, 404, 408, 409, 429, 500, 503])
def test_a_status_of_the_lane_can_be_healed_elsewhere(status_code: int) -> None:
    assert read_row(refused(status_code, None)).healable


@pytest.mark.parametrize("status_code", [400, 413, 422])
def test_a_status_of_the_row_cannot_be_healed(status_code: int) -> None:
    assert not read_row(refused(status_code, "invalid_value")).healable


def test_ids_and_keys_are_taken_out_of_a_refusal() -> None:
    message = "Organization org-Ab12Cd34Ef on request req_0123456789 with key sk-proj-abcdef is over; keep file-name."
    said = body_of(read_row(refused(429, "rate_limit_exceeded", message)))["error"]["message"]
    assert said == "Organization [id] on request [id] with key [id] is over; keep file-name."


def test_a_key_of_another_job_is_foreign() -> None:
    assert read(answered(200, COMPLETION, custom_id="another-token-r7")) == ForeignLine(row_key="another-token-r7")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b'{"custom_id": "0123', LineProblem.NOT_JSON),
        (b"<html>", LineProblem.NOT_JSON),
        (b"[]", LineProblem.NOT_JSON),
        (answered(200, COMPLETION) + b" {}", LineProblem.NOT_JSON),
        (b'{"x":' + b"[" * 50_000 + b"]" * 50_000 + b"}", LineProblem.NOT_JSON),
        (b'{"custom_id":"\xff"}', LineProblem.NOT_UTF8),
        (b'{"response":null}', LineProblem.NO_KEY),
        (b'{"custom_id":7,"response":null}', LineProblem.NO_KEY),
    ],
    ids=["cut", "page", "array", "two", "deep", "utf8", "keyless", "number"],
)
def test_a_line_that_cannot_be_read_is_told_with_its_place(text: bytes, problem: LineProblem) -> None:
    assert read(text) == BrokenLine(result_ref="file-1", line=3, size_bytes=len(text), problem=problem)


@pytest.mark.parametrize("response", ["text", 7, [], True], ids=str)
def test_a_response_of_another_shape_is_a_failed_row(response: object) -> None:
    result = read_row(msgspec.json.encode({"custom_id": KEY, "response": response}))
    assert (result.outcome, result.healable) == (Outcome.FAILED, True)


def test_a_separator_inside_an_answer_stays_on_its_line() -> None:
    text = answered(200, {**COMPLETION, "choices": [{"message": {"content": "a\u2028b"}}]})
    result = read_row(text)
    assert len((result.body or b"").decode().splitlines()) == 1
    assert body_of(result)["choices"][0]["message"]["content"] == "a\u2028b"


def test_row_keys_lead_back_to_their_row() -> None:
    longest = "x" * 48
    assert row_of_key(longest, make_row_key(longest, 10**12 - 1)) == 10**12 - 1
    assert len(make_row_key(longest, 10**12 - 1)) <= 64


@pytest.mark.parametrize(
    "row_key",
    [
        "",
        TOKEN,
        f"{TOKEN}r",
        f"{TOKEN}r-1",
        f"{TOKEN}r07",
        f"{TOKEN}r1x",
        f"{TOKEN}r\u0661",
        f"x{TOKEN}r1",
        f"{TOKEN}1",
    ],
)
def test_every_other_key_leads_nowhere(row_key: str) -> None:
    assert row_of_key(TOKEN, row_key) is None
