"""How far what was settled lay from what was quoted: counts of ratios by buckets, forgotten as tallies are."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from routing.domain.learning.tallies import ONE_PPM

HALF_LIFE_ROWS = 2_000.0
Numbers = npt.NDArray[np.int64]
Counts = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Buckets of equal width in the logarithm of a ratio, from 1 / ``widest`` to ``widest``; 1 is a bucket's middle."""

    widest: float
    half_count: int

    @property
    def count(self) -> int:
        """Buckets altogether."""
        return 2 * self.half_count + 1


INPUT_SCALE = Scale(widest=2.0, half_count=140)
OUTPUT_SCALE = Scale(widest=64.0, half_count=140)


def count_ratios(scale: Scale, settled: Numbers, quoted: Numbers) -> Counts:
    """Count rows by the bucket of settled / quoted; what lies outside is in the last bucket of its side."""
    ratios = np.log(np.maximum(settled, 1) / np.maximum(quoted, 1)) / math.log(scale.widest)
    places = np.clip(np.rint(ratios * scale.half_count).astype(np.int64) + scale.half_count, 0, scale.count - 1)
    return np.bincount(places, minlength=scale.count).astype(np.float64)


def with_rows(remembered: bytes, rows: Counts) -> bytes:
    """Give the counts after more rows. Stored as 32-bit floats; empty bytes are no counts."""
    before = read_counts(remembered, len(rows)) * 0.5 ** (float(rows.sum()) / HALF_LIFE_ROWS)
    stored: bytes = (before + rows).astype("<f4").tobytes()
    return stored


def read_counts(stored: bytes, count: int) -> Counts:
    """Read what :func:`with_rows` gave."""
    return np.frombuffer(stored, dtype="<f4").astype(np.float64) if stored else np.zeros(count)


def percentile_ppm(scale: Scale, counts: Counts, per_mille: int) -> int:
    """Give the ratio below which that share of the rows lies, as the middle of its bucket."""
    reached = np.searchsorted(np.cumsum(counts), counts.sum() * per_mille / 1_000)
    place = min(int(reached), scale.count - 1) - scale.half_count
    return round(math.pow(scale.widest, place / scale.half_count) * ONE_PPM)
