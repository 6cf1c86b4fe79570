"""A long file in pieces of whole lines, in flat memory; each piece reads as a file of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from routing.domain.jsonl.lines import BYTE_ORDER_MARK, JSON_BLANKS, split_lines

LINE_FEED = b"\n"
# A byte-order mark before a line and a CR behind it are no part of it.
_AROUND_A_LINE_BYTES = len(BYTE_ORDER_MARK) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Whole lines; ``text`` begins at byte ``offset`` of the file, with its line ``first_line`` (from 1).

    A line too long to be held has a piece of its own: no text, and ``overlong_bytes``, its length.
    """

    text: bytes
    offset: int
    first_line: int
    overlong_bytes: int = 0

    def has_rows(self) -> bool:
        """Say whether anything but blank lines is in it."""
        text = self.text.removeprefix(BYTE_ORDER_MARK) if self.offset == 0 else self.text
        return bool(self.overlong_bytes or text.strip(JSON_BLANKS + LINE_FEED))

    def line_numbers(self) -> npt.NDArray[np.int64]:
        """Give the numbers in the file of the lines that are not blank."""
        if self.overlong_bytes:
            return np.array([self.first_line], dtype=np.int64)
        return split_lines(self.text).numbers + (self.first_line - 1)

    def rows(self) -> Iterator[tuple[int, bytes, int]]:
        """Give of each line that is not blank its number in the file, its text and its length."""
        if self.overlong_bytes:
            yield self.first_line, b"", self.overlong_bytes
            return
        lines = split_lines(self.text)
        for row, number in enumerate(lines.numbers.tolist()):
            text = lines.text(row)
            yield self.first_line - 1 + number, text, len(text)


Pieces = Callable[[], Iterable[Piece]]
"""Gives all pieces of one file from its beginning, each time it is called."""


@dataclass(slots=True, kw_only=True)
class _Overlong:
    """What is known of a line that is not held: its length, its last byte, and whether it is blank."""

    size_bytes: int = 0
    last: bytes = b""
    is_blank: bool = True

    def add(self, part: bytes) -> None:
        if part:
            self.size_bytes += len(part)
            self.last = part[-1:]
            self.is_blank = self.is_blank and not part.strip(JSON_BLANKS)


@dataclass(slots=True, kw_only=True)
class _Cutter:
    """``waiting`` begins a line that has no end yet; it holds no line feed."""

    maximum_row_bytes: int
    offset: int = 0
    line: int = 1
    waiting: list[bytes] = field(default_factory=list)
    waiting_bytes: int = 0
    overlong: _Overlong | None = None

    def take(self, block: bytes) -> Iterator[Piece]:
        start = 0
        if self.overlong is not None:
            feed = block.find(LINE_FEED)
            self.overlong.add(block if feed < 0 else block[:feed])
            if feed < 0:
                return
            yield from self._end_overlong()
            self.offset += 1
            start = feed + 1
        stop = block.rfind(LINE_FEED, start) + 1
        if stop > start:
            yield self._piece(b"".join((*self.waiting, block[start:stop])))
            self.waiting, self.waiting_bytes = [], 0
            start = stop
        if start < len(block):
            self.waiting.append(block[start:])
            self.waiting_bytes += len(block) - start
        if self.waiting_bytes > self.maximum_row_bytes + _AROUND_A_LINE_BYTES:
            self._begin_overlong()

    def end(self) -> Iterator[Piece]:
        if self.overlong is not None:
            yield from self._end_overlong()
        elif self.waiting_bytes:
            yield self._piece(b"".join(self.waiting))

    def _piece(self, text: bytes) -> Piece:
        offset, line = self.offset, self.line
        self.offset += len(text)
        self.line += text.count(LINE_FEED)
        if offset and text.startswith(BYTE_ORDER_MARK):
            # A mark counts at the file's very beginning alone: here it is seen behind the line end before it.
            return Piece(text=LINE_FEED + text, offset=offset - 1, first_line=line - 1)
        return Piece(text=text, offset=offset, first_line=line)

    def _begin_overlong(self) -> None:
        self.overlong = _Overlong()
        text = b"".join(self.waiting)
        self.waiting, self.waiting_bytes = [], 0
        self.overlong.add(text.removeprefix(BYTE_ORDER_MARK) if self.offset == 0 else text)
        self.offset += len(text) - self.overlong.size_bytes

    def _end_overlong(self) -> Iterator[Piece]:
        found = self.overlong
        assert found is not None, "an overlong line has begun"
        if not found.is_blank:
            size_bytes = found.size_bytes - (found.last == b"\r")
            yield Piece(text=b"", offset=self.offset, first_line=self.line, overlong_bytes=size_bytes)
        self.offset += found.size_bytes
        self.line += 1
        self.overlong = None


def cut_pieces(blocks: Iterable[bytes], *, maximum_row_bytes: int) -> Iterator[Piece]:
    """Cut a file at line feeds; a piece is about as long as a block, and never longer than a block and a row.

    Law: the texts end to end are the file, but for overlong lines; numbers and offsets are those of the whole file.

    Args:
        blocks: The file's bytes in order, as they are read.
        maximum_row_bytes: How long a line may be to be held.
    """
    cutter = _Cutter(maximum_row_bytes=maximum_row_bytes)
    for block in blocks:
        yield from cutter.take(block)
    yield from cutter.end()
