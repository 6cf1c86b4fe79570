"""Messages and result lines as Claude's sellers write them, put together by hand."""

from __future__ import annotations

from typing import Any

import msgspec

from routing.providers.anthropic import wire as anthropic_wire
from routing.providers.base import ResultItem, RowResult
from routing.providers.bedrock import wire as bedrock_wire

TOKEN = "0123456789abcdef"
KEY = f"{TOKEN}r7"
AT_SECONDS = 1_795_000_000
USAGE = {"input_tokens": 14, "output_tokens": 8}
MESSAGE: dict[str, Any] = {
    "id": "msg_01",
    "type": "message",
    "role": "assistant",
    "model": "claude-haiku-4-5-20251001",
    "content": [{"type": "text", "text": "The Ebro."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": USAGE,
}


def message(**changes: Any) -> dict[str, Any]:
    return {**MESSAGE, **changes}


def line(result: Any, key: Any = KEY) -> bytes:
    return msgspec.json.encode({"custom_id": key, "result": result})


def answered(**changes: Any) -> bytes:
    return line({"type": "succeeded", "message": message(**changes)})


def errored(error_type: str, sentence: str = "No.", **members: Any) -> bytes:
    inner = {"type": error_type, "message": sentence, **members}
    return line({"type": "errored", "error": {"type": "error", "error": inner, "request_id": "req_0a1b2c3d"}})


def read(text: bytes) -> ResultItem:
    return anthropic_wire.read_line(
        text, token=TOKEN, answer_prefix="ours-", result_ref="msgbatch_1", line=3, created_at_seconds=AT_SECONDS
    )


def read_row(text: bytes) -> RowResult:
    item = read(text)
    assert isinstance(item, RowResult)
    return item


def read_record(record: Any) -> ResultItem:
    text = record if isinstance(record, bytes) else msgspec.json.encode(record)
    return bedrock_wire.read_line(
        text, token=TOKEN, answer_prefix="ours-", result_ref="s3://b/k", line=3, created_at_seconds=AT_SECONDS
    )


def body_of(result: RowResult) -> dict[str, Any]:
    body: dict[str, Any] = msgspec.json.decode(result.body or b"null")
    return body
