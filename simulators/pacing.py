"""How fast a simulated provider works: pure arithmetic on instants, no worker."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Work at one speed: from `started_at` (Unix seconds) with `rows_before` rows already done."""

    started_at: float
    rows_before: int
    rows_per_second: float | None

    def rows_due(self, at: float) -> int:
        """How many rows are done at `at`; without a speed every row is done at once."""
        if self.rows_per_second is None:
            return _EVERY_ROW if at >= self.started_at else self.rows_before
        elapsed_seconds = max(0.0, at - self.started_at)
        # A whole number of seconds at a whole speed must give a whole row, whatever the float says.
        return self.rows_before + math.floor(elapsed_seconds * self.rows_per_second + 1e-6)

    def done_at(self, row_count: int) -> float:
        """The instant (Unix seconds) at which `row_count` rows are done."""
        remaining_rows = max(0, row_count - self.rows_before)
        if self.rows_per_second is None or remaining_rows == 0:
            return self.started_at
        if self.rows_per_second == 0:
            return math.inf
        return self.started_at + remaining_rows / self.rows_per_second


_EVERY_ROW = 1 << 62
