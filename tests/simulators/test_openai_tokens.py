"""Token counts against values worked out by hand."""

import base64
import struct
from typing import Any

import pytest

from simulators import prose
from simulators.openai import tokens
from simulators.tokenizer import count_text


def chat(model: str, *contents: Any, **body: Any) -> int:
    messages = [{"role": "user", "content": content} for content in contents]
    return tokens.chat_input_tokens(model, {"messages": messages, **body})


@pytest.mark.parametrize(
    ("model", "vocabulary"),
    [
        ("gpt-4o", "o200k_base"),
        ("gpt-4o-mini-2024-07-18", "o200k_base"),
        ("gpt-4.1", "o200k_base"),
        ("gpt-5", "o200k_base"),
        ("o3-mini", "o200k_base"),
        ("ft:gpt-4o-mini:acme", "o200k_base"),
        ("gpt-4", "cl100k_base"),
        ("gpt-4-turbo", "cl100k_base"),
        ("gpt-4-0613", "cl100k_base"),
        ("gpt-3.5-turbo", "cl100k_base"),
        ("ft:gpt-3.5-turbo:acme", "cl100k_base"),
        ("text-embedding-3-small", "cl100k_base"),
    ],
)
def test_models_have_their_vocabulary(model: str, vocabulary: str) -> None:
    assert tokens.vocabulary_of(model) == vocabulary


def test_chat_framing_is_four_a_message_and_three_a_request() -> None:
    assert chat("gpt-4o") == 3
    assert chat("gpt-4o", "") == 3 + 4
    assert chat("gpt-4o", "Hello world", "Hello world") == 3 + 2 * (4 + 2)


def test_the_vocabularies_differ() -> None:
    assert (chat("gpt-4o", "नमस्ते"), chat("gpt-4", "नमस्ते")) == (3 + 4 + 4, 3 + 4 + 6)


def test_special_tokens_are_plain_text() -> None:
    assert count_text("o200k_base", "<|endoftext|>") > 1


def test_text_parts_and_tool_calls_count() -> None:
    parts = [{"type": "text", "text": "Hello world"}, {"type": "text", "text": "Hello world"}]
    assert chat("gpt-4o", parts) == 3 + 4 + 4
    called = {"role": "assistant", "tool_calls": [{"function": {"name": "hello", "arguments": "Hello world"}}]}
    assert tokens.chat_input_tokens("gpt-4o", {"messages": [called]}) == 3 + 4 + 1 + 2


@pytest.mark.parametrize(("model", "per_function"), [("gpt-4o", 7), ("gpt-4", 10)])
def test_tools_count_by_the_published_rule(model: str, per_function: int) -> None:
    properties = {
        "city": {"type": "string", "description": "The city."},
        "unit": {"type": "string", "enum": ["celsius", "kelvin"]},
    }
    function = {"name": "weather", "description": "Look outside.", "parameters": {"properties": properties}}
    vocabulary = tokens.vocabulary_of(model)
    texts = ("weather:Look outside", "city:string:The city", "unit:string:", "celsius", "kelvin")
    expected = (per_function + 3) + 3 + (3 + 2 * 3 - 3) + 12
    expected += sum(count_text(vocabulary, text) for text in texts)
    assert chat(model, tools=[{"type": "function", "function": function}]) == 3 + expected


def test_a_response_schema_counts_as_its_json() -> None:
    schema = {"name": "river", "schema": {"type": "object"}}
    text = '{"name": "river", "schema": {"type": "object"}}'
    counted = chat("gpt-4o", response_format={"type": "json_schema", "json_schema": schema})
    assert counted == 3 + count_text("o200k_base", text)
    assert chat("gpt-4o", response_format={"type": "json_object"}) == 3


def data_uri(kind: str, header: bytes) -> str:
    return f"data:image/{kind};base64," + base64.b64encode(header).decode()


def png(width: int, height: int) -> str:
    return data_uri(
        "png", b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", width, height) + b"\x08\x02" * 99
    )


def jpeg(width: int, height: int) -> str:
    frame = b"\xff\xc0\x00\x11\x08" + struct.pack(">HH", height, width) + b"\x03"
    return data_uri("jpeg", b"\xff\xd8\xff\xe0\x00\x10JFIF\x00" + b"\x00" * 9 + frame + b"\x00" * 20)


@pytest.mark.parametrize(
    ("url", "detail", "expected"),
    [
        ("https://example.com/a.png", "low", 85),
        ("https://example.com/a.png", "high", 85 + 4 * 170),
        (png(400, 300), "auto", 85 + 170),
        (png(2048, 4096), "high", 85 + 6 * 170),
        (png(1, 1), "low", 85),
        (jpeg(513, 512), "", 85 + 2 * 170),
        (data_uri("gif", b"GIF89a" + struct.pack("<HH", 512, 1024)), "", 85 + 2 * 170),
        (data_uri("webp", b"RIFF"), "", 85 + 4 * 170),
        ("data:image/png;base64,!!!!", "", 85 + 4 * 170),
    ],
)
def test_images_count_by_their_tiles(url: str, detail: str, expected: int) -> None:
    part = {"type": "image_url", "image_url": {"url": url, "detail": detail}}
    assert chat("gpt-4o", [part]) == 3 + 4 + expected
    item = {"role": "user", "content": [{"type": "input_image", "image_url": url, "detail": detail}]}
    assert tokens.responses_input_tokens("gpt-4o", {"input": [item]}) == 3 + 4 + expected


def test_a_text_of_millions_of_characters_is_counted() -> None:
    sentence = "The quiet river follows a bridge. "
    assert count_text("o200k_base", sentence) == 8
    assert count_text("o200k_base", sentence * 50_000) == 7 * 50_000 + 1
    assert count_text("o200k_base", "x" * 1_200_000) > 0


def test_every_piece_of_prose_is_one_token_in_both_vocabularies() -> None:
    for count in range(1, 200):
        text = "".join(prose.pieces(count, count))
        assert count_text("o200k_base", text) == count
        assert count_text("cl100k_base", text) == count
