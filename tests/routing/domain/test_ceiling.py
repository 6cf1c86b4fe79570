"""What a batch can cost never passes the ceiling it was quoted, whatever the rows leave open."""

from __future__ import annotations

import random
from collections import defaultdict
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

import orjson

from routing.domain.offering import QuoteSettings
from routing.domain.quoting import make_quote_plan
from routing.domain.scoring import WorkflowProfile
from simulators.tokenizer import count_text
from tests.routing.domain.sample import AT, HOUSE, SONNET_SLUG, jsonl, row

FEE_MICRO_USD = 20_000
MAX_OUTPUT_TOKENS = 16_384
# input and output, micro-USD per million tokens, as the sample's catalog sells them
RATES = {
    "gpt-4o": (1_250_000, 5_000_000),
    "gpt-4o-mini": (75_000, 300_000),
    "claude-3-5-haiku": (400_000, 2_000_000),
    SONNET_SLUG: (1_500_000, 7_500_000),
}
# The most a provider's hidden words before tools, or before a schema that is a tool, may take at Anthropic.
CLAUDE_PREAMBLE_TOKENS = 530
# gpt-4o: 85 and 170 a tile of 512 pixels, at most 2 x 4 tiles once the short side is 768 and the long one 2,048;
# gpt-4o-mini: 2,833 and 5,667; Claude: at most 1,600 an image, since it is scaled down.
MOST_IMAGE_TOKENS = {"gpt-4o": 85 + 8 * 170, "gpt-4o-mini": 2_833 + 8 * 5_667, "claude": 1_600}
TEXTS = (
    "Name one river.",
    "Où coule la rivière ?",
    "多瑙河流经哪些国家?",
    "x" * 400,
    "🙂🙃" * 9,
    '{"a": [1, 2]}',
    "\n\t\\",
)


def random_row(chance: random.Random, number: int) -> dict[str, Any]:
    """A row that leaves open what a customer may leave open, with a tool, a schema or an image now and then."""
    slug = chance.choice(list(RATES))
    body: dict[str, Any] = {"model": slug}
    turns: list[dict[str, Any]] = [
        {"role": "user", "content": chance.choice(TEXTS) * chance.randint(1, 4)} for _ in range(chance.randint(1, 3))
    ]
    if chance.random() < 0.3:
        turns[-1]["content"] = [
            {"type": "text", "text": chance.choice(TEXTS)},
            {"type": "image_url", "image_url": {"url": "https://images.example.com/river.png"}},
        ]
    if chance.random() < 0.3:
        parameters = {"type": "object", "properties": {"river": {"type": "string", "enum": ["Rhine", "Po"]}}}
        function = {"name": "look_up", "description": chance.choice(TEXTS), "parameters": parameters}
        body["tools"] = [{"type": "function", "function": function}]
    elif chance.random() < 0.3:
        schema = {"name": "answer", "schema": {"type": "object", "properties": {"river": {"type": "string"}}}}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    if slug.startswith("gpt") and chance.random() < 0.3:
        body["n"] = chance.randint(1, 4)
    written = row(f"r{number}", **body, messages=turns)
    if chance.random() < 0.5:
        written["body"].pop("max_tokens")
    return written


def settled_tokens(body: dict[str, Any], chance: random.Random) -> tuple[int, int]:
    """Give what a provider may bill for a row, input and output.

    Text by a real tokenizer, at Claude up to a token a byte, for its own is not public; the output up to its limit.
    """
    is_claude = not body["model"].startswith("gpt")
    given_too = [body.get("tools"), body.get("response_format", {}).get("json_schema")]
    texts, image_count = [orjson.dumps(value).decode() for value in given_too if value], 0
    has_preamble = is_claude and bool(texts)
    for turn in body["messages"]:
        parts = [{"type": "text", "text": turn["content"]}] if isinstance(turn["content"], str) else turn["content"]
        texts += [part["text"] for part in parts if part["type"] == "text"]
        image_count += sum(part["type"] == "image_url" for part in parts)
    given = sum(count_text("o200k_base", text) for text in texts)
    if is_claude:
        given = chance.randint(given, max(given, sum(len(text.encode()) for text in texts)))
    given += CLAUDE_PREAMBLE_TOKENS * has_preamble + 3 * len(body["messages"]) + 3
    given += image_count * MOST_IMAGE_TOKENS["claude" if is_claude else body["model"]]
    limit = min(body.get("max_tokens", MAX_OUTPUT_TOKENS), MAX_OUTPUT_TOKENS)
    return given, chance.choice([limit, limit, chance.randint(0, limit)]) * body.get("n", 1)


def line_micro_usd(tokens: int, rate: int) -> int:
    return int((Decimal(tokens * rate) / 1_000_000).quantize(Decimal(1), ROUND_HALF_EVEN))


def overruns(batch_count: int) -> list[tuple[int, int, int]]:
    """Give seed, charge and bound of every batch that would be charged more than its ceiling less its fees."""
    found = []
    for seed in range(batch_count):
        chance = random.Random(seed)
        rows = [random_row(chance, number) for number in range(chance.randint(1, 4))]
        plan = make_quote_plan(jsonl(*rows), HOUSE, WorkflowProfile(), QuoteSettings(), AT)
        settled: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for each in rows:
            given, made = settled_tokens(each["body"], chance)
            settled[each["body"]["model"]][0] += given
            settled[each["body"]["model"]][1] += made
        charge = sum(
            line_micro_usd(tokens, rate)
            for slug, counts in settled.items()
            for tokens, rate in zip(counts, RATES[slug], strict=True)
        )
        bound = plan.estimate.ceiling_micro_usd - FEE_MICRO_USD * len(plan.lanes)
        if charge > bound:
            found.append((seed, charge, bound))
    return found


def test_no_batch_is_charged_above_its_ceiling() -> None:
    assert overruns(10_000) == []
