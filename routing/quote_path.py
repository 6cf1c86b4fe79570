"""How long the steps of quotes take: counted in this process, and added up over all processes for the last minute.

A quote leaves its timings in a queue, which costs it nothing that can be measured; they are counted into fixed buckets
when the process reports, each 5 s.
"""

from __future__ import annotations

import os
import socket
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from ground import clock
from routing.models import QuotePathReport

# Upper bounds in milliseconds; what is longer has a last bucket of its own.
BOUNDS_MS: Final = (0.1, 0.25, 0.5, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 50, 75, 100, 150, 250, 500, 1_000, 2_500, 5_000)
STEPS: Final = (
    *("admit", "read", "parse", "resolve", "estimate", "score", "split", "price", "store", "persist"),
    "total",
)
WINDOW: Final = timedelta(seconds=60)
_KEPT: Final = timedelta(minutes=3)
_WAITING_AT_MOST: Final = 100_000

_waiting: deque[Mapping[str, float]] = deque(maxlen=_WAITING_AT_MOST)
PROCESS: Final = f"{socket.gethostname()[:40]}:{os.getpid()}:{time.time_ns() // 1_000_000}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """One step's counts by bucket, and the sum of its times in microseconds."""

    counts: tuple[int, ...] = (0,) * (len(BOUNDS_MS) + 1)
    sum_us: int = 0

    def __add__(self, other: StepTimes) -> StepTimes:
        """Add up two reports."""
        counts = tuple(mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True))
        return StepTimes(counts=counts, sum_us=self.sum_us + other.sum_us)

    @property
    def count(self) -> int:
        """How often the step was done."""
        return sum(self.counts)

    def quantile_ms(self, per_mille: int) -> float | None:
        """Give the time that this share of the steps did not exceed, by a straight line within its bucket.

        None where there are none; in the last bucket its lower bound.
        """
        wanted, before = self.count * per_mille / 1_000, 0
        for place, count in enumerate(self.counts):
            if count and before + count >= wanted:
                low = BOUNDS_MS[place - 1] if place else 0.0
                high = BOUNDS_MS[place] if place < len(BOUNDS_MS) else low
                return low + (high - low) * (wanted - before) / count
            before += count
        return None


Steps = dict[str, StepTimes]


def observe(timings_ms: Mapping[str, float]) -> None:
    """Leave one quote's steps to be counted."""
    _waiting.append(timings_ms)


def count_waiting() -> Steps:
    """Count what was left since the last call."""
    counts = {step: [0] * (len(BOUNDS_MS) + 1) for step in STEPS}
    sums = dict.fromkeys(STEPS, 0.0)
    while _waiting:
        for step, spent_ms in _waiting.popleft().items():
            if step in counts:
                counts[step][bisect_left(BOUNDS_MS, spent_ms)] += 1
                sums[step] += spent_ms
    return {
        step: StepTimes(counts=tuple(counts[step]), sum_us=round(sums[step] * 1_000))
        for step in STEPS
        if any(counts[step])
    }


@dataclass(slots=True, kw_only=True)
class Reporter:
    """Writes what this process did since its last report, and since it began."""

    process: str = PROCESS
    totals: Steps = field(default_factory=dict)
    unsaid: Steps = field(default_factory=dict)

    def report(self, load: Mapping[str, Any]) -> None:
        """Write one report; what could not be written is in the next one.

        Args:
            load: Of the gate, and the versions that the process holds.
        """
        counted = count_waiting()
        self.totals = added((self.totals, counted))
        self.unsaid = added((self.unsaid, counted))
        at = clock.now()
        QuotePathReport.objects.create(
            process=self.process,
            reported_at=at,
            recent=_plain(self.unsaid),
            totals=_plain(self.totals),
            load=dict(load),
        )
        self.unsaid = {}
        QuotePathReport.objects.filter(reported_at__lt=at - _KEPT).delete()


def added(reports: Iterable[Mapping[str, StepTimes]]) -> Steps:
    """Add up steps, in the order in which a quote comes by them."""
    together: Steps = {}
    for report in reports:
        for step, times in report.items():
            together[step] = together.get(step, StepTimes()) + times
    return {step: together[step] for step in STEPS if step in together}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessReport:
    """A process as it reported last."""

    process: str
    reported_at: datetime
    totals: Steps
    load: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotePath:
    """The last minute of all processes: the steps together, and each process's newest report."""

    steps: Steps
    processes: tuple[ProcessReport, ...]


def quote_path(at: datetime) -> QuotePath:
    """Give the minute before an instant."""
    reports = list(QuotePathReport.objects.filter(reported_at__gt=at - WINDOW).order_by("process", "reported_at"))
    newest = {report.process: report for report in reports}
    return QuotePath(
        steps=added(_read(report.recent) for report in reports),
        processes=tuple(
            ProcessReport(
                process=report.process,
                reported_at=report.reported_at,
                totals=_read(report.totals),
                load=report.load,
            )
            for report in newest.values()
        ),
    )


def _plain(steps: Steps) -> dict[str, Any]:
    return {step: [*times.counts, times.sum_us] for step, times in steps.items()}


def _read(stored: Mapping[str, list[int]]) -> Steps:
    """Read what was stored; a report of a release with other buckets is left out."""
    return {
        step: StepTimes(counts=tuple(numbers[:-1]), sum_us=numbers[-1])
        for step, numbers in stored.items()
        if len(numbers) == len(BOUNDS_MS) + 2
    }
