"""The file of these tests: two models on two lanes, and rows that their lane fails, so that they move to a third."""

from __future__ import annotations

import json
from typing import Any

OPENAI_ROWS = 120
CLAUDE_ROWS = 130
# A lane of Bedrock takes no job of fewer than 100 rows.
MOVING_ROWS = 110
ROW_COUNT = OPENAI_ROWS + CLAUDE_ROWS
# What the stand-in of Claude's own lane fails.
FLAKY_TEXT = "This is urgent."
FLAKY_FAULT: dict[str, Any] = {"kind": "row_error", "contains": FLAKY_TEXT, "status_code": 529}
LANES = {"openai-direct", "anthropic-direct", "anthropic-bedrock-us-east-1"}


def _body(number: int) -> dict[str, object]:
    claude = number // 2 if number < 2 * OPENAI_ROWS and number % 2 else number - OPENAI_ROWS
    if number < 2 * OPENAI_ROWS and number % 2 == 0:
        model, text = "gpt-4o-mini", "[[sim:fail]]" if number % 34 == 10 else f"Which river is number {number}?"
    else:
        model = "anthropic.claude-3-5-sonnet"
        text = f"Name river {number}. {FLAKY_TEXT if claude < MOVING_ROWS else ''}"
    return {"model": model, "messages": [{"role": "user", "content": text}], "max_tokens": 16}


FILE = b"".join(
    json.dumps(
        {"custom_id": f"row-{number}", "method": "POST", "url": "/v1/chat/completions", "body": _body(number)}
    ).encode()
    + b"\n"
    for number in range(ROW_COUNT)
)
