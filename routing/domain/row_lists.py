"""Which rows a provider job carries: increasing row numbers, as compressed differences.

50,000 consecutive rows take about 100 bytes, so rows of a job are no rows of a table.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt


def pack_rows(rows: Iterable[int] | npt.NDArray[np.int64]) -> bytes:
    """Give the compressed form of strictly increasing row numbers (from 0)."""
    numbers = np.asarray(rows if isinstance(rows, np.ndarray) else list(rows), dtype="<i8")
    differences = np.diff(numbers, prepend=-1)
    assert (differences > 0).all(), "row numbers increase"
    return zlib.compress(differences.astype("<i4").tobytes())


def unpack_rows(packed: bytes | memoryview) -> npt.NDArray[np.int64]:
    """Give the row numbers of a packed list, in increasing order."""
    differences = np.frombuffer(zlib.decompress(bytes(packed)), dtype="<i4")
    return np.cumsum(differences, dtype=np.int64) - 1
