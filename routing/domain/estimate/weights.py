"""Sums of pair weights over the strings of many rows at once.

A string is weighed as it is *spelled*: its UTF-8 bytes, with a NUL before each character that JSON escapes by one
letter (quote, backslash, five controls) and a NUL at both ends. So a JSON literal is spelled without being decoded
(:mod:`spelling`), and a text weighs the same however it was escaped. Each row begins at an even byte, and the two NULs
where rows meet weigh nothing: its sum does not depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Self

import msgspec
import numpy as np
import numpy.typing as npt

from routing.domain.estimate.spelling import DROPPED, Positions, add_by_row, spell, without_dropped
from routing.domain.estimate.tables import Vocabulary

PIECE_PAIRS = 32_768

Literal = msgspec.Raw | bytes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowTexts:
    """The strings of many rows made ready for weighing by any vocabulary.

    ``text_bytes`` are the UTF-8 bytes each row's strings stand for. ``pairs`` are all rows' bytes end to end, two
    by two; row r's begin at ``starts[r]``.
    """

    text_bytes: Positions
    pairs: npt.NDArray[np.uint16]
    starts: Positions

    def __len__(self) -> int:
        """Give the number of rows."""
        return len(self.starts)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowLiterals:
    """The JSON string literals of rows end to end, the bytes of each, how many each row has and where its end."""

    flat: Sequence[Literal]
    lengths: Positions
    counts: Positions
    stops: Positions

    @classmethod
    def of(cls, rows: Sequence[Sequence[Literal]]) -> Self:
        """Make it from one sequence a row."""
        counts = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        return cls.end_to_end(list(chain.from_iterable(rows)), counts)

    @classmethod
    def end_to_end(cls, flat: Sequence[Literal], counts: Positions) -> Self:
        """Make it from all rows' literals and how many each row has."""
        lengths = np.fromiter(map(len, flat), dtype=np.int64, count=len(flat))
        return cls(flat=flat, lengths=lengths, counts=counts, stops=np.cumsum(counts))

    def of_row(self, row: int) -> Sequence[Literal]:
        """Give one row's literals."""
        stop = int(self.stops[row])
        return self.flat[stop - int(self.counts[row]) : stop]


def prepare_texts(literals: RowLiterals, order: Positions | None = None) -> RowTexts:
    """Lay the strings of rows end to end and spell them.

    Args:
        literals: JSON string literals, quotes included, valid JSON and UTF-8.
        order: The rows in the order in which they shall lie; as they are if None.
    """
    lengths, counts = literals.lengths, literals.counts
    sequence = np.arange(len(lengths))
    if order is not None:
        firsts = np.cumsum(counts) - counts
        counts = counts[order]
        sequence += np.repeat(firsts[order] - np.cumsum(counts) + counts, counts)
        lengths = lengths[sequence]
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    last = np.cumsum(counts)
    row_bytes = ends[last] - ends[last - counts]
    # one NUL or two: if spelling drops an odd number of bytes, one NUL less makes the row even again
    pads = 2 - (row_bytes & 1)
    codes = np.frombuffer(_joined(literals.flat, sequence, last, pads), dtype=np.uint8)
    starts = np.cumsum(row_bytes + pads) - (row_bytes + pads)
    opening = ends[:-1] + np.repeat(np.cumsum(pads) - pads, counts)
    codes[opening] = codes[opening + lengths - 1] = 0
    nul_counts, dropped_counts = spell(codes, starts)
    text_bytes = row_bytes - 2 * counts - nul_counts
    if dropped_counts is not None:
        is_odd = dropped_counts & 1
        codes[(starts + row_bytes)[is_odd == 1]] = DROPPED
        codes = without_dropped(codes)
        starts = starts - np.cumsum(dropped_counts + is_odd) + dropped_counts + is_odd
        text_bytes -= dropped_counts
    return RowTexts(text_bytes=text_bytes, pairs=codes.view("<u2"), starts=starts >> 1)


def weigh_rows(texts: RowTexts, first: int, stop: int, vocabulary: Vocabulary) -> Positions:
    """Give tokens x ``WEIGHT_SCALE`` of the rows from ``first`` up to but not including ``stop``."""
    begin = texts.starts[first]
    end = texts.starts[stop] if stop < len(texts) else len(texts.pairs)
    return _sums(texts.pairs[begin:end], texts.starts[first:stop] - begin, vocabulary.weights)


def _joined(flat: Sequence[Literal], sequence: Positions, row_ends: Positions, pads: Positions) -> bytearray:
    """Join literals in sequence, with as many NULs after each row as its pad says."""
    parts = [*flat, b"\0", b"\0\0"]
    with_pads = np.empty(len(sequence) + len(pads), dtype=np.int64)
    is_literal = np.ones(len(with_pads), dtype=bool)
    places = row_ends + np.arange(len(pads))
    is_literal[places] = False
    with_pads[places] = len(flat) - 1 + pads
    with_pads[is_literal] = sequence
    return bytearray().join(map(parts.__getitem__, with_pads.tolist()))


def between(pairs: npt.NDArray[np.uint16]) -> npt.NDArray[np.uint16]:
    """Give the pairs that lie across two of these: the second byte of each and the first of the next one."""
    across: npt.NDArray[np.uint16] = pairs.view(np.uint8)[1:-1].view("<u2")
    return across


def _sums(pairs: npt.NDArray[np.uint16], starts: Positions, weights: npt.NDArray[np.int16]) -> Positions:
    """Sum weights from each start to the next, in pieces that stay in the cache; a piece cannot overflow 32 bits."""
    sums = np.zeros(len(starts), dtype=np.int64)
    across = between(pairs)
    room = np.empty((2, min(PIECE_PAIRS, len(pairs))), dtype=weights.dtype)
    for piece_start in range(0, len(pairs), PIECE_PAIRS):
        indexes, others = (each[piece_start : piece_start + PIECE_PAIRS] for each in (pairs, across))
        # any 16 bits are in the table: "wrap" spares numpy the pass that checks them, a fifth of the time
        piece = weights.take(indexes, out=room[0, : len(indexes)], mode="wrap")
        # behind the last pair of all comes nothing, which weighs as little as the NULs where rows meet
        piece[: len(others)] += weights.take(others, out=room[1, : len(others)], mode="wrap")
        add_by_row(sums, piece, piece_start, starts)
    return sums
