"""Files to price: rows like those customers send, the same in every run."""

from __future__ import annotations

import random
from typing import Any

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


_MODELS = ("gpt-4o", "gpt-4o-mini", "claude-3-5-haiku", "anthropic.claude-3-5-sonnet")
_PHRASES = (
    "The courier left the parcel with a neighbour, who was away until Monday.",
    'She asked: "Is the manual for model B-12 still in print?"\n',
    "| item | count |\n| --- | --- |\n| battery | 4 |\n",
    "Le café ferme à dix-huit heures ; revenez demain.",
    "if total > limit:\n\traise ValueError('over the limit')\n",
    "Die Lieferung verzögert sich um zwei Tage; bitte prüfen Sie die Straße.",
    "price: 12.50 €, tax 19 %, due 2026-03-31, order #48151623",
    "C:\\reports\\march\\summary.txt holds the figures.",
    "お問い合わせありがとうございます。",
    "Refunds over 200 need a second signature, whoever asks for them.",
)
_TOOL = {
    "type": "function",
    "function": {
        "name": "find_order",
        "description": "Find an order by its number.",
        "parameters": {"type": "object", "properties": {"number": {"type": "string", "description": "The number."}}},
    },
}
_SCHEMA = {"name": "answer", "schema": {"type": "object", "properties": {"label": {"enum": ["good", "bad"]}}}}
_IMAGE = {"type": "image_url", "image_url": {"url": "https://images.example.com/a.png", "detail": "low"}}


def lively_rows(row_count: int, *, bytes_per_row: int, endpoint: str = "/v1/chat/completions") -> bytes:
    """Give rows with escapes, several languages, system prompts, and some tools, schemas and images."""
    source = random.Random(row_count)
    system = "You answer letters to a mail-order house.\n" + " ".join(source.choices(_PHRASES, k=3))
    made = []
    for number in range(row_count):
        text = " ".join(source.choices(_PHRASES, k=max(1, (bytes_per_row - 560) // 62)))
        body: dict[str, Any] = {"model": _MODELS[number % len(_MODELS)]}
        if endpoint == "/v1/responses":
            body |= {"model": "gpt-4o-mini", "instructions": system, "input": text, "max_output_tokens": 300}
        elif endpoint == "/v1/embeddings":
            body |= {"model": "text-embedding-3-small", "input": text}
        else:
            content: Any = [{"type": "text", "text": text}, _IMAGE] if number % 40 == 0 else text
            body["messages"] = [{"role": "system", "content": system}, {"role": "user", "content": content}]
            body |= {"max_tokens": source.choice((100, 300, 500)), "temperature": 0.2}
            body |= {"tools": [_TOOL]} if number % 20 == 1 else {}
            body |= {"response_format": {"type": "json_schema", "json_schema": _SCHEMA}} if number % 25 == 1 else {}
        made.append({"custom_id": f"request-{number:06d}", "method": "POST", "url": endpoint, "body": body})
    return b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in made)
