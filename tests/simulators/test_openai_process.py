"""A simulator as a process of its own: killed, started again, asked to stop, fed with large files."""

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from openai import OpenAI

from simulators.running import SimulatorProcess, running_process
from tests.simulators.driver import FROZEN_AT, Driver, chat_row, chat_rows

MEBIBYTE = 1 << 20


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.fixture
def process(tmp_path: Path) -> Iterator[SimulatorProcess]:
    with running_process("openai", tmp_path / "openai", ["--rows-per-second=10"]) as started:
        started.simulator.control.freeze(FROZEN_AT)
        yield started


@pytest.fixture
def driven(process: SimulatorProcess) -> Iterator[Driver]:
    with OpenAI(base_url=process.simulator.base_url, api_key="sk-driver", max_retries=0) as client:
        yield Driver(process.simulator, client)


def test_a_killed_simulator_loses_nothing_and_goes_on(process: SimulatorProcess, driven: Driver) -> None:
    done = driven.run(chat_rows(5))
    running = driven.create([*chat_rows(30), chat_row("once", "[[sim:fail_once]]")])
    driven.control.add_fault("row_error", custom_id="row-7", times=1)
    driven.control.advance(2)
    halfway = driven.client.batches.retrieve(running.id)
    results = driven.outputs(done)
    process.kill()
    process.restart()
    assert driven.client.batches.retrieve(done.id) == done
    assert driven.outputs(done) == results
    assert driven.client.batches.retrieve(running.id) == halfway
    driven.control.advance(60)
    ended = driven.client.batches.retrieve(running.id)
    assert (ended.request_counts and ended.request_counts.to_dict()) == {"total": 31, "completed": 29, "failed": 2}
    assert sorted(driven.errors(ended)) == ["once", "row-7"]
    assert len(driven.lines(ended.output_file_id)) == 29
    assert driven.control.call_count("batches.create") == 2


def test_what_a_killed_simulator_wrote_too_much_is_cut_off(
    process: SimulatorProcess, driven: Driver, tmp_path: Path
) -> None:
    batch = driven.create(chat_rows(30))
    driven.control.advance(2)
    driven.client.batches.retrieve(batch.id)
    process.kill()
    for path in (tmp_path / "openai" / "files").iterdir():
        if path.name != batch.input_file_id:
            path.write_bytes(path.read_bytes() + b'{"half a li')
    process.restart()
    driven.control.advance(60)
    ended = driven.client.batches.retrieve(batch.id)
    assert len(driven.lines(ended.output_file_id)) == 30
    assert ended.error_file_id is None


def test_a_simulator_ends_quickly_when_asked(process: SimulatorProcess, driven: Driver) -> None:
    assert driven.client.batches.list().data == []
    assert process.stop() == 0
    process.restart()
    assert driven.client.batches.list().data == []


def test_the_command_line_goes_before_what_is_stored(process: SimulatorProcess, driven: Driver) -> None:
    assert driven.control.settings()["rows_per_second"] == 10
    driven.control.change_settings(rows_per_second=99, finalizing_seconds=7)
    process.stop()
    process.restart()
    settings = driven.control.settings()
    assert (settings["rows_per_second"], settings["finalizing_seconds"]) == (10, 7)


def test_a_taken_port_is_refused(process: SimulatorProcess, driven: Driver, tmp_path: Path) -> None:
    taken = f"--port={urlsplit(driven.simulator.url).port}"
    command = [sys.executable, "-m", "simulators.openai", taken, f"--state-dir={tmp_path / 'second'}"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("cannot listen on 127.0.0.1:")


def test_memory_stays_flat_under_a_large_upload(process: SimulatorProcess, driven: Driver, tmp_path: Path) -> None:
    path = tmp_path / "large.jsonl"
    with path.open("wb") as target:
        for _ in range(64):
            target.write(b"x" * MEBIBYTE)
    driven.upload(chat_rows(1))
    before_bytes = resident_bytes(process.pid)
    stored = driven.client.files.create(file=path, purpose="batch")
    assert stored.bytes == 64 * MEBIBYTE
    assert resident_bytes(process.pid) - before_bytes < 24 * MEBIBYTE
    with driven.client.files.with_streaming_response.content(stored.id) as response:
        assert sum(len(chunk) for chunk in response.iter_bytes()) == 64 * MEBIBYTE
    assert resident_bytes(process.pid) - before_bytes < 32 * MEBIBYTE
