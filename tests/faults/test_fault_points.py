"""The engine is killed at each of its points, on the whole way of a two-lane batch; the end is the undisturbed one."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ground.fault_points import FaultPoint
from tests.faults.rig import Rig, Run, running_rig
from tests.faults.two_lanes import FILE, LANES, MOVING_ROWS, ROW_COUNT
from tests.harness.clock import Clock
from tests.harness.database import TestServer
from tests.harness.world import make_tenant
from webhooks.services.endpoints import create_endpoint

pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]

StartRun = Callable[..., Run]
# Only a batch that is cancelled comes by these.
OF_A_CANCEL = {point for point in FaultPoint if point.startswith(("cancel.", "close."))}
# Only a batch of an uploaded file comes by these, and it ends as one that was quoted and accepted.
OF_A_FILE = {point for point in FaultPoint if point.startswith(("price.", "validate."))}
# Only another kill leads here: a job whose worker died before it was sent.
AFTER_A_KILL = {FaultPoint.FIND_UNSENT: FaultPoint.SUBMIT_NOTED}
# Where a provider keeps no token, a job that may have been sent and is not listed waits for people; this one does.
BEFORE_AN_UNCLEAR_CALL = {FaultPoint.SUBMIT_ENCODED}
# In the middle of a file, not before its first row. Claude's results are read row by row; the output is written in
# pieces, which rows that failed part.
PASSAGES = {
    FaultPoint.COLLECT_HALF_READ: 60,
    FaultPoint.FINISH_HALF_WRITTEN: 3,
}


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory, test_server: TestServer) -> Iterator[Rig]:
    with running_rig(tmp_path_factory.mktemp("rig"), test_server.app_dsn) as running:
        yield running


@pytest.fixture
def start(rig: Rig, clock: Clock, tmp_path: Path, settings: object) -> StartRun:
    """Make a customer with an endpoint, and start batches of the file."""
    # Whole seconds, as providers count; not before the catalog, which may have been loaded in this second.
    at = clock.freeze(datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=1))
    for simulator in rig.simulators.values():
        simulator.control.freeze(at.timestamp())
    settings.WEBHOOK_ALLOWED_RECEIVERS = (rig.receiver.authority,)  # type: ignore[attr-defined]
    tenant = make_tenant()
    create_endpoint(tenant.organisation, url=rig.receiver.url)

    def started(*, is_cancelled: bool = False, is_by_file: bool = False) -> Run:
        folder = tmp_path / f"run-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        if is_cancelled not in rig.undisturbed:
            first = Run(rig, tenant, clock, folder / "undisturbed", is_cancelled)
            first.go_on()
            rig.undisturbed[is_cancelled] = first.ended()
        return Run(rig, tenant, clock, folder, is_cancelled, is_by_file)

    return started


def test_undisturbed_the_batch_runs_on_two_lanes_and_moves_to_a_third(start: StartRun, rig: Rig) -> None:
    start()
    ended = rig.undisturbed[False]
    assert ended.status == "completed"
    assert {lane[0]: lane[2] for lane in ended.lanes}["anthropic-bedrock-us-east-1"] == MOVING_ROWS
    assert {lane[0] for lane in ended.lanes} == LANES
    assert len(ended.lines) == ROW_COUNT == FILE.count(b"\n")


@pytest.mark.parametrize("point", FaultPoint)
def test_a_kill_changes_nothing(point: FaultPoint, start: StartRun, rig: Rig) -> None:
    run = start(is_cancelled=point in OF_A_CANCEL, is_by_file=point in OF_A_FILE)
    points = [AFTER_A_KILL[point], point] if point in AFTER_A_KILL else [point]
    run.go_on(*(f"{each}:{PASSAGES.get(each, 1)}" for each in points))
    assert run.killed_at() == set(points)
    assert Counter(run.exit_codes)[-signal.SIGKILL] == len(points)
    assert set(run.exit_codes) == {0, -signal.SIGKILL}
    run.assert_ended_as(rig.undisturbed[run.is_cancelled])


def test_kills_at_all_points_one_after_the_other_change_nothing(start: StartRun, rig: Rig) -> None:
    run = start()
    points = set(FaultPoint) - OF_A_CANCEL - OF_A_FILE - BEFORE_AN_UNCLEAR_CALL
    run.go_on(*points)
    assert run.killed_at() == points
    run.assert_ended_as(rig.undisturbed[False])


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_every_task_in_two_processes_at_once_changes_nothing(start: StartRun, rig: Rig, *, is_cancelled: bool) -> None:
    run = start(is_cancelled=is_cancelled)
    run.go_on(drivers=rig.drivers)
    assert set(run.exit_codes) == {0}
    run.assert_ended_as(rig.undisturbed[is_cancelled])
