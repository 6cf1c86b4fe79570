"""Fault points: asleep by default, once in a state directory, and each of them in the engine."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from ground import fault_points
from ground.fault_points import FaultPoint, marker_of, reach

ROOT = Path(__file__).resolve().parents[2]
APPS = ("accounts", "billing", "catalog", "console", "ground", "routing", "webhooks")
COME_BY = """
import sys
from pathlib import Path
from ground import fault_points
fault_points.arm(sys.argv[2:], Path(sys.argv[1]))
for _ in range(3):
    print("came by", flush=True)
    fault_points.reach(fault_points.FaultPoint.START_CLAIMED)
"""


def come_by(folder: Path, *wanted: str) -> tuple[int, int]:
    """Let a process come by one point three times; give its exit code and how often it got there."""
    done = subprocess.run(
        [sys.executable, "-c", COME_BY, str(folder), *wanted], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout.count("came by")


def test_every_point_is_in_the_engine() -> None:
    texts = [
        path.read_text(encoding="utf-8")
        for app in APPS
        for path in (ROOT / app).rglob("*.py")
        if path.name != "fault_points.py"
    ]
    reached = Counter(name for text in texts for name in re.findall(r"reach(?:\(|, )FaultPoint\.([A-Z_]+)\)", text))
    assert set(reached) == {point.name for point in FaultPoint}


def test_a_process_that_no_test_started_comes_by_every_point() -> None:
    for point in FaultPoint:
        reach(point)


def test_a_process_is_killed_at_the_point_it_was_told(tmp_path: Path) -> None:
    assert come_by(tmp_path / "points", "start.claimed") == (-signal.SIGKILL, 1)
    assert marker_of(FaultPoint.START_CLAIMED, tmp_path / "points").exists()


def test_a_process_is_killed_at_the_passage_it_was_told(tmp_path: Path) -> None:
    assert come_by(tmp_path, "start.claimed:3") == (-signal.SIGKILL, 3)


def test_the_process_that_is_started_again_goes_on(tmp_path: Path) -> None:
    codes = [come_by(tmp_path, "start.claimed")[0] for _ in range(2)]
    assert codes == [-signal.SIGKILL, 0]


def test_other_points_and_later_passages_harm_nobody(tmp_path: Path) -> None:
    assert come_by(tmp_path, "start.before_commit", "start.claimed:4") == (0, 3)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_point_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no_such_point"):
        fault_points.arm(["no_such_point"], tmp_path)
