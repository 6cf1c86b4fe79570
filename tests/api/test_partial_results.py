"""``GET /v1/batches/{id}/results`` while the batch runs: as collected, append-only, from any point."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from catalog.models import Lane
from routing.services import collect, dispatch
from simulators.running import RunningSimulator
from tests.api.world import Api, error_of, row
from tests.harness.clock import Clock
from tests.harness.world import do_due_steps
from tests.routing.engine.lanes import add_lane


def read(api: Api, batch_id: str, after: str | None = None) -> tuple[list[dict[str, Any]], str, str]:
    """Give the lines, whether more will come, and the cursor."""
    response = api.get(f"/v1/batches/{batch_id}/results" + (f"?after={after}" if after is not None else ""))
    assert response.status_code == 200
    lines = [json.loads(line) for line in b"".join(response.streaming_content).splitlines()]
    return lines, response["X-Incomplete"], response["X-Last-Line"]


@pytest.fixture
def running(api: Api, simulator: RunningSimulator, clock: Clock) -> str:
    """A batch of nine rows in three jobs, all of which have ended at the provider; nothing is collected yet."""
    Lane.objects.filter(model__slug="gpt-4o-mini").update(maximum_rows_per_job=3)
    quote = api.quote(*(row(f"{number}", f"Zanzibar {number}") for number in range(9)))
    batch_id = str(api.accept(quote["id"]).json()["id"])
    simulator.control.change_settings(validation_seconds=0, finalizing_seconds=0, rows_per_second=None)
    step_to_collecting(clock)
    return batch_id


def step_to_collecting(clock: Clock) -> None:
    while dispatch.start_next_sub_lane() or dispatch.submit_next_job():
        pass
    clock.advance(seconds=61)
    while collect.poll_next_job():
        pass


def test_lines_come_in_the_order_they_were_collected_and_never_move(api: Api, running: str) -> None:
    assert read(api, running) == ([], "true", "0.0")
    seen: list[dict[str, Any]] = []
    cursors = ["0.0"]
    for _ in range(3):
        assert collect.collect_next_job()
        lines, incomplete, last_line = read(api, running, cursors[-1])
        assert (len(lines), incomplete) == (3, "true")
        seen += lines
        cursors.append(last_line)
        assert read(api, running)[0] == seen
    for position, cursor in enumerate(cursors):
        assert read(api, running, cursor)[0] == seen[3 * position :]
    assert read(api, running, cursors[-1])[2] == cursors[-1]


def test_a_cursor_within_a_job_goes_on_behind_its_row(api: Api, running: str) -> None:
    collect.collect_next_job()
    lines = read(api, running)[0]
    first_row = int(lines[0]["custom_id"])
    assert [line["custom_id"] for line in read(api, running, f"1.{first_row}")[0]] == [
        line["custom_id"] for line in lines[1:]
    ]


def test_after_the_end_a_cursor_goes_on_and_without_one_the_input_s_order_is_given(
    api: Api, running: str, run: Callable[[], None]
) -> None:
    collect.collect_next_job()
    early, _, cursor = read(api, running)
    run()
    assert api.batch(running)["status"] == "completed"
    late, incomplete, last_line = read(api, running, cursor)
    assert (len(early), len(late), incomplete) == (3, 6, "false")
    every = api.lines(f"/v1/batches/{running}/results")
    assert [line["custom_id"] for line in every] == [f"{number}" for number in range(9)]
    assert sorted(json.dumps(line) for line in early + late) == sorted(json.dumps(line) for line in every)
    assert read(api, running, last_line) == ([], "false", last_line)
    response = api.get(f"/v1/batches/{running}/results")
    assert (len(b"".join(response.streaming_content).splitlines()), response["X-Incomplete"]) == (9, "false")


def test_rows_that_moved_on_are_shown_only_when_they_have_ended(
    api: Api, simulator: RunningSimulator, clock: Clock, run: Callable[[], None]
) -> None:
    add_lane()
    quote = api.quote(row("a"), row("b", "Zanzibar [[sim:fail_once]]"), row("c"))
    batch_id = str(api.accept(quote["id"]).json()["id"])
    simulator.control.change_settings(validation_seconds=0, finalizing_seconds=0, rows_per_second=None)
    step_to_collecting(clock)
    collect.collect_next_job()
    early, _, cursor = read(api, batch_id)
    assert [line["custom_id"] for line in early] == ["a", "c"]
    run()
    ((late,), incomplete, _) = read(api, batch_id, cursor)
    assert (late["custom_id"], late["error"], late["lanehouse"]["re_dispatch_count"]) == ("b", None, 1)
    assert incomplete == "false"


@pytest.mark.parametrize("after", ["x", "1", "1.2.3", "-1.0", "1.-2", "9999999999.0", "%00", "1.0%0A", "٣.٤"])
def test_a_cursor_that_we_did_not_give_is_refused(api: Api, running: str, after: str) -> None:
    error_of(api.get(f"/v1/batches/{running}/results?after={after}"), 400, "invalid_value", "after")


def test_another_tenant_s_partial_results_are_not_found(api: Api, other: Api, running: str) -> None:
    collect.collect_next_job()
    error_of(other.get(f"/v1/batches/{running}/results?after=0.0"), 404, "not_found", "batch_id")
    assert do_due_steps() > 0
