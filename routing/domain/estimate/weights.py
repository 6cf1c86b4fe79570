r"""Sums of pair weights over the strings of many rows at once.

The strings come as JSON literals, quotes and escapes included, and are never decoded one by one: quotes and the
backslash of a simple escape become NUL, the letter after it becomes the byte it stands for. Only rows with a
``\u`` escape are decoded. Each row begins at an even byte, so its sum does not depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Self

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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowTexts:
    r"""The strings of many rows made ready for weighing by any vocabulary.

    ``text_bytes`` are the UTF-8 bytes each row's strings stand for. ``pairs`` are all rows' byte pairs end to end;
    row r's begin at ``starts[r]``. Rows with a ``\u`` escape have their pairs in ``decoded`` instead.
    """

    text_bytes: npt.NDArray[np.int64]
    pairs: npt.NDArray[np.uint16]
    starts: npt.NDArray[np.int64]
    decoded: dict[int, npt.NDArray[np.uint16]]

    def __len__(self) -> int:
        """Give the number of rows."""
        return len(self.starts)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowLiterals:
    """The JSON string literals of rows end to end, and how many each row has."""

    flat: Sequence[Literal]
    counts: npt.NDArray[np.int64]

    @classmethod
    def of(cls, rows: Sequence[Sequence[Literal]]) -> Self:
        """Make it from one sequence a row."""
        counts = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        return cls(flat=list(chain.from_iterable(rows)), counts=counts)


def prepare_texts(literals: RowLiterals, order: npt.NDArray[np.int64] | None = None) -> RowTexts:
    """Lay the strings of rows end to end.

    Args:
        literals: JSON string literals, quotes included, valid JSON and UTF-8.
        order: The rows in the order in which they shall lie; as they are if None.
    """
    lengths = np.fromiter(map(len, literals.flat), dtype=np.int64, count=len(literals.flat))
    counts = literals.counts
    if order is None:
        sequence = np.arange(len(lengths))
    else:
        firsts = np.cumsum(counts) - counts
        counts = counts[order]
        sequence = np.repeat(firsts[order] - np.cumsum(counts) + counts, counts) + np.arange(len(lengths))
    lengths = lengths[sequence]
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    last = np.cumsum(counts)
    row_bytes = ends[last] - ends[last - counts]
    pads = np.where(row_bytes == 0, 2, row_bytes & 1)
    buffer = _joined(literals.flat, sequence, last, pads)
    starts = np.cumsum(row_bytes + pads) - (row_bytes + pads)
    opening = ends[:-1] + np.repeat(np.cumsum(pads) - pads, counts)
    codes = np.frombuffer(buffer, dtype=np.uint8)
    codes[opening] = 0
    codes[opening + lengths - 1] = 0
    text_bytes = row_bytes - 2 * counts
    decoded: dict[int, npt.NDArray[np.uint16]] = {}
    for row in _unescape_simple(codes, starts, text_bytes):
        mine = [literals.flat[index] for index in sequence[last[row] - counts[row] : last[row]].tolist()]
        text = b"\0" + "\0\0".join(_decode_strings(b"[" + b",".join(mine) + b"]")).encode() + b"\0"
        text_bytes[row] = len(text) - 2 * len(mine)
        decoded[row] = np.frombuffer(text + b"\0" * (len(text) & 1), dtype="<u2")
    return RowTexts(
        text_bytes=text_bytes, pairs=np.frombuffer(buffer, dtype="<u2"), starts=starts >> 1, decoded=decoded
    )


def weigh_rows(texts: RowTexts, first: int, stop: int, vocabulary: Vocabulary) -> npt.NDArray[np.int64]:
    """Give tokens x ``WEIGHT_SCALE`` of the rows from ``first`` up to but not including ``stop``."""
    end = texts.starts[stop] if stop < len(texts) else len(texts.pairs)
    begin = texts.starts[first]
    scaled = _sums(texts.pairs[begin:end], texts.starts[first:stop] - begin, vocabulary.weights)
    for row, pairs in texts.decoded.items():
        if first <= row < stop:
            scaled[row - first] = _sums(pairs, np.zeros(1, np.int64), vocabulary.weights)[0]
    return scaled


def _joined(
    flat: Sequence[Literal],
    sequence: npt.NDArray[np.int64],
    row_ends: npt.NDArray[np.int64],
    pads: npt.NDArray[np.int64],
) -> bytearray:
    """Join literals in sequence, with as many NULs after each row as its pad says."""
    parts = [*flat, b"\0", b"\0\0"]
    padded_rows = np.flatnonzero(pads)
    with_pads = np.insert(sequence, row_ends[padded_rows], len(flat) - 1 + pads[padded_rows])
    return bytearray().join(map(parts.__getitem__, with_pads.tolist()))


def _unescape_simple(
    codes: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], text_bytes: npt.NDArray[np.int64]
) -> list[int]:
    r"""Turn two-byte escapes into NUL and their byte, in place; give the rows that hold a ``\u`` escape."""
    escapes = np.flatnonzero(codes == BACKSLASH)
    if not escapes.size:
        return []
    escapes = _true_escapes(escapes)
    letters = codes[escapes + 1]
    codes[escapes + 1] = _UNESCAPED[letters]
    codes[escapes] = 0
    before = np.searchsorted(escapes, starts)
    text_bytes -= np.diff(before, append=len(escapes))
    unicode_escapes = escapes[letters == LETTER_U]
    return sorted(set((np.searchsorted(starts, unicode_escapes, side="right") - 1).tolist()))


def _true_escapes(backslashes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Drop each backslash that is itself escaped: within a run the first, third, ... one begins an escape."""
    fresh = np.ones(len(backslashes), dtype=bool)
    fresh[1:] = np.diff(backslashes) != 1
    if fresh.all():
        return backslashes
    run_start = np.repeat(backslashes[fresh], np.diff(np.append(np.flatnonzero(fresh), len(backslashes))))
    begins: npt.NDArray[np.int64] = backslashes[(backslashes - run_start) & 1 == 0]
    return begins


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
