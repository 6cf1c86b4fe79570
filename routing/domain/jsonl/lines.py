"""Where the lines of a body lie, and how many quotes each one holds: by numpy, no line is copied."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from routing.domain.estimate.spelling import find_bytes

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
JSON_BLANKS = b" \t\r"
CARRIAGE_RETURN_TEXT = b"\r"
QUOTE, LINE_FEED, CARRIAGE_RETURN, OPENING_BRACE = b'"\n\r{'
ENCODING_PIECE_BYTES = 131_072
CONTINUATION_MASK, CONTINUATION = 0xC0, 0x80


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
    feeds = find_bytes(codes, LINE_FEED)
    offsets = np.concatenate((np.zeros(1, np.int64), feeds + 1))
    ends = np.concatenate((feeds, np.full(1, len(body))))
    if body.startswith(BYTE_ORDER_MARK):
        offsets[0] = len(BYTE_ORDER_MARK)
    if CARRIAGE_RETURN_TEXT in body:
        ends -= (ends > offsets) & (codes[ends - 1] == CARRIAGE_RETURN)
    lengths = ends - offsets
    opens = codes[np.minimum(offsets, len(body) - 1)] == OPENING_BRACE
    holds_row = opens & (lengths > 0)
    for index in np.flatnonzero(~opens & (lengths > 0)).tolist():
        holds_row[index] = bool(body[offsets[index] : ends[index]].strip(JSON_BLANKS))
    rows = np.flatnonzero(holds_row)
    return Lines(body=body, offsets=offsets[rows], lengths=lengths[rows], numbers=rows + 1)


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


def count_quotes(lines: Lines) -> npt.NDArray[np.int64]:
    """Count the quotes of each line, escaped ones too."""
    quotes = find_bytes(np.frombuffer(lines.body, dtype=np.uint8), QUOTE)
    return np.searchsorted(quotes, lines.offsets + lines.lengths) - np.searchsorted(quotes, lines.offsets)
