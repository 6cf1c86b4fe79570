"""The lines that nearly every row of a chat job gets, read many at a time; every other goes to ``wire.read_line``.

Reading lines costs the engine more than anything else, so nothing is read twice, and of a line nothing is made but its
body: the head of a line and its end are matched where they stand in the piece, the body between them is decoded once,
for its checks and its numbers, and passed on as it is but for its id. What holds for many lines is looked at once for
all of them (1.8 us a line of 1.3 kB, ``wire.read_line`` 6.9 us, ``orjson.loads`` alone 2.1 us).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress, groupby, repeat
from typing import Annotated, Final, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from routing.providers.answered import AnsweredRows
from routing.providers.base import ROW_NUMBER_DIGITS
from routing.providers.lines import LF, is_one_line_each, one_line
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


class OtherLine(NamedTuple):
    """A line that is not a common one and was not read: its place in its piece, and its text without LF."""

    place: int
    text: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """Whole lines, each with its LF, and where each begins and stops (at its LF)."""

    text: bytes
    starts: Sequence[int]
    stops: Sequence[int]

    def line(self, place: int) -> bytes:
        """Give one line."""
        return self.text[self.starts[place] : self.stops[place]]


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

    def read(self, text: bytes) -> Iterator[AnsweredRows | OtherLine]:
        """Give, in the order of the lines, what :func:`routing.providers.openai.wire.read_line` says of their rows.

        Args:
            text: Whole lines, each with its LF.
        """
        piece = _cut(text)
        found = self._find(piece)
        if not text.isascii():
            try:
                # The decoder does not look at the bytes of texts that it skips.
                text.decode()
            except UnicodeDecodeError:
                found = found.where([_is_utf8(piece.line(place)) for place in found.places])
        completions = self._decoded(found)
        if completions is None:
            found = found.where([*map(self._is_good, found.digits, found.bodies)])
            completions = [*map(_decode, found.bodies)]
        if not is_one_line_each(text):
            found = replace(found, bodies=[*map(one_line, found.bodies)])
        yield from _in_order(piece, found, completions)

    def _find(self, piece: _Piece) -> _Found:
        """Give the lines whose head and end leave one place for a body.

        Where the body decodes as one JSON value, the whole line is JSON. An escape in the head could hide where a text
        ends, and a text that is not ended could end in the next line.
        """
        text, starts, stops = piece.text, piece.starts, piece.stops
        places: Sequence[int] = range(len(starts))
        heads = [*map(self._match, repeat(text), starts)]
        if None in heads:
            places = [place for place, head in enumerate(heads) if head is not None]
            starts, stops = [starts[place] for place in places], [stops[place] for place in places]
        found = [head for head in heads if head is not None]
        digits = [head[1] for head in found]
        begins = [head.end() for head in found]
        ends = _ends(text, stops)
        escapes = [*map(text.find, repeat(_BACKSLASH), starts, begins)]
        before, behind = b'{"id":"' + self._id_start, b'"'
        bodies = [
            before + number + behind + text[begin:end] for number, begin, end in zip(digits, begins, ends, strict=True)
        ]
        every = _Found(places=places, digits=digits, bodies=bodies)
        is_common = [escape < 0 and begin < end for escape, begin, end in zip(escapes, begins, ends, strict=True)]
        return every if all(is_common) else every.where(is_common)

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


def _cut(text: bytes) -> _Piece:
    """Find the lines of a piece; searching for a byte is the quickest of all ways, and copies nothing."""
    find = text.find
    stops: list[int] = []
    stop = find(LF)
    while stop >= 0:
        stops.append(stop)
        stop = find(LF, stop + 1)
    assert stops[-1] == len(text) - 1, "each line of a piece ends in LF"
    return _Piece(text=text, starts=[0, *[stop + 1 for stop in stops[:-1]]], stops=stops)


def _ends(text: bytes, stops: Sequence[int]) -> list[int]:
    """Give where each line's body ends; 0 where the line's end is not a common one."""
    spaced_bytes = len(_SPACED_END)
    tails = [text[stop - spaced_bytes : stop] for stop in stops]
    if tails.count(_SPACED_END) == len(tails):
        return [stop - spaced_bytes for stop in stops]
    return [
        stop - len(end) if (end := _SPACED_END if tail == _SPACED_END else _CLOSE_END) == tail[-len(end) :] else 0
        for tail, stop in zip(tails, stops, strict=True)
    ]


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _in_order(piece: _Piece, found: _Found, completions: Sequence[_Completion]) -> Iterator[AnsweredRows | OtherLine]:
    tokens, is_consistent = normalised_usage(_said(completions))
    answered = AnsweredRows(
        status_code=_STATUS,
        rows=np.fromiter(map(int, found.digits), dtype=np.int64, count=len(found.digits)),
        tokens=tokens,
        bodies=found.bodies,
    )
    line_count = len(piece.starts)
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
            yield from (OtherLine(place, piece.line(place)) for place, _ in pairs)


def _said(completions: Sequence[_Completion]) -> npt.NDArray[np.int64]:
    """Give the numbers of usages as columns of prompt, completion, cached, cache-written and reasoning tokens."""
    usages = [completion.usage for completion in completions]
    inputs = [usage.prompt_tokens_details for usage in usages]
    outputs = [usage.completion_tokens_details for usage in usages]
    columns = (
        [usage.prompt_tokens for usage in usages],
        [usage.completion_tokens for usage in usages],
        [details.cached_tokens for details in inputs],
        [details.cache_write_tokens for details in inputs],
        [details.reasoning_tokens for details in outputs],
    )
    return np.array(columns, dtype=np.int64)
