"""What is sent to a provider: a row's body written anew from the same decode as the quote used."""

from __future__ import annotations

import re

import msgspec
import orjson
from msgspec import Raw


class _Body(msgspec.Struct):
    body: dict[str, Raw]


FIRST_ASTRAL = 0x10000
_decode = msgspec.json.Decoder(_Body).decode
_BEYOND_ASCII = re.compile("[^\x00-\x7f]")


def outgoing_body(line: bytes, model_id: str) -> bytes:
    """Give the row's body with the pinned model id, as one line of ASCII JSON without line end.

    Unknown names and the text of numbers survive; the customer's raw line is never sent. Line breaks between tokens
    (a lone CR is the only one a row can hold) become spaces; whatever is not ASCII is escaped.

    Args:
        line: The row's line, as it passed the quote.
        model_id: The lane's spelling of the pinned snapshot.
    """
    body = _decode(line).body
    parts = [
        orjson.dumps(name) + b":" + (orjson.dumps(model_id) if name == "model" else bytes(value))
        for name, value in body.items()
    ]
    joined = (b"{" + b",".join(parts) + b"}").replace(b"\r", b" ")
    if joined.isascii():
        return joined
    return _BEYOND_ASCII.sub(_escaped, joined.decode("utf-8")).encode("ascii")


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < FIRST_ASTRAL:
        return f"\\u{code:04x}"
    code -= FIRST_ASTRAL
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
