"""Rows of a job that succeeded, many at a time: no object is made for any of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AnsweredRows:
    """Rows that all succeeded, read together: what a ``RowResult`` for each would say, without an object for any.

    One entry a row, in the provider's order. ``tokens`` has a column for each field of ``TokenUsage``, in their
    order; nothing was wrong with the numbers.
    """

    status_code: int
    rows: npt.NDArray[np.int64]
    tokens: npt.NDArray[np.int64]
    bodies: Sequence[bytes]

    def __len__(self) -> int:
        """Give the number of rows."""
        return len(self.rows)

    def part(self, first: int, last: int) -> Self:
        """Give the rows from one place to before another."""
        return type(self)(
            status_code=self.status_code,
            rows=self.rows[first:last],
            tokens=self.tokens[first:last],
            bodies=self.bodies[first:last],
        )
