"""Tokens without a tokenizer: formulas worked out by hand, and the packaged weights near exact counts."""

from __future__ import annotations

import base64
import struct
from typing import Any

import numpy as np
import orjson
import pytest

from routing.domain.estimate.images import (
    ImagePart,
    ceiling_image_tokens,
    data_uri_size_px,
    estimated_image_tokens,
    image_rule,
)
from routing.domain.estimate.tables import TABLE_ORDER, TABLE_PATH, WEIGHT_SCALE, vocabulary_named
from routing.domain.estimate.tokens import ModelRules, RowExtras, RowFacts, Weighed, estimate_rows
from routing.domain.estimate.tools import tool_cost
from routing.domain.estimate.weights import RowLiterals, RowTexts, prepare_texts, weigh_rows


def sized(width_px: int, height_px: int, *, low: bool = False) -> ImagePart:
    return ImagePart(is_low_detail=low, width_px=width_px, height_px=height_px)


@pytest.mark.parametrize(
    ("slug", "image", "tokens"),
    [
        # 768 x 768 after scaling: 2 x 2 tiles
        ("gpt-4o", sized(1_024, 1_024), 85 + 4 * 170),
        # 2,048 x 4,096 -> 1,024 x 2,048 -> 768 x 1,536: 2 x 3 tiles
        ("gpt-4o", sized(2_048, 4_096), 85 + 6 * 170),
        ("gpt-4o", sized(512, 512), 85 + 170),
        ("gpt-4o", sized(4_096, 8_192, low=True), 85),
        ("gpt-4o-mini", sized(1_024, 1_024), 2_833 + 4 * 5_667),
        ("gpt-4o-mini", sized(1, 1, low=True), 2_833),
        # 32 x 32 patches = 1,024; x 1.62 = 1,658.88
        ("gpt-4.1-mini", sized(1_024, 1_024), 1_659),
        # 1,000 x 1,000 / 750 = 1,333.3, and no more than 1,600
        ("claude-3-5-haiku", sized(1_000, 1_000), 1_334),
        ("anthropic.claude-3-5-sonnet", sized(4_000, 4_000), 1_600),
        ("another-model", sized(512, 512), 255),
    ],
)
def test_images_count_by_their_size(slug: str, image: ImagePart, tokens: int) -> None:
    assert estimated_image_tokens(image, image_rule(slug)) == tokens
    assert ceiling_image_tokens(image, image_rule(slug)) == tokens


@pytest.mark.parametrize(
    ("slug", "estimate", "ceiling"),
    [("gpt-4o", 765, 85 + 8 * 170), ("gpt-4.1-mini", 1_659, 2_489), ("claude-3-5-haiku", 1_399, 1_600)],
)
def test_an_image_of_unknown_size_has_a_stated_size_and_a_bound(slug: str, estimate: int, ceiling: int) -> None:
    unknown = ImagePart(is_low_detail=False)
    assert estimated_image_tokens(unknown, image_rule(slug)) == estimate
    assert ceiling_image_tokens(unknown, image_rule(slug)) == ceiling


def uri(kind: str, header: bytes) -> str:
    return f"data:image/{kind};base64," + base64.b64encode(header + bytes(30)).decode()


JPEG = b"\xff\xd8\xff\xe0\x00\x04\x00\x00\xff\xc2\x00\x11\x08" + struct.pack(">HH", 480, 640)


@pytest.mark.parametrize(
    ("written", "size_px"),
    [
        (uri("png", b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", 640, 480)), (640, 480)),
        (uri("gif", b"GIF89a" + struct.pack("<HH", 640, 480)), (640, 480)),
        (uri("jpeg", JPEG), (640, 480)),
        (uri("webp", b"RIFF1234WEBPVP8X" + bytes(8) + b"\x7f\x02\x00\xdf\x01\x00"), (640, 480)),
        (uri("webp", b"RIFF1234WEBPVP8 " + bytes(10) + struct.pack("<HH", 640, 480)), (640, 480)),
        (uri("webp", b"RIFF1234WEBPVP8L" + bytes(5) + (639 | 479 << 14).to_bytes(4, "little")), (640, 480)),
        ("data:image/png;base64,!!!!", (0, 0)),
        ("data:image/png,plain", (0, 0)),
        (uri("png", b"\x89PN"), (0, 0)),
        ("data:image/jpeg;base64," + base64.b64encode(b"\xff\xd8\xff").decode(), (0, 0)),
    ],
)
def test_a_data_uri_tells_its_size_by_its_header(written: str, size_px: tuple[int, int]) -> None:
    assert data_uri_size_px(written) == size_px


def test_tools_count_by_the_published_rule() -> None:
    properties = {"city": {"type": "string", "description": "Where."}, "unit": {"type": "string", "enum": ["c", "f"]}}
    function = {"name": "weather", "description": "Tell it.", "parameters": {"properties": properties}}
    cost = tool_cost(({"type": "function", "function": function},), vocabulary_named("o200k"))
    # 7 a function, 3 for having properties, 3 each, two enum items 3 x 2 - 3, 12 at the end
    assert cost.constant_tokens == 7 + 3 + 3 + 3 + 3 + 12
    assert orjson.loads(cost.literal) == "weather:Tell it\ncity:string:Where\nc\nf\nunit:string:"


@pytest.mark.parametrize(
    ("vocabulary", "added_by_tools", "added_by_schema"),
    # Anthropic publishes 346 tokens before the tools of Claude 3.5 and at most 530 of any model; an answer's schema is
    # a tool of the old models, and those newer ones that take it as it is may add as much.
    [("claude_legacy", 346, (346, 530)), ("closed", 346, (0, 530)), ("o200k_base", 12, (0, 0))],
)
def test_tools_and_schemas_bring_their_hidden_preamble_once(
    vocabulary: str, added_by_tools: int, added_by_schema: tuple[int, int]
) -> None:
    def constants(**extras: Any) -> tuple[int, int]:
        """What a row of one message has beside its texts, less its framing: in the estimate and in the ceiling."""
        ones = np.ones(1, dtype=np.int64)
        facts = RowFacts(message_counts=0 * ones, limits=ones, choices=ones, extras={0: RowExtras(**extras)})
        rules = ModelRules(
            vocabulary=vocabulary_named(vocabulary),
            image_rule=image_rule("gpt-4o"),
            max_output_tokens=10,
            makes_output=True,
        )
        counted = estimate_rows(Weighed.of(prepared([b'""']), 0, 1, rules.vocabulary), facts, rules)
        return int(counted.input_tokens[0]), int(counted.ceiling_input_tokens[0])

    assert constants() == (0, 0)
    assert constants(has_schema=True) == added_by_schema
    assert tool_cost((), vocabulary_named(vocabulary)).constant_tokens == added_by_tools
    with_tools = constants(tools=({},), tools_key=b"[{}]")
    assert constants(tools=({},), tools_key=b"[{}]", has_schema=True) == with_tools


@pytest.mark.parametrize("tool", [5, {}, {"function": None}, {"function": {"parameters": {"properties": {"a": 1}}}}])
def test_an_odd_tool_still_counts(tool: Any) -> None:
    for name in ("o200k", "closed"):
        assert tool_cost((tool,), vocabulary_named(name)).ceiling_tokens > 0


def prepared(*rows: list[bytes]) -> RowTexts:
    return prepare_texts(RowLiterals.of(rows))


def weigh(text: str, vocabulary: str = "o200k") -> float:
    scaled = weigh_rows(prepared([orjson.dumps(text)]), 0, 1, vocabulary_named(vocabulary))
    return int(scaled[0]) / WEIGHT_SCALE


ENGLISH = (
    "When a customer sends one file that mixes models, the house reads every row, finds the model it names, and works "
    "out what the answer is likely to cost. Each group of rows then goes to the lane that scores best on price, wait"
    "ing time and recent failures. The results come back in the order of the file, and finance can follow each cent to "
    "an invoice from the provider. Nothing is charged for a row that fails, and a quote that nobody accepts simply "
    "lapses after half an hour."
)
GERMAN = (
    "Die Bestellung wurde gestern versandt und sollte am Freitag bei Ihnen eintreffen.\nViele Gr\u00fc\u00dfe\n" * 6
)
CODE = (
    "def settle(rows):\n    total = 0\n    for row in rows:\n        total += row.tokens * row.rate\n    return total\n"
) * 4
JSON = '{"id": 4711, "state": "open", "tags": ["a", "b"], "price": 12.5}\n' * 8
JAPANESE = (
    "\u6771\u4eac\u306f\u65e5\u672c\u306e\u9996\u90fd\u3067\u3059\u3002"
    "\u4eba\u53e3\u306f\u7d041400\u4e07\u4eba\u3067\u3059\u3002"
) * 6


# German of everyday words, nearly each of which is one token, is the worst kind that is known.
@pytest.mark.parametrize(
    ("text", "exact", "within"),
    [(ENGLISH, 101, 0.1), (GERMAN, 108, 0.3), (CODE, 116, 0.1), (JSON, 240, 0.1), (JAPANESE, 96, 0.1)],
)
def test_the_weights_are_near_an_exact_count(text: str, exact: int, within: float) -> None:
    assert abs(weigh(text) / exact - 1) < within


def test_escapes_weigh_like_the_bytes_they_stand_for() -> None:
    rows = [[rb'"a\nb\\\"c\\n"'], [rb'"a\u000ab"'], [rb'"\\\\"'], [], [b'""'], [rb'"\u0001\/"'], [rb'"\\u0001"']]
    assert prepared(*rows).text_bytes.tolist() == [len(b'a\nb\\"c\\n'), 3, 2, 0, 0, 2, 6]


@pytest.mark.parametrize("spelling", [rb'"caf\u00e9 \n\/"', rb'"caf\u00E9\u0020\u000a/"', '"café \\n/"'.encode()])
def test_a_text_weighs_the_same_however_it_was_escaped(spelling: bytes) -> None:
    texts = prepared([spelling, b'"x"'], [b'"y"'])
    row = texts.pairs[texts.starts[0] : texts.starts[1]].tobytes()
    assert row.rstrip(b"\0") == "\0café \0\n/\0\0x".encode()
    assert texts.text_bytes.tolist() == [9, 1]


def test_a_row_longer_than_a_piece_is_summed_whole() -> None:
    weights = vocabulary_named("o200k").weights.astype(np.int64)
    text = b"ab" * 200_000
    scaled = weigh_rows(prepared([b'"x"'], [b'"' + text + b'"'], [b'"x"']), 0, 3, vocabulary_named("o200k"))
    # NUL a, 200,000 times a b, between them 199,999 times b a, then b NUL
    a, b = ord("a"), ord("b")
    by_hand = weights[a << 8] + 200_000 * weights[a | b << 8] + 199_999 * weights[b | a << 8] + weights[b]
    assert scaled[1] == by_hand
    assert scaled[0] == scaled[2]


def test_vocabularies_are_known_by_the_names_catalogs_use() -> None:
    assert vocabulary_named("o200k_base").name == "o200k"
    assert vocabulary_named("claude").name == vocabulary_named("nobody-knows").name == "closed"
    assert {vocabulary_named(name).weights.shape for name in TABLE_ORDER} == {(65_536,)}
    assert all(vocabulary_named(name).weights[0] == 0 for name in TABLE_ORDER)
    assert np.int16 == vocabulary_named("closed").weights.dtype
    assert TABLE_PATH.stat().st_size < 1_048_576
