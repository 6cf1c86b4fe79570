"""Result lines as OpenAI writes them, put together by hand."""

from __future__ import annotations

from typing import Any

import msgspec

from routing.providers.base import ResultItem, RowResult
from routing.providers.openai.chat_lines import ChatLineReader, OtherLine
from routing.providers.openai.wire import read_line
from tests.harness.answers import one_by_one

TOKEN = "0123456789abcdef"
KEY = f"{TOKEN}r7"
COMPLETION: dict[str, Any] = {
    "id": "chatcmpl-8a",
    "object": "chat.completion",
    "created": 1_764_400_000,
    "model": "gpt-x-2026-05-01",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "The Ebro."}, "finish_reason": "stop"},
    ],
    "usage": {
        "prompt_tokens": 14,
        "completion_tokens": 5,
        "total_tokens": 19,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    },
}


def answered(status_code: object, body: object, **line: object) -> bytes:
    response = {"status_code": status_code, "request_id": "5f0c9e", "body": body}
    return msgspec.json.encode(
        {"id": "batch_req_5f01", "custom_id": KEY, "response": response, "error": None, **line},
    )


def refused(status_code: object, code: str | None, message: str = "No.", error_type: str | None = None) -> bytes:
    return answered(
        status_code,
        {"error": {"message": message, "type": error_type or "invalid_request_error", "param": None, "code": code}},
    )


def never_ran(code: str) -> bytes:
    error = {"code": code, "message": "Not executed."}
    return msgspec.json.encode({"id": "batch_req_5f03", "custom_id": KEY, "response": None, "error": error})


def read(text: bytes) -> ResultItem:
    """What the exact way makes of a line; where the short way takes it too, both say the same."""
    exact = read_line(text, token=TOKEN, answer_prefix="ours-", result_ref="file-1", line=3)
    (short,) = ChatLineReader(token=TOKEN, answer_prefix="ours-").read(text + b"\n")
    if isinstance(short, OtherLine):
        return exact
    for item in one_by_one([short], token=TOKEN):
        assert isinstance(item, RowResult)
        assert isinstance(exact, RowResult)
        assert msgspec.structs.replace(item, body=None) == msgspec.structs.replace(exact, body=None)
        assert body_of(item) == body_of(exact)
        return item
    raise AssertionError("a row was read")


def read_row(text: bytes) -> RowResult:
    item = read(text)
    assert isinstance(item, RowResult)
    return item


def body_of(result: RowResult) -> dict[str, Any]:
    body: dict[str, Any] = msgspec.json.decode(result.body or b"null")
    return body
