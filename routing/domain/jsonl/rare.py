"""Rows of the common shape with something more: rarer parameters, tools, an answer's schema, content in parts.

Everything is accounted for by counting names, as on the whole fast path: a row is taken only if what is known here
explains every name on its line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from typing import Literal as Choice

import msgspec
import numpy as np
import orjson
from msgspec import UNSET, Raw, UnsetType

from catalog.domain.records import Endpoint
from routing.domain.estimate.images import ImagePart
from routing.domain.estimate.tokens import RowExtras
from routing.domain.estimate.weights import Literal, RowLiterals
from routing.domain.jsonl.contents import IMAGE_SCHEMES, check_tools
from routing.domain.jsonl.exact import MAXIMUM_DEPTH, nesting_depth
from routing.domain.jsonl.faults import Json, RowFault
from routing.domain.jsonl.texts import image_part, schema_text

OUTER_DEPTH = 2
QUOTE = 0x22
NEVER_FITS = -1_000_000


class Columns(Protocol):
    """The columns a taken row is written to."""

    literals: RowLiterals
    own_literals: dict[int, Sequence[Literal]]
    limits: list[int]
    choices: list[int]
    extras: dict[int, RowExtras]


class _ImageUrl(msgspec.Struct, gc=False):
    url: str
    detail: Choice["auto", "low", "high"] | UnsetType | None = UNSET


class _Part(msgspec.Struct, gc=False):
    type: Choice["text", "image_url"]
    text: Raw | UnsetType = UNSET
    image_url: _ImageUrl | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class _Known:
    """What one text of ``tools`` or ``response_format`` amounts to; ``name_count`` -1 means: read the row alone."""

    name_count: int
    tools: tuple[Any, ...] = ()
    schema: bytes | None = None


_UNKNOWN = _Known(-1)
_decode_parts = msgspec.json.Decoder(list[_Part]).decode


def count_decoded_names(value: Json) -> int:
    """Count the names of a decoded value at all depths."""
    name_count, waiting = 0, [value]
    while waiting:
        item = waiting.pop()
        if type(item) is dict:
            name_count += len(item)
            waiting += [inner for inner in item.values() if type(inner) is dict or type(inner) is list]
        elif type(item) is list:
            waiting += [inner for inner in item if type(inner) is dict or type(inner) is list]
    return name_count


@dataclass(slots=True, kw_only=True)
class RareNames:
    """Takes rows one by one; texts of tools and schemas, which repeat over a file, are looked at once."""

    columns: Columns
    ends: list[int] = field(init=False)
    taken: set[int] = field(default_factory=set)
    seen: dict[bytes, _Known] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Note where each row's contents end."""
        self.ends = np.cumsum(self.columns.literals.counts).tolist()

    def take(self, row: int, body: Json, surplus: int) -> bool:
        """Take a row if its rarer names account for the ``surplus`` names on its line; say whether they do."""
        values = (
            body.max_completion_tokens,
            body.top_p,
            body.n,
            body.seed,
            body.stop,
            body.user,
            body.presence_penalty,
            body.frequency_penalty,
            body.stream,
            body.tools,
            body.response_format,
        )
        accounted = len(values) - values.count(UNSET)
        limits = {value for value in (body.max_tokens, body.max_completion_tokens) if value}
        if body.stream is True or len(limits) > 1:
            return False
        tools = self._known(body.tools, _known_tools)
        answer = self._known(body.response_format, _known_answer)
        if tools.name_count < 0 or answer.name_count < 0:
            return False
        accounted += tools.name_count + answer.name_count
        literals, images, part_names = _contents(
            self.columns.literals.flat[self.ends[row] - len(body.messages) : self.ends[row]]
        )
        if accounted + part_names != surplus:
            return False
        if answer.schema:
            literals.append(answer.schema)
        self.columns.own_literals[row] = literals
        self.columns.limits[row] = int(max(limits, default=0))
        self.columns.choices[row] = int(body.n or 1)
        if tools.tools or images:
            key = bytes(body.tools) if tools.tools else b""
            self.columns.extras[row] = RowExtras(tools=tools.tools, tools_key=key, images=tuple(images))
        self.taken.add(row)
        return True

    def _known(self, raw: Raw | UnsetType, judge: Callable[[bytes], _Known]) -> _Known:
        if raw is UNSET:
            return _Known(0)
        text = bytes(raw)
        known = self.seen.get(text)
        if known is None:
            known = self.seen[text] = _UNKNOWN if nesting_depth(text) + OUTER_DEPTH > MAXIMUM_DEPTH else judge(text)
        return known


def _known_tools(text: bytes) -> _Known:
    try:
        tools = orjson.loads(text)
        check_tools(tools, "body.tools", Endpoint.CHAT_COMPLETIONS)
    except (orjson.JSONDecodeError, RowFault):
        return _UNKNOWN
    return _Known(count_decoded_names(tools or ()), tools=tuple(tools or ()))


def _known_answer(text: bytes) -> _Known:
    try:
        answer = orjson.loads(text)
    except orjson.JSONDecodeError:
        return _UNKNOWN
    if not isinstance(answer, dict):
        return _Known(0) if answer is None else _UNKNOWN
    schema = schema_text(answer)
    return _Known(count_decoded_names(answer), schema=None if schema is None else orjson.dumps(schema))


def _contents(contents: Sequence[Literal]) -> tuple[list[Literal], list[ImagePart], int]:
    """Give text literals, images and the names that parts hold; a count that fits nothing where a part is odd."""
    literals: list[Literal] = []
    images: list[ImagePart] = []
    name_count = 0
    for content in contents:
        if memoryview(content)[0] == QUOTE:
            literals.append(content)
            continue
        try:
            parts = _decode_parts(content)
        except msgspec.ValidationError:
            return literals, images, NEVER_FITS
        if not parts:
            return literals, images, NEVER_FITS
        for part in parts:
            name_count += _take_part(part, literals, images)
    return literals, images, name_count


def _take_part(part: _Part, literals: list[Literal], images: list[ImagePart]) -> int:
    if part.type == "text":
        if part.text is UNSET or part.image_url is not UNSET or memoryview(part.text)[0] != QUOTE:
            return NEVER_FITS
        literals.append(part.text)
        return 2
    image = part.image_url
    if image is UNSET or part.text is not UNSET or not image.url.startswith(IMAGE_SCHEMES):
        return NEVER_FITS
    images.append(image_part(image.url, None if image.detail is UNSET else image.detail))
    return 3 if image.detail is UNSET else 4
