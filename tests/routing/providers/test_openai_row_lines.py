"""A row spliced into the provider's line means what the row taken apart and encoded means."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.domain.records import Endpoint
from routing.payloads import read_body
from routing.providers.base import make_row_key
from routing.providers.openai.row_lines import splice_rows
from routing.providers.openai.wire import encode_row

TOKEN = "0123456789abcdef"
MODEL_ID = "the-pin"
COMMON: dict[str, Any] = {"custom_id": "mine", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "a"}}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
BODIES = st.dictionaries(st.text(), JSON, max_size=4).map(lambda members: {"model": "a", **members} | {"model": "a"})


def spliced(*lines: bytes) -> list[bytes | None]:
    rows = list(range(len(lines)))
    made = splice_rows(token=TOKEN, rows=rows, endpoint=Endpoint.CHAT_COMPLETIONS, model_id=MODEL_ID, lines=lines)
    return list(made)


def encoded(row: int, line: bytes) -> bytes:
    return encode_row(
        row_key=make_row_key(TOKEN, row),
        endpoint=Endpoint.CHAT_COMPLETIONS,
        model_id=MODEL_ID,
        body=read_body(line),
    )


def pairs(line: bytes) -> Any:
    """Give what a line says, the order of members included."""
    return json.loads(line, object_pairs_hook=list)


@given(st.lists(st.tuples(BODIES, st.text(), st.booleans(), st.sampled_from([(",", ":"), (", ", ": ")])), max_size=4))
def test_a_spliced_line_says_what_the_encoded_one_says(
    rows: list[tuple[dict[str, Any], str, bool, tuple[str, str]]],
) -> None:
    lines = [
        json.dumps({**COMMON, "custom_id": name, "body": body}, separators=separators, ensure_ascii=is_ascii).encode(
            errors="replace"
        )
        for body, name, is_ascii, separators in rows
    ]
    for row, (line, made) in enumerate(zip(lines, spliced(*lines), strict=True)):
        if made is None:
            assert b"\\" in line.partition(b'"method"')[0]
            continue
        assert pairs(made) == pairs(encoded(row, line))
        assert made.endswith(b"}\n")
        assert len(made.decode().splitlines()) == 1


@pytest.mark.parametrize(
    "line",
    [
        json.dumps({**COMMON, "more": {"n": 1}}).encode(),
        json.dumps(
            {"body": {"model": "a"}, **{name: COMMON[name] for name in ("custom_id", "method", "url")}}
        ).encode(),
        json.dumps({**COMMON, "body": {"seed": 1, "model": "a"}}).encode(),
        json.dumps({**COMMON, "custom_id": 'a "quoted" name'}).encode(),
        json.dumps(COMMON).encode()[:-2] + b',"model":"another"}}',
        json.dumps(COMMON).encode() + b" ",
    ],
    ids=["more behind the body", "body first", "model later", "an escape", "a model twice", "a blank behind"],
)
def test_a_row_of_another_shape_is_left_to_the_general_way_alone(line: bytes) -> None:
    common = json.dumps(COMMON).encode()
    first, odd, last = spliced(common, line, common)
    assert odd is None
    assert first == encoded(0, common)
    assert last == encoded(2, common)
