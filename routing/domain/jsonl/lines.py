"""Where the lines of a body lie, and how many names each one holds: one pass of numpy, no line is copied."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
JSON_BLANKS = b" \t\r"
QUOTE, BACKSLASH, LINE_FEED, CARRIAGE_RETURN, OPENING_BRACE = b'"\\\n\r{'
ENCODING_PIECE_BYTES = 131_072
CONTINUATION_MASK, CONTINUATION = 0xC0, 0x80
UNCOUNTABLE = 1 << 20

# what the byte after a closing quote says of the string: a name, a value, or a spelling that is not counted here
_AFTER_QUOTE = np.full(256, UNCOUNTABLE, dtype=np.int64)
_AFTER_QUOTE[list(b",]}")] = 0
_AFTER_QUOTE[ord(":")] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """The lines that are not blank, as bytes in ``body`` without line end, and their numbers from 1."""

    body: bytes
    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]

    def __len__(self) -> int:
        """Give the number of lines that are not blank."""
        return len(self.offsets)

    def text(self, row: int) -> bytes:
        """Give the bytes of one line."""
        start = int(self.offsets[row])
        return self.body[start : start + int(self.lengths[row])]


def split_lines(body: bytes) -> Lines:
    """Cut at LF alone, drop a CR before it, skip lines of JSON white space and a byte-order mark at the start."""
    if not body:
        none = np.zeros(0, dtype=np.int64)
        return Lines(body=body, offsets=none, lengths=none, numbers=none)
    codes = np.frombuffer(body, dtype=np.uint8)
    feeds = np.flatnonzero(codes == LINE_FEED)
    offsets = np.concatenate((np.zeros(1, np.int64), feeds + 1))
    ends = np.concatenate((feeds, np.full(1, len(body))))
    if body.startswith(BYTE_ORDER_MARK):
        offsets[0] = len(BYTE_ORDER_MARK)
    ends -= (ends > offsets) & (codes[ends - 1] == CARRIAGE_RETURN)
    filled = ends > offsets
    holds_row = filled & (codes[np.where(filled, offsets, 0)] == OPENING_BRACE)
    for index in np.flatnonzero(filled & ~holds_row).tolist():
        holds_row[index] = bool(body[offsets[index] : ends[index]].strip(JSON_BLANKS))
    numbers = np.flatnonzero(holds_row) + 1
    return Lines(body=body, offsets=offsets[holds_row], lengths=(ends - offsets)[holds_row], numbers=numbers)


def is_utf8(body: bytes) -> bool:
    """Say whether the body is UTF-8 throughout, without ever holding its text whole."""
    if body.isascii():
        return True
    start = 0
    while start < len(body):
        end = min(len(body), start + ENCODING_PIECE_BYTES)
        while end < len(body) and end > start and body[end] & CONTINUATION_MASK == CONTINUATION:
            end -= 1
        try:
            body[start : max(end, start + 1)].decode()
        except UnicodeDecodeError:
            return False
        start = max(end, start + 1)
    return True


def count_names(lines: Lines) -> npt.NDArray[np.int64]:
    """Count the names (at all depths) of each line that holds valid JSON; negative or huge where it cannot be told.

    A string is a name if a colon follows its closing quote at once. Quotes alternate, once those that a backslash
    escapes are left out; a line in which white space follows a closing quote counts as ``UNCOUNTABLE`` or more.
    """
    codes = np.frombuffer(lines.body, dtype=np.uint8)
    quotes = np.flatnonzero(codes == QUOTE)
    escaped = codes[quotes - 1] == BACKSLASH
    if escaped.any():
        doubled = np.flatnonzero(escaped & (codes[quotes - 2] == BACKSLASH))
        escaped[doubled] = [_ends_in_odd_run(lines.body, position) for position in quotes[doubled].tolist()]
        quotes = quotes[~escaped]
    first = np.searchsorted(quotes, lines.offsets)
    after = np.searchsorted(quotes, lines.offsets + lines.lengths)
    kinds = _AFTER_QUOTE[codes[np.minimum(quotes[1::2] + 1, len(codes) - 1)]]
    running = np.concatenate((np.zeros(1, np.int64), np.cumsum(kinds)))
    counts: npt.NDArray[np.int64] = running[after // 2] - running[first // 2]
    counts[(first | after) & 1 == 1] = -1
    return counts


def _ends_in_odd_run(body: bytes, position: int) -> bool:
    """Say whether an odd number of backslashes stands right before a position."""
    start = position
    while start and body[start - 1] == BACKSLASH:
        start -= 1
    return (position - start) % 2 == 1
