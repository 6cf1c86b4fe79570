"""Sums of pair weights over the strings of many rows at once.

The strings come as JSON literals, quotes and escapes included, and are never decoded one by one: quotes and the
backslash of a simple escape become NUL, the letter after it becomes the byte it stands for. Only rows with a
``\\u`` escape are decoded. Each row begins at an even byte, so its sum does not depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import msgspec
import numpy as np
import numpy.typing as npt

from routing.domain.estimate.tables import Vocabulary

PIECE_PAIRS = 65_536
BACKSLASH, QUOTE, LETTER_U = 0x5C, 0x22, 0x75

Literal = msgspec.Raw | bytes
_decode_strings = msgspec.json.Decoder(list[str]).decode

_UNESCAPED = np.arange(256, dtype=np.uint8)
for _letter, _byte in ((b"b", 8), (b"f", 12), (b"n", 10), (b"r", 13), (b"t", 9)):
    _UNESCAPED[_letter[0]] = _byte


@dataclass(frozen=True, slots=True, kw_only=True)
class WeighedRows:
    """Per row: ``scaled_tokens`` (tokens x ``WEIGHT_SCALE``) and ``text_bytes``, the UTF-8 bytes the text stands for."""

    scaled_tokens: npt.NDArray[np.int64]
    text_bytes: npt.NDArray[np.int64]


def weigh_rows(literals: Sequence[Sequence[Literal]], vocabulary: Vocabulary) -> WeighedRows:
    """Sum the weights of each row's JSON string literals.

    Args:
        literals: For each row its string literals, quotes included, valid JSON and UTF-8.
        vocabulary: Whose weights.
    """
    row_count = len(literals)
    lengths = np.fromiter(map(len, chain.from_iterable(literals)), dtype=np.int64)
    counts = np.fromiter(map(len, literals), dtype=np.int64, count=row_count)
    firsts = np.cumsum(counts) - counts
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    row_bytes = ends[firsts + counts] - ends[firsts]
    pads = np.where(row_bytes == 0, 2, row_bytes & 1)
    buffer = _joined(literals, pads)
    starts = np.cumsum(row_bytes + pads) - (row_bytes + pads)
    shift = np.repeat(np.cumsum(pads) - pads, counts)
    opening = ends[:-1] + shift
    codes = np.frombuffer(buffer, dtype=np.uint8)
    codes[opening] = 0
    codes[opening + lengths - 1] = 0
    text_bytes = row_bytes - 2 * counts
    escaped_rows = _unescape_simple(codes, starts, text_bytes)
    scaled = _sums(np.frombuffer(buffer, dtype="<u2"), starts >> 1, vocabulary.weights)
    for row in escaped_rows:
        text = b"\0" + "\0\0".join(_decode_strings(b"[" + b",".join(literals[row]) + b"]")).encode() + b"\0"
        padded = text + b"\0" * (len(text) & 1)
        scaled[row] = _sums(np.frombuffer(padded, dtype="<u2"), np.zeros(1, np.int64), vocabulary.weights)[0]
        text_bytes[row] = len(text) - 2 * int(counts[row])
    return WeighedRows(scaled_tokens=scaled, text_bytes=text_bytes)


def _joined(literals: Sequence[Sequence[Literal]], pads: npt.NDArray[np.int64]) -> bytearray:
    fillers = ((), (b"\0",), (b"\0\0",))
    padded = zip(literals, [fillers[count] for count in pads.tolist()], strict=True)
    return bytearray().join(chain.from_iterable(chain.from_iterable(padded)))


def _unescape_simple(
    codes: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], text_bytes: npt.NDArray[np.int64]
) -> list[int]:
    """Turn two-byte escapes into NUL and their byte, in place; give the rows that hold a ``\\u`` escape."""
    escapes = np.flatnonzero(codes == BACKSLASH)
    if not escapes.size:
        return []
    escapes = _true_escapes(escapes)
    letters = codes[escapes + 1]
    rows = np.searchsorted(starts, escapes, side="right") - 1
    codes[escapes + 1] = _UNESCAPED[letters]
    codes[escapes] = 0
    text_bytes -= np.bincount(rows, minlength=len(starts))
    unicode_rows: list[int] = np.unique(rows[letters == LETTER_U]).tolist()
    return unicode_rows


def _true_escapes(backslashes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Drop each backslash that is itself escaped: within a run the first, third, ... one begins an escape."""
    fresh = np.ones(len(backslashes), dtype=bool)
    fresh[1:] = np.diff(backslashes) != 1
    if fresh.all():
        return backslashes
    run_start = np.repeat(backslashes[fresh], np.diff(np.append(np.flatnonzero(fresh), len(backslashes))))
    return backslashes[(backslashes - run_start) & 1 == 0]


def _sums(
    pairs: npt.NDArray[np.uint16], starts: npt.NDArray[np.int64], weights: npt.NDArray[np.int32]
) -> npt.NDArray[np.int64]:
    """Sum weights from each start to the next, in pieces that stay in the cache; a piece cannot overflow 32 bits."""
    sums = np.zeros(len(starts), dtype=np.int64)
    for piece_start in range(0, len(pairs), PIECE_PAIRS):
        piece = weights.take(pairs[piece_start : piece_start + PIECE_PAIRS])
        first = int(np.searchsorted(starts, piece_start, side="right")) - 1
        last = int(np.searchsorted(starts, piece_start + len(piece), side="left"))
        offsets = starts[first:last] - piece_start
        offsets[0] = 0
        sums[first:last] += np.add.reduceat(piece, offsets)
    return sums
