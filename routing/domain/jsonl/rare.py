"""What rows hold beside plain texts: rarer parameters, tools, an answer's schema, content in parts.

Texts of raw parameters repeat over a file: each is looked at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from typing import Literal as Choice

import msgspec
import orjson
from msgspec import UNSET, Raw, UnsetType

from catalog.domain.records import Endpoint
from routing.domain.estimate.images import ImagePart
from routing.domain.estimate.weights import Literal
from routing.domain.jsonl.contents import IMAGE_SCHEMES, check_tools
from routing.domain.jsonl.exact import is_too_deep
from routing.domain.jsonl.faults import Json, RowFault
from routing.domain.jsonl.texts import image_part, schemas

OUTER_DEPTH = 2
QUOTE = b'"'
# what may be a number beyond every double; maybe in a string
_LARGE_NUMBER = re.compile(rb"[0-9][eE]|[0-9]{300}")


class _ImageUrl(msgspec.Struct, gc=False):
    url: str
    detail: Choice["auto", "low", "high"] | UnsetType | None = UNSET


class _Part(msgspec.Struct, gc=False):
    type: Choice["text", "input_text", "output_text", "image_url"]
    text: Raw | UnsetType = UNSET
    image_url: _ImageUrl | UnsetType = UNSET


_decode_parts = msgspec.json.Decoder(list[_Part]).decode


@dataclass(frozen=True, slots=True)
class Known:
    """What one text of a raw parameter amounts to; rows of one that is not sure must be read alone."""

    quote_count: int
    is_sure: bool = True
    tools: tuple[Any, ...] = ()
    schemas: tuple[bytes, ...] = ()


@dataclass(slots=True, kw_only=True)
class RawTexts:
    """Remembers what each text of one raw parameter amounts to."""

    name: str
    endpoint: Endpoint
    seen: dict[bytes, Known] = field(default_factory=dict)

    def known(self, text: bytes) -> Known:
        """Say what a text amounts to."""
        known = self.seen.get(text)
        if known is None:
            known = self.seen[text] = self._judge(text)
        return known

    def _judge(self, text: bytes) -> Known:
        judge, quote_count = _JUDGES.get(self.name), text.count(QUOTE)
        if is_too_deep(text, outer_depth=OUTER_DEPTH):
            return Known(quote_count, is_sure=False)
        if judge is None and b"\\u" not in text and not _LARGE_NUMBER.search(text):
            return Known(quote_count)
        try:
            value = orjson.loads(text)
            return judge(value, quote_count, self.endpoint) if judge else Known(quote_count)
        except (orjson.JSONDecodeError, RowFault):
            return Known(quote_count, is_sure=False)


def _known_tools(tools: Json, quote_count: int, endpoint: Endpoint) -> Known:
    check_tools(tools, "body.tools", endpoint)
    return Known(quote_count, tools=tuple(tools or ()))


def _known_answer(answer: Json, quote_count: int, _endpoint: Endpoint) -> Known:
    is_sure = answer is None or isinstance(answer, dict)
    held = tuple(map(orjson.dumps, schemas({"response_format": answer})))
    return Known(quote_count, is_sure=is_sure, schemas=held)


def _known_text(shape: Json, quote_count: int, _endpoint: Endpoint) -> Known:
    return Known(quote_count, schemas=tuple(map(orjson.dumps, schemas({"text": shape}))))


_JUDGES: dict[str, Callable[[Json, int, Endpoint], Known]] = {
    "tools": _known_tools,
    "response_format": _known_answer,
    "text": _known_text,
}


def read_parts(contents: Sequence[Literal]) -> tuple[list[Literal], list[ImagePart]] | None:
    """Give the text literals and the images of contents that are strings or lists of parts; None if one is odd."""
    literals: list[Literal] = []
    images: list[ImagePart] = []
    for content in contents:
        if memoryview(content)[0] == QUOTE[0]:
            literals.append(content)
            continue
        try:
            parts = _decode_parts(content)
        except msgspec.ValidationError:
            return None
        if not parts or not all(_take_part(part, literals, images) for part in parts):
            return None
    return literals, images


def _take_part(part: _Part, literals: list[Literal], images: list[ImagePart]) -> bool:
    """Add what a part holds; say whether it is as it should be."""
    if part.type != "image_url":
        if part.text is UNSET or memoryview(part.text)[0] != QUOTE[0]:
            return False
        literals.append(part.text)
        return True
    image = part.image_url
    if image is UNSET or not image.url.startswith(IMAGE_SCHEMES):
        return False
    images.append(image_part(image.url, image.detail or None))
    return True
