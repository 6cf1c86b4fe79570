"""Result lines of Anthropic and of Bedrock, good and odd."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from catalog.domain.records import Endpoint
from routing.domain.parameters.lanes import Family
from routing.providers.anthropic import wire as anthropic_wire
from routing.providers.anthropic.requests import RequestMaker
from routing.providers.base import BrokenLine, ForeignLine, LineProblem, Outcome, RowCode, RowResult, TokenUsage
from routing.providers.bedrock import wire as bedrock_wire
from tests.routing.providers.chat_rows import row
from tests.routing.providers.claude_by_hand import (
    KEY,
    MESSAGE,
    answered,
    body_of,
    errored,
    line,
    message,
    read,
    read_record,
    read_row,
)

SECRET = "Your prompt on account org-a1b2c3d4e5 is bad."


def encoded(module: Any, family: Family, **parameters: Any) -> bytes:
    text: bytes = module.encode_row(
        RequestMaker(family),
        row_key=KEY,
        endpoint=Endpoint.CHAT_COMPLETIONS,
        model_id="claude-3-5-haiku-20241022",
        body=row(max_tokens=9, **parameters),
        max_output_tokens=None,
    )
    return text


def test_a_request_for_anthropic_names_key_and_model() -> None:
    text = encoded(anthropic_wire, Family.ANTHROPIC)
    made = msgspec.json.decode(text)
    assert (made["custom_id"], made["params"]["model"]) == (KEY, "claude-3-5-haiku-20241022")
    assert text.endswith(b"}\n")


def test_a_record_for_bedrock_names_the_version_and_no_model() -> None:
    made = msgspec.json.decode(encoded(bedrock_wire, Family.BEDROCK_CLAUDE))
    assert made["recordId"] == KEY
    assert made["modelInput"]["anthropic_version"] == "bedrock-2023-05-31"
    assert "model" not in made["modelInput"]


@pytest.mark.parametrize(
    ("text", "outcome", "code", "healable", "status_code"),
    [
        (errored("invalid_request_error"), Outcome.FAILED, RowCode.PROVIDER_ERROR, False, 400),
        (errored("request_too_large"), Outcome.FAILED, RowCode.PROVIDER_ERROR, False, 413),
        (errored("not_found_error"), Outcome.FAILED, RowCode.MODEL_GONE, True, 404),
        (errored("permission_error"), Outcome.FAILED, RowCode.PROVIDER_ERROR, True, 403),
        (errored("billing_error"), Outcome.FAILED, RowCode.PROVIDER_ERROR, True, 402),
        (errored("rate_limit_error"), Outcome.FAILED, RowCode.PROVIDER_ERROR, True, 429),
        (errored("api_error"), Outcome.FAILED, RowCode.PROVIDER_ERROR, True, 500),
        (errored("overloaded_error"), Outcome.FAILED, RowCode.PROVIDER_ERROR, True, 529),
        (errored("of_tomorrow"), Outcome.FAILED, RowCode.PROVIDER_ERROR, True, None),
        (
            errored("invalid_request_error", "prompt is too long: 200001 tokens > 200000 maximum"),
            Outcome.FAILED,
            RowCode.CONTEXT_LENGTH_EXCEEDED,
            False,
            400,
        ),
        (
            errored("invalid_request_error", "Output blocked by content filtering policy"),
            Outcome.FAILED,
            RowCode.CONTENT_FILTERED,
            False,
            400,
        ),
        (line({"type": "expired"}), Outcome.EXPIRED, RowCode.BATCH_EXPIRED, True, None),
        (line({"type": "canceled"}), Outcome.CANCELLED, RowCode.BATCH_CANCELLED, False, None),
        (line({"type": "of_tomorrow"}), Outcome.FAILED, RowCode.PROVIDER_ERROR, True, None),
        (line({"type": "succeeded", "message": None}), Outcome.FAILED, RowCode.PROVIDER_ERROR, True, None),
        (line({"type": "errored", "error": None}), Outcome.FAILED, RowCode.PROVIDER_ERROR, True, None),
        (line(None), Outcome.FAILED, RowCode.PROVIDER_ERROR, True, None),
    ],
)
def test_a_row_that_did_not_succeed_says_what_it_means(
    text: bytes, outcome: Outcome, code: RowCode, healable: object, status_code: int | None
) -> None:
    result = read_row(text)
    assert (result.outcome, result.code, result.healable) == (outcome, code, healable)
    assert (result.status_code, result.usage) == (status_code, TokenUsage())


def test_an_error_keeps_its_words_and_loses_the_provider_s_ids() -> None:
    result = read_row(errored("invalid_request_error", SECRET, details={"error_code": "bad_prompt"}))
    assert body_of(result)["error"] == {
        "message": "Your prompt on account [id] is bad.",
        "type": "invalid_request_error",
        "param": None,
        "code": "bad_prompt",
    }
    assert result.provider_code == "bad_prompt"
    assert b"req_" not in (result.body or b"")


def test_an_error_nested_once_is_read_too() -> None:
    result = read_row(line({"type": "errored", "error": {"type": "api_error", "message": "x"}}))
    assert result.status_code == 500


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"{", LineProblem.NOT_JSON),
        (b"[]", LineProblem.NOT_JSON),
        (b"\xff", LineProblem.NOT_UTF8),
        (b"{}", LineProblem.NO_KEY),
        (line({}, key=5), LineProblem.NO_KEY),
    ],
)
def test_a_line_that_cannot_be_read_is_counted_and_not_kept(text: bytes, problem: LineProblem) -> None:
    broken = BrokenLine(result_ref="msgbatch_1", line=3, size_bytes=len(text), problem=problem)
    assert read(text) == broken


@pytest.mark.parametrize("result", [{"type": "succeeded", "message": MESSAGE}, {"type": "expired"}], ids=str)
def test_a_key_of_another_job_is_foreign(result: dict[str, Any]) -> None:
    assert read(line(result, key="x" * 300)) == ForeignLine(row_key="x" * 200)
    record = {"modelInput": {}, "recordId": "x" * 300, "error": {"errorCode": 400}}
    assert read_record(record) == ForeignLine(row_key="x" * 200)


def test_a_separator_in_a_text_is_escaped() -> None:
    body = read_row(answered(content=[{"type": "text", "text": "a\u2028b"}])).body or b""
    assert len(body.decode().splitlines()) == 1


def test_a_raw_record_is_a_completion() -> None:
    output = {
        "content": [{"type": "text", "text": "Po"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 11, "output_tokens": 2},
    }
    result = read_record({"recordId": KEY, "modelInput": {}, "modelOutput": output})
    assert isinstance(result, RowResult)
    assert result.usage == TokenUsage(input_tokens=11, output_tokens=2)
    assert body_of(result)["choices"][0]["message"]["content"] == "Po"


@pytest.mark.parametrize(
    ("error", "code", "healable", "status_code"),
    [
        ({"errorCode": 400, "errorMessage": "bad request"}, RowCode.PROVIDER_ERROR, False, 400),
        ({"errorCode": 400, "errorMessage": "prompt is too long: 9"}, RowCode.CONTEXT_LENGTH_EXCEEDED, False, 400),
        ({"errorCode": 408, "errorMessage": "timed out"}, RowCode.PROVIDER_ERROR, True, 408),
        ({"errorCode": 424}, RowCode.PROVIDER_ERROR, True, 424),
        ({"errorCode": 429}, RowCode.PROVIDER_ERROR, True, 429),
        ({"errorCode": 500}, RowCode.PROVIDER_ERROR, True, 500),
        ({"errorCode": "x"}, RowCode.PROVIDER_ERROR, True, None),
        (None, RowCode.PROVIDER_ERROR, True, None),
    ],
    ids=str,
)
def test_a_record_with_an_error_says_what_it_means(
    error: object, code: RowCode, healable: object, status_code: int | None
) -> None:
    result = read_record({"recordId": KEY, "modelInput": {"x": 1}, "error": error})
    assert isinstance(result, RowResult)
    assert (result.code, result.healable, result.status_code) == (code, healable, status_code)


@pytest.mark.parametrize("record", [b"{", b"\xff", b"{}"])
def test_a_record_that_cannot_be_read_is_counted(record: bytes) -> None:
    assert isinstance(read_record(record), BrokenLine)


def test_an_output_that_is_no_message_is_the_lane_s_failure() -> None:
    result = read_record({"recordId": KEY, "modelInput": {}, "modelOutput": message(content="text")})
    assert isinstance(result, RowResult)
    assert (result.outcome, result.healable) == (Outcome.FAILED, True)
