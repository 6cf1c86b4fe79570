"""What the engine costs a row: cut, encode, submit, collect, stitch and settle, the provider excluded.

Floor: ``orjson.loads`` and ``dumps`` of that row's request and result, in the same process, after each batch. The
figure is this process's processor time; its database connection's and the wall time stand beside it. First batches of
one size after another; then one batch of each size in a fresh process, after a small one that warms it up, and the
straight line (so much a batch, so much a row) that fits them best. The figure that is bound is ``named``: cut, collect,
stitch and settle; submitting stands beside it.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.harness.database import ROOT, SessionDatabase

_BYTES_PER_ROW = 830
_WARM_UP = 1_000
_ROW_COUNT = 20_000
_REPEATED = 5
_SIZES = (10_000, 30_000, 100_000, 300_000)
# Waiting for the provider is none of the engine's work.
_STEPS = ("cut", "submit", "collect", "finish")
# What the figure names (``finish`` stitches and settles); encoding and sending the rows stands apart.
_NAMED = ("cut", "collect", "finish")
_GROUPS = {"named": _NAMED, "all": _STEPS}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bench:
    """A database, a state folder and a provider that answers at once."""

    environment: dict[str, str]
    answers: Path
    base_url: str

    @contextmanager
    def worker(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """Run one command of the worker."""
        command = [sys.executable, "-m", "bench.engine_worker", *arguments]
        with subprocess.Popen(  # noqa: S603 -- our own module
            command, cwd=ROOT, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as worker:
            yield worker

    def work(self, row_counts: Sequence[int]) -> Iterator[dict[str, Any]]:
        """Give what batches of these sizes cost, one after another in one worker, each made just before."""
        with self.worker("work", str(self.answers)) as worker:
            assert worker.stdin is not None
            assert worker.stdout is not None
            for row_count in row_counts:
                with self.worker("prepare", self.base_url, str(row_count), str(_BYTES_PER_ROW)) as maker:
                    batch_id, _ = maker.communicate()
                assert batch_id, "the batch was not made"
                worker.stdin.write(batch_id)
                worker.stdin.flush()
                yield json.loads(worker.stdout.readline())


def run() -> None:
    """Print the cost of a row, step by step, and how it grows."""
    with _running() as bench:
        _repeat(bench)
        _grow(bench)


def _repeat(bench: _Bench) -> None:
    """Print medians and 95th percentiles over batches of one size."""
    _, *rounds = bench.work([_WARM_UP, *([_ROW_COUNT] * _REPEATED)])
    _show(f"engine, {_ROW_COUNT:,} rows", rounds)


def _show(name: str, rounds: list[dict[str, Any]]) -> None:
    floors = [each["floor_ns"] / each["row_count"] / 1_000 for each in rounds]
    floor_us = statistics.median(floors)
    print(f"{name}: floor {floor_us:.2f} us a row (orjson.loads + dumps of request and result)")
    for step in (*_STEPS, *_GROUPS):
        for kind in ("cpu", "cpu + database", "wall"):
            spans = [_us_a_row(each, step, kind) for each in rounds]
            ratios = [span / floor for span, floor in zip(spans, floors, strict=True)]
            p95 = statistics.quantiles(spans, n=20, method="inclusive")[-1]
            print(
                f"  {step:<8} {kind:<15} p50 {statistics.median(spans):7.2f} us = {statistics.median(ratios):5.2f} x"
                f"   p95 {p95:7.2f} us = {p95 / floor_us:5.2f} x"
            )


def _us_a_row(measured: dict[str, Any], step: str, kind: str) -> float:
    names = {"cpu": ("cpu_ns",), "cpu + database": ("cpu_ns", "database_ns"), "wall": ("wall_ns",)}[kind]
    steps = _GROUPS.get(step, (step,))
    spent_ns = sum(measured["steps"][each][name] for each in steps for name in names)
    return float(spent_ns) / float(measured["row_count"]) / 1_000


def _grow(bench: _Bench) -> None:
    """Print time and memory over sizes, and the straight lines through them."""
    every = []
    for row_count in _SIZES:
        _, measured = bench.work([_WARM_UP, row_count])
        every.append(measured)
        floor_us = measured["floor_ns"] / row_count / 1_000
        spans = {kind: _us_a_row(measured, "all", kind) for kind in ("cpu", "cpu + database", "wall")}
        spans = {"named": _us_a_row(measured, "named", "cpu"), **spans}
        told = "   ".join(f"{kind} {span:6.2f} us = {span / floor_us:5.2f} x" for kind, span in spans.items())
        grown = measured["peak_megabytes"] - measured["base_megabytes"]
        print(f"engine, {row_count:>7,} rows: {told}   peak {measured['peak_megabytes']:.0f} MB (+{grown:.0f})")
    floor_us = statistics.median(measured["floor_ns"] / measured["row_count"] / 1_000 for measured in every)
    for step in (*_STEPS, *_GROUPS):
        spent_us = [_us_a_row(measured, step, "cpu") * measured["row_count"] for measured in every]
        print(f"engine, straight line, {step:<8} {_straight_line(spent_us, floor_us)}")


def _straight_line(spent_us: Sequence[float], floor_us: float) -> str:
    """Say what a batch and what a row costs, by the line that fits the sizes best."""
    # Weighted, so that each size counts by its share and not by its size.
    a_row_us, a_batch_us = np.polyfit(_SIZES, spent_us, 1, w=1 / np.array(spent_us))
    off = [a_row_us * row_count / (spent - a_batch_us) - 1 for row_count, spent in zip(_SIZES, spent_us, strict=True)]
    return (
        f"{a_batch_us / 1_000:4.0f} ms a batch + {a_row_us:5.2f} us a row = {a_row_us / floor_us:.2f} x"
        f"   furthest from it {max(map(abs, off)):.1%}"
    )


@contextmanager
def _running() -> Iterator[_Bench]:
    database = SessionDatabase()
    with tempfile.TemporaryDirectory(prefix="lanehouse-bench-") as folder:
        answers = Path(folder) / "answers"
        answers.mkdir()
        try:
            environment = {
                **os.environ,
                "DATABASE_URL": database.server().app_dsn,
                "DJANGO_SETTINGS_MODULE": "config.settings.test",
                "LANEHOUSE_STATE_DIR": folder,
                "LANEHOUSE_LOG_LEVEL": "WARNING",
            }
            server = subprocess.Popen(  # noqa: S603 -- our own module
                [sys.executable, "-m", "bench.answer_server", str(answers)], cwd=ROOT, stdout=subprocess.PIPE, text=True
            )
            assert server.stdout is not None
            try:
                yield _Bench(environment=environment, answers=answers, base_url=server.stdout.readline().strip())
            finally:
                server.terminate()
                server.wait(20)
                server.stdout.close()
        finally:
            database.stop()
