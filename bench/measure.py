"""What every figure needs: percentiles and one way to print them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence


def spans_ms(act: Callable[[], object], *, count: int, warm_up_count: int = 3) -> list[float]:
    """Give the milliseconds of ``count`` calls after a few that are not counted."""
    for _ in range(warm_up_count):
        act()
    spans = []
    for _ in range(count):
        started_ns = time.perf_counter_ns()
        act()
        spans.append((time.perf_counter_ns() - started_ns) / 1e6)
    return spans


def p50_ms(spans: Sequence[float]) -> float:
    """Give the median."""
    return statistics.median(spans)


def p95_ms(spans: Sequence[float]) -> float:
    """Give the 95th percentile."""
    return statistics.quantiles(spans, n=20, method="inclusive")[-1]


def show(name: str, spans: Sequence[float], floor: Sequence[float], *, floor_name: str) -> None:
    """Print a figure beside its floor: medians, and both percentiles as ratios to the floor's median."""
    floor_ms = p50_ms(floor)
    print(
        f"{name:<44} p50 {p50_ms(spans):8.2f} ms = {p50_ms(spans) / floor_ms:5.2f} x"
        f"   p95 {p95_ms(spans):8.2f} ms = {p95_ms(spans) / floor_ms:5.2f} x   floor {floor_ms:7.2f} ms ({floor_name})"
    )
