"""A long file gets the answer that the same bytes get in one body, to the last digit, however it is cut."""

from __future__ import annotations

import random
from dataclasses import asdict
from typing import Any

import orjson
import pytest

from ground.errors import InvalidRequest, RowErrors
from routing.domain.jsonl import exact
from routing.domain.jsonl.pieces import Piece, cut_pieces
from routing.domain.jsonl.table import FileLimits
from routing.domain.long_files import LongFile, make_long_quote_plan
from routing.domain.offering import Pricing, QuoteSettings
from routing.domain.quoting import make_quote_plan
from routing.domain.scoring import WorkflowProfile
from tests.routing.domain.sample import (
    AT,
    BEDROCK,
    DIRECT,
    EMBEDDER,
    GPT_4O,
    GPT_4O_MINI,
    HAIKU,
    SONNET_SLUG,
    card,
    catalog,
    jsonl,
    lane,
    model,
    row,
)

BLANKS = b" \t\r"
# Small lanes, so that a few rows fan out; and Claude's, which look at what every row asks.
SONNET = model(
    SONNET_SLUG,
    lane("anthropic-direct", SONNET_SLUG, card(1_500_000, 7_500_000), enqueued_tokens_limit=60),
    lane("anthropic-bedrock-us-east-1", SONNET_SLUG, card(1_500_000, 7_500_000)),
)
SMALL = catalog(
    *(GPT_4O, GPT_4O_MINI, HAIKU, SONNET, EMBEDDER),
    health={(SONNET_SLUG, "anthropic-direct"): DIRECT, (SONNET_SLUG, "anthropic-bedrock-us-east-1"): BEDROCK},
)
SETTINGS = QuoteSettings(limits=FileLimits(maximum_rows=24, maximum_row_bytes=600))
PRICING = Pricing(catalog=SMALL, workflow=WorkflowProfile(), settings=SETTINGS, at=AT)


def blocks_of(body: bytes, block_bytes: int) -> list[bytes]:
    return [body[start : start + block_bytes] for start in range(0, len(body), block_bytes)]


def long_file(body: bytes, block_bytes: int) -> LongFile:
    return LongFile(
        blocks=lambda: blocks_of(body, block_bytes),
        read=lambda offset, size: body[offset : offset + size],
    )


def said_of(error: InvalidRequest) -> Any:
    listed = [error.errors, error.error_count, error.duplicates] if isinstance(error, RowErrors) else []
    return [error.code, error.message, error.param, error.extra, *listed]


def direct_answer(body: bytes) -> Any:
    try:
        plan = make_quote_plan(body, SMALL, WorkflowProfile(), SETTINGS, AT)
    except InvalidRequest as error:
        return said_of(error)
    return {**asdict(plan), "placement": plan.placement.pack()}


def long_answer(body: bytes, block_bytes: int) -> Any:
    try:
        plan = make_long_quote_plan(long_file(body, block_bytes), PRICING)
    except InvalidRequest as error:
        return said_of(error)
    return {**asdict(plan), "placement": plan.placement.pack()}


def a_row(chance: random.Random, number: int) -> dict[str, Any]:
    body: dict[str, Any] = {"model": chance.choice(["gpt-4o", "gpt-4o-2024-08-06", "gpt-4o-mini", SONNET_SLUG])}
    if chance.random() < 0.3:
        body["messages"] = [{"role": "user", "content": chance.choice(["Où?", '"\\\n', "多瑙河", "x" * 90, "\u2028"])}]
    if chance.random() < 0.2:
        body["temperature"] = chance.choice([0, 0.5, 1.5])
    if chance.random() < 0.2:
        body["max_tokens"] = chance.choice([None, 1, 900])
    if chance.random() < 0.1:
        body["tools"] = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    return row(f"id {number}", **body)


def a_line(chance: random.Random, number: int) -> bytes:
    return orjson.dumps(a_row(chance, number)) + chance.choice([b"\n", b"\n", b"\r\n", b"\n\n", b"\n \t\n"])


ODD_LINES = [
    b"\xef\xbb\xbf" + orjson.dumps(row("after a mark")) + b"\n",
    b"\xef\xbb\xbf\n",
    b" " * 700 + b"\n",
    b" " * 700 + b"\r\n",
    orjson.dumps(row("much", messages=[{"role": "user", "content": "x" * 1_000}])) + b"\r\n",
    b"\xef\xbb\xbf" + b"y" * 600 + b"\n",
    b"y" * 602 + b"\r\n",
    b"y" * 2_000 + b"\n",
    orjson.dumps(row("id 1")) + b"\n",
    orjson.dumps(row("id 0", model="gpt-9")) + b"\n",
    orjson.dumps(row("e", url="/v1/embeddings", model=EMBEDDER.slug, input="a")) + b"\n",
    orjson.dumps(row("t", model=SONNET_SLUG, logit_bias={"1": 2})) + b"\n",
    b'{"custom_id": "\xff"}\n',
    b'{"custom_id": "id 2", "custom_id": "id 3"}\n',
    b"[]\n",
    b"{\n",
]


def a_file(chance: random.Random) -> bytes:
    lines = [a_line(chance, number) for number in range(chance.choice([0, 1, 3, 9, 9, 9, 25]))]
    for _ in range(chance.choice([0, 0, 0, 1, 1, 2, 4])):
        lines.insert(chance.randrange(len(lines) + 1), chance.choice(ODD_LINES))
    if chance.random() < 0.1:
        lines.insert(0, b"\xef\xbb\xbf")
    body = b"".join(lines)
    return body.rstrip(b"\r\n") if chance.random() < 0.3 else body


def test_generated_files_get_the_same_answer_on_both_paths() -> None:
    chance = random.Random(20_261_130)
    priced_count = 0
    for number in range(90):
        body = a_file(chance)
        direct = direct_answer(body)
        priced_count += isinstance(direct, dict)
        block_bytes = (chance.randint(1, 40), chance.randint(100, 900), 1_000_000)[number % 3]
        assert long_answer(body, block_bytes) == direct, (block_bytes, body)
    assert 20 < priced_count < 70


def test_embeddings_get_the_same_answer_on_both_paths() -> None:
    slug = EMBEDDER.slug
    body = jsonl(*(row(str(n), url="/v1/embeddings", model=slug, input=["a" * n, "b"]) for n in range(1, 9)))
    assert isinstance(direct_answer(body), dict)
    assert long_answer(body, 100) == direct_answer(body)


@pytest.mark.parametrize("block_bytes", [1, 7, 64, 4_096])
def test_pieces_are_the_file_with_its_numbers(block_bytes: int) -> None:
    body = b"\xef\xbb\xbfone\n\n\xef\xbb\xbftwo\r\n" + b"z" * 50 + b"\nlast"
    pieces = list(cut_pieces(blocks_of(body, block_bytes), maximum_row_bytes=20))
    lines = [found for piece in pieces for found in piece.rows()]
    overlong = (4, b"", 50) if block_bytes < 4_096 else (4, b"z" * 50, 50)
    assert lines == [(1, b"one", 3), (3, b"\xef\xbb\xbftwo", 6), overlong, (5, b"last", 4)]
    for piece in pieces:
        assert body[piece.offset : piece.offset + len(piece.text)] == piece.text


def test_a_file_of_repeated_ids_names_each_with_all_its_lines_and_counts_the_rest() -> None:
    body = jsonl(*(row(str(number % 1_500)) for number in range(3_100)))
    limits = FileLimits(maximum_rows=5_000)
    with pytest.raises(RowErrors) as caught:
        exact.report_long_file(
            lambda: [Piece(text=body, offset=0, first_line=1)], limits, lambda _name, _endpoint: None
        )
    error = caught.value
    # 1,500 ids twice, and 100 of these a third time
    assert (error.error_count, error.extra["duplicate_id_count"]) == (1_600, 1_500)
    assert [each.custom_id for each in error.duplicates] == [str(number) for number in range(1_000)]
    assert error.duplicates[99].count == 3
    assert error.duplicates[99].rows == (99, 1_599, 3_099)
    assert error.duplicates[100].lines == (101, 1_601)
    assert error.errors[0].message == "This custom_id already stands on line 1."
