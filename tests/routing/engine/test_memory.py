"""The largest file that may come inline: what the engine needs for it does not grow with what the rows say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from simulators.running import running_process
from tests.harness.clock import Clock
from tests.harness.world import Tenant, use_simulator
from tests.routing.engine.kit import STEPS, Engine, chat_file

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
ROW_COUNT = 50_000
MOST_MEGABYTES = {"start": 20, "submit": 20, "poll": 10, "collect": 60, "finish": 20}


class Peak:
    """How far this process's memory grew while something was done, by the kernel's own high-water mark."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")
        self._before = _megabytes("VmRSS")

    def grown_megabytes(self) -> float:
        return _megabytes("VmHWM") - self._before


def _megabytes(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024


def test_fifty_thousand_rows_stay_small_at_every_step(tenant: Tenant, clock: Clock, tmp_path: Path) -> None:
    clock.freeze(datetime.now(UTC) + timedelta(seconds=1))
    with running_process("openai", tmp_path, ["--all-at-once", "--validation-seconds=0"]) as process:
        process.simulator.control.change_settings(finalizing_seconds=0)
        use_simulator(process.simulator.base_url)
        engine = Engine(process.simulator, tenant, clock)
        batch = engine.accept(chat_file(*map(str, range(ROW_COUNT)), max_tokens=1))
        grown = {}
        for name, step in STEPS.items():
            peak = Peak()
            while step():
                pass
            grown[name] = peak.grown_megabytes()
        batch.refresh_from_db()
        assert batch.completed_count == ROW_COUNT
        assert batch.receipt_id
        assert all(grown[name] <= most for name, most in MOST_MEGABYTES.items()), grown
