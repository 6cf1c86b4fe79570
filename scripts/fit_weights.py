"""Fit the tables of byte pairs: ``python scripts/fit_weights.py PIECES.npz``, in the environment of the checks.

Reads pieces of text that were counted by the reference tokenizers and writes ``pair-weights.i16.gz``.
``docs/estimates.md`` says of what the present tables were made. Members of the file:

- ``data``: UTF-8 of all pieces end to end; ``stops``: where each ends;
- ``ends``: for each byte, bit v says that a token of vocabulary v (in ``TABLE_ORDER``) ends with it;
- ``tokens``: a line a piece, its tokens in each vocabulary; ``has_ends``: where the tokens' bytes are the piece's own
  (a tokenizer that normalises has other ones, and then only its totals are used);
- ``shares``: how much each piece counts beside the others.

A weight begins as the share of its pairs between which a token ends. Then all move, so that the pieces' totals come
out (ridge, in relative error).
"""

from __future__ import annotations

import gzip
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from routing.domain.estimate.tables import (  # noqa: E402 - the tree is no installed package
    LARGEST_WEIGHT,
    PAIR_COUNT,
    TABLE_ORDER,
    TABLE_PATH,
    WEIGHT_SCALE,
)

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[Any]

# of a pair that was never seen, and as if each had been seen twice with it
USUAL_WEIGHT, USUAL_PAIRS = 0.3, 2.0
RIDGE, STEPS = 0.1, 40
# short pieces count for less: one token more or less is much of them
FEWEST_TOKENS, USUAL_FRAMING_TOKENS = 30.0, 10.0
ESCAPED = b'"\\\b\f\n\r\t'


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """All pieces' adjacent pairs of bytes end to end, where each piece's begin, and which tokens end within them."""

    indexes: Numbers
    starts: Numbers
    ends: Numbers

    @classmethod
    def of(cls, data: Numbers, stops: Numbers, ends: Numbers) -> Self:
        """Spell the pieces as they are weighed: a NUL at both ends and before what JSON escapes by a letter."""
        lengths = np.diff(stops, prepend=0)
        spelled = np.cumsum(1 + np.isin(data, np.frombuffer(ESCAPED, np.uint8)))
        pads = np.arange(len(stops)) * 2
        codes, marks = (np.zeros(int(spelled[-1]) + 2 * len(stops), np.uint8) for _ in range(2))
        places = spelled + np.repeat(pads, lengths)
        codes[places], marks[places] = data, ends
        starts = np.concatenate((np.zeros(1, np.int64), spelled[stops[:-1] - 1])) + pads
        return cls(indexes=codes[:-1] | codes[1:].astype(np.uint16) << 8, starts=starts, ends=marks[:-1])

    def sums(self, weights: Floats) -> Floats:
        """Add up weights by piece."""
        sums: Floats = np.add.reduceat(weights.take(self.indexes), self.starts)
        return sums

    def by_piece(self, values: Numbers) -> Numbers:
        """Give each pair its piece's value."""
        return np.repeat(values, np.diff(self.starts, append=len(self.indexes)))


def end_shares(pairs: Pairs, vocabulary: int, has_ends: Numbers) -> Floats:
    """Give the weights to begin with."""
    known = pairs.by_piece(has_ends)
    indexes, ended = pairs.indexes[known], pairs.ends[known] >> np.uint8(vocabulary) & np.uint8(1)
    seen = np.bincount(indexes, minlength=PAIR_COUNT)
    shares: Floats = (np.bincount(indexes, ended, PAIR_COUNT) + USUAL_WEIGHT * USUAL_PAIRS) / (seen + USUAL_PAIRS)
    shares[0] = 0
    return shares


def drawn_to_totals(pairs: Pairs, begin: Floats, tokens: Floats, shares: Floats) -> Floats:
    """Move weights so that totals come out: conjugate gradients on relative errors plus ``RIDGE`` x what moved."""
    scale = np.sqrt(shares) / np.maximum(tokens + USUAL_FRAMING_TOKENS, FEWEST_TOKENS)

    def slope_of(left: Floats, moved: Floats) -> Floats:
        slope: Floats = np.bincount(pairs.indexes, pairs.by_piece(scale * left), PAIR_COUNT) - RIDGE * moved
        slope[0] = 0
        return slope

    moved = np.zeros_like(begin)
    left = scale * (tokens - pairs.sums(begin))
    direction = slope_of(left, moved)
    size = float(direction @ direction)
    for _ in range(STEPS):
        change = scale * pairs.sums(direction)
        step = size / (float(change @ change) + RIDGE * float(direction @ direction))
        moved += step * direction
        left -= step * change
        slope = slope_of(left, moved)
        size, before = float(slope @ slope), size
        direction = slope + size / before * direction
    return begin + moved


def main() -> None:
    """Fit and write."""
    pieces = np.load(sys.argv[1])
    pairs = Pairs.of(pieces["data"], pieces["stops"], pieces["ends"])
    tables = []
    for vocabulary, name in enumerate(TABLE_ORDER):
        tokens = pieces["tokens"][:, vocabulary].astype(np.float64)
        begin = end_shares(pairs, vocabulary, pieces["has_ends"][:, vocabulary])
        weights = drawn_to_totals(pairs, begin, tokens, pieces["shares"].astype(np.float64))
        errors = [100 * np.abs(pairs.sums(each) / tokens - 1).mean() for each in (begin, weights)]
        sys.stdout.write(f"{name}: off by {errors[0]:.2f} % a piece, then {errors[1]:.2f} %\n")
        tables.append(np.clip(np.rint(weights * WEIGHT_SCALE), -LARGEST_WEIGHT, LARGEST_WEIGHT).astype("<i2"))
    TABLE_PATH.write_bytes(gzip.compress(np.stack(tables).tobytes(), mtime=0))


if __name__ == "__main__":
    main()
