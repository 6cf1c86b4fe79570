"""Files to price: rows like those customers send, the same in every run."""

from __future__ import annotations

import random

import orjson

_WORDS = (
    *("order", "parcel", "invoice", "refund", "account", "delivery", "window", "colour", "battery", "manual"),
    *("replacement", "receipt", "address", "courier", "colleague", "schedule", "meeting", "contract", "clause"),
    *("summary", "review", "paragraph", "table", "figure", "estimate", "rate", "request", "answer"),
)


def mixed_rows(row_count: int, *, bytes_per_row: int) -> bytes:
    """Give a JSONL file over two models, about ``bytes_per_row`` a row."""
    random_words = random.Random(row_count)
    lines = []
    for number in range(row_count):
        text = " ".join(random_words.choices(_WORDS, k=max(1, (bytes_per_row - 330) // 8)))
        lines.append(
            orjson.dumps(
                {
                    "custom_id": f"request-{number:06d}",
                    "method": "POST",
                    "url": "/v1/chat/completions",
                    "body": {
                        "model": ("gpt-4o", "gpt-4o-mini")[number % 2],
                        "messages": [
                            {"role": "system", "content": "Answer in one paragraph, plainly, without a greeting."},
                            {"role": "user", "content": text},
                        ],
                        "max_tokens": 200,
                        "temperature": 0.2,
                    },
                },
                option=orjson.OPT_APPEND_NEWLINE,
            )
        )
    return b"".join(lines)
