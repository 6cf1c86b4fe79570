"""Rows as the customer's file has them, turned into the provider's lines without being taken apart; many at a time.

Only what stands before the rest of the body is another: our key for the customer's ``custom_id``, and the pin's model
in the first member of the body. The rest is the customer's text, decoded once to prove that the body is one JSON
object and ends with the line. 1.2 us a row, where taking apart and encoding (``wire.encode_row``) takes 3; every row
that is not of this shape goes that way.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import repeat
from typing import Final

import msgspec

from catalog.domain.records import Endpoint
from routing.providers.base import key_start
from routing.providers.lines import is_one_line_each, one_line

_BACKSLASH: Final = ord("\\")
_match: Final = re.compile(
    rb'\{"custom_id": ?"[^"]*+", ?"method": ?"POST", ?"url": ?"[^"]*+", ?"body": ?\{"model": ?"[^"]*+"'
).match


class _Body(msgspec.Struct, frozen=True, gc=False):
    model: str


_decode: Final = msgspec.json.Decoder(_Body).decode


def splice_rows(
    *, token: str, rows: Sequence[int], endpoint: Endpoint, model_id: str, lines: Sequence[bytes]
) -> Sequence[bytes | None]:
    """Give what :func:`routing.providers.openai.wire.encode_row` means for rows, None for one of another shape.

    Args:
        token: The job's.
        rows: Row numbers.
        endpoint: The rows' endpoint.
        model_id: The pin's, for whatever their bodies name.
        lines: The rows' lines in a file that was read and found good.
    """
    heads = [*map(_match, lines)]
    before = b'{"model":' + msgspec.json.encode(model_id)
    stops = [head.end() if head else 0 for head in heads]
    escapes = [*map(bytes.find, lines, repeat(_BACKSLASH), repeat(0), stops)]
    bodies: list[bytes | None] = [
        before + line[stop:-1] if stop and escape < 0 else None
        for line, stop, escape in zip(lines, stops, escapes, strict=True)
    ]
    if not _are_bodies(bodies, model_id):
        bodies = [body if _are_bodies([body], model_id) else None for body in bodies]
    if not is_one_line_each(b"\n".join(lines)):
        bodies = [body and one_line(body) for body in bodies]
    start = b'{"custom_id":"' + key_start(token).encode()
    middle = b'","method":"POST","url":"%b","body":' % endpoint.value.encode()
    return [
        None if body is None else b"%b%d%b%b}\n" % (start, row, middle, body)
        for row, body in zip(rows, bodies, strict=True)
    ]


def _are_bodies(bodies: Sequence[bytes | None], model_id: str) -> bool:
    """Tell whether each is one JSON object that names the model, or none at all."""
    try:
        # A line with more behind its body leaves more than one value. Of a name given twice the last value counts.
        return all(_decode(body).model == model_id for body in bodies if body is not None)
    except (msgspec.DecodeError, RecursionError):
        return False
