"""The lines that nearly every row of a chat job gets, read many at a time; every other goes to ``wire.read_line``.

Reading lines costs the engine more than anything else, so nothing is read twice and nothing is made for a row that is
not kept: the head of a line and its end are matched as bytes, the body between them is decoded once, for its checks
and its numbers, and passed on as it is but for its id. What holds for many lines is looked at once for all of them
(2.5 us a line of 1.3 kB, ``wire.read_line`` 6.9 us, ``orjson.loads`` alone 2.1 us).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, compress, groupby, repeat
from operator import attrgetter
from typing import Annotated, Final, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from routing.providers.answered import AnsweredRows
from routing.providers.base import ROW_NUMBER_DIGITS
from routing.providers.lines import is_one_line_each, one_line
from routing.providers.openai.usage import ChatUsage, normalised_usage

_STATUS: Final = 200
_SPACED_END: Final = b'}, "error": null}'
_CLOSE_END: Final = b'},"error":null}'
_BACKSLASH: Final = ord("\\")


class _Message(msgspec.Struct, frozen=True, gc=False):
    """Any object."""


class _Choice(msgspec.Struct, frozen=True, gc=False):
    message: _Message


class _Completion(msgspec.Struct, frozen=True, gc=False):
    id: str
    object: Literal["chat.completion"]
    choices: Annotated[list[_Choice], msgspec.Meta(min_length=1)]
    usage: ChatUsage


_decode: Final = msgspec.json.Decoder(_Completion).decode
_USAGE_NAMES: Final = (
    "prompt_tokens",
    "completion_tokens",
    "prompt_tokens_details.cached_tokens",
    "prompt_tokens_details.cache_write_tokens",
    "completion_tokens_details.reasoning_tokens",
)
_usage_of: Final = attrgetter(*(f"usage.{name}" for name in _USAGE_NAMES))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """Lines whose head and end are common: their places among all, their rows' digits, and the bodies with our id."""

    places: Sequence[int]
    digits: Sequence[bytes]
    bodies: Sequence[bytes]

    def where(self, is_chosen: Sequence[bool]) -> _Found:
        """Give some of them."""
        return _Found(
            places=[*compress(self.places, is_chosen)],
            digits=[*compress(self.digits, is_chosen)],
            bodies=[*compress(self.bodies, is_chosen)],
        )


class ChatLineReader:
    """Reads lines of one job."""

    def __init__(self, *, token: str, answer_prefix: str) -> None:
        """Prepare for a job's token; ``answer_prefix`` with the row number behind it is our id of an answer."""
        self._match = re.compile(
            rb'\{"id": ?"[^"]*+", ?"custom_id": ?"%sr(0|[1-9][0-9]{0,%d})", ?"response": ?'
            rb'\{"status_code": ?%d, ?"request_id": ?"[^"]*+", ?"body": ?\{"id": ?"[^"]*+"'
            % (re.escape(token.encode()), ROW_NUMBER_DIGITS - 1, _STATUS)
        ).match
        self._id_start = f"chatcmpl-{answer_prefix}".encode()

    def read(self, lines: Sequence[bytes]) -> Iterator[AnsweredRows | int]:
        """Give, in the order of the lines, what :func:`routing.providers.openai.wire.read_line` says of their rows.

        Of a line that is another one its place is given: it is not read.
        """
        found = self._find(lines)
        whole = b"\n".join(lines)
        try:
            # The decoder does not look at the bytes of texts that it skips.
            whole.decode()
        except UnicodeDecodeError:
            found = found.where([_is_utf8(lines[place]) for place in found.places])
        completions = self._decoded(found)
        if completions is None:
            found = found.where([*map(self._is_good, found.digits, found.bodies)])
            completions = [*map(_decode, found.bodies)]
        if not is_one_line_each(whole):
            found = replace(found, bodies=[*map(one_line, found.bodies)])
        yield from _in_order(len(lines), found, completions)

    def _find(self, lines: Sequence[bytes]) -> _Found:
        """Give the lines whose head and end leave one place for a body.

        Where the body decodes as one JSON value, the whole line is JSON. An escape in the head could hide where a text
        ends.
        """
        places: Sequence[int] = range(len(lines))
        found = [*map(self._match, lines)]
        heads = [head for head in found if head is not None]
        if len(heads) < len(lines):
            places = [place for place in places if found[place] is not None]
            lines = [lines[place] for place in places]
        starts = [head.end() for head in heads]
        ends = [*map(_end_of, lines)]
        escapes = [*map(bytes.find, lines, repeat(_BACKSLASH), repeat(0), starts)]
        digits = [head[1] for head in heads]
        before, behind = b'{"id":"' + self._id_start, b'"'
        bodies = [
            before + number + behind + line[start:end]
            for number, line, start, end in zip(digits, lines, starts, ends, strict=True)
        ]
        every = _Found(places=places, digits=digits, bodies=bodies)
        if 0 in ends or any(place >= 0 for place in escapes):
            return every.where([end < 0 and place < 0 for end, place in zip(ends, escapes, strict=True)])
        return every

    def _decoded(self, found: _Found) -> list[_Completion] | None:
        """Decode bodies that are all good; None where one of them is not, as :meth:`_is_good` says."""
        try:
            completions = [*map(_decode, found.bodies)]
        except (msgspec.DecodeError, RecursionError):
            return None
        said = "\n".join([completion.id for completion in completions])
        meant = (b"\n" + self._id_start).join([b"", *found.digits])
        return completions if said.encode() == meant[1:] else None

    def _is_good(self, digits: bytes, body: bytes) -> bool:
        """Tell whether a body is a completion that has our id and no other.

        Of a name given twice the last value counts: an id behind the first one is no common line.
        """
        try:
            return _decode(body).id.encode() == self._id_start + digits
        except (msgspec.DecodeError, RecursionError):
            return False


def _end_of(line: bytes) -> int:
    """Give where the body ends, counted from the end of the line; 0 where the end is not a common one."""
    if line.endswith(_SPACED_END):
        return -len(_SPACED_END)
    return -len(_CLOSE_END) if line.endswith(_CLOSE_END) else 0


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _in_order(line_count: int, found: _Found, completions: Sequence[_Completion]) -> Iterator[AnsweredRows | int]:
    said = np.fromiter(chain.from_iterable(map(_usage_of, completions)), dtype=np.int64)
    tokens, is_consistent = normalised_usage(said.reshape(-1, len(_USAGE_NAMES)))
    answered = AnsweredRows(
        status_code=_STATUS,
        rows=np.fromiter(map(int, found.digits), dtype=np.int64, count=len(found.digits)),
        tokens=tokens,
        bodies=found.bodies,
    )
    if len(answered) == line_count and is_consistent.all():
        yield answered
        return
    index_of: npt.NDArray[np.int64] = np.full(line_count, -1)
    index_of[[*found.places]] = np.where(is_consistent, np.arange(len(answered)), -1)
    for is_read, group in groupby(enumerate(index_of.tolist()), key=lambda pair: pair[1] >= 0):
        pairs = list(group)
        if is_read:
            yield answered.part(pairs[0][1], pairs[-1][1] + 1)
        else:
            yield from (place for place, _ in pairs)
