"""What is sent is written anew: the pinned model, everything else as the customer wrote it, one line of ASCII."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.domain.rows import outgoing_body

START = b'{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":'


def test_numbers_and_unknown_names_survive_as_written() -> None:
    line = START + b'{"model":"gpt-4o","temperature":0.10,"x":1e2,"big":123456789012345678901,"s":"\\u00e9"} }'
    assert outgoing_body(line, "gpt-4o-2024-08-06") == (
        b'{"model":"gpt-4o-2024-08-06","temperature":0.10,"x":1e2,"big":123456789012345678901,"s":"\\u00e9"}'
    )


def test_an_escaped_name_is_still_the_model() -> None:
    assert outgoing_body(START + b'{"mod\\u0065l":"gpt-4o"}}', "pin") == b'{"model":"pin"}'


@pytest.mark.parametrize("letter", ["\u2028", "\u2029", "\u0085", "\u00e9", "\U0001f600"])
def test_no_letter_beyond_ascii_is_sent_as_it_stands(letter: str) -> None:
    sent = outgoing_body(START + json.dumps({"model": "m", letter: letter}, ensure_ascii=False).encode() + b"}", "pin")
    assert sent.isascii()
    assert json.loads(sent) == {"model": "pin", letter: letter}


def test_a_lone_carriage_return_between_tokens_becomes_a_blank() -> None:
    assert outgoing_body(START + b'{"model":"m","a":[1,\r2]}}', "pin") == b'{"model":"pin","a":[1, 2]}'


@given(
    st.dictionaries(
        st.text(max_size=8),
        st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3)),
        max_size=5,
    ),
    st.booleans(),
)
def test_the_meaning_is_kept_and_the_line_is_one(body: dict[str, object], ascii_only: bool) -> None:  # noqa: FBT001
    line = START + json.dumps({**body, "model": "m"}, ensure_ascii=ascii_only).encode() + b"}"
    sent = outgoing_body(line, "pin")
    assert json.loads(sent) == {**body, "model": "pin"}
    assert sent.isascii()
    assert len(sent.splitlines()) == 1
