"""Quoted against settled: how far rows lay apart, in buckets that add up over batches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from routing.domain.learning.spreads import Scale, count_ratios
from routing.domain.learning.tallies import ONE_PPM

INPUT_ERRORS = Scale(widest=2.0, half_count=100)
OUTPUT_ERRORS = Scale(widest=64.0, half_count=60)
_LARGEST_ERROR_PPM = 1_000 * ONE_PPM

Numbers = npt.NDArray[np.int64]


def error_counts(scale: Scale, quoted: Numbers, settled: Numbers) -> list[int]:
    """Count rows by settled / quoted."""
    return [int(count) for count in count_ratios(scale, settled, quoted)]


def absolute_error_ppm_sum(quoted: Numbers, settled: Numbers) -> int:
    """Add up |quoted / settled - 1| over rows, each at most a thousandfold."""
    errors = np.abs(np.maximum(quoted, 1) * ONE_PPM // np.maximum(settled, 1) - ONE_PPM)
    return int(np.minimum(errors, _LARGEST_ERROR_PPM).sum())


def bias_ppm(quoted_tokens: int, settled_tokens: int) -> int:
    """Give quoted / settled - 1 of sums: positive where too much was quoted."""
    return round((quoted_tokens - settled_tokens) * ONE_PPM / settled_tokens) if settled_tokens else 0


def absolute_percentile_ppm(scale: Scale, counts: Sequence[int], per_mille: int) -> int:
    """Give the |quoted / settled - 1| that this share of the rows does not exceed, to the width of a bucket."""
    places = np.arange(scale.count) - scale.half_count
    errors = np.abs(np.power(scale.widest, -places / scale.half_count) - 1)
    order = np.argsort(errors, kind="stable")
    reached = np.searchsorted(np.cumsum(np.array(counts)[order]), sum(counts) * per_mille / 1_000)
    return round(float(errors[order[min(int(reached), scale.count - 1)]]) * ONE_PPM)
