"""Bodies of answers in a job's blob: read many at once, wherever they lie."""

from __future__ import annotations

import os
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]


def read_bodies(descriptor: int, offsets: Numbers, lengths: Numbers) -> list[bytes]:
    """Give bodies in the order in which they are asked for.

    What lies one behind another is read in one call to the system. A job's bodies are written in long stretches of
    ascending rows (:meth:`routing.job_results.JobResults.take_bodies`), so a few calls give many neighbouring rows.
    """
    order = np.argsort(offsets, kind="stable")
    starts = offsets[order]
    stops = starts + lengths[order]
    breaks = np.flatnonzero(starts[1:] != stops[:-1]) + 1
    found: list[bytes] = []
    for first, last in pairwise((0, *breaks.tolist(), len(order))):
        start = int(starts[first])
        stretch = os.pread(descriptor, int(stops[last - 1]) - start, start)
        spans = zip((starts[first:last] - start).tolist(), (stops[first:last] - start).tolist(), strict=True)
        found += [stretch[body_start:body_stop] for body_start, body_stop in spans]
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.arange(len(order))
    return [found[place] for place in places.tolist()]
