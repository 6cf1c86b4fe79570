from __future__ import annotations

import stat
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from config.supervisor.children import Child, ChildSpec, end_leftovers
from config.supervisor.state import AlreadyRunning, StartRefused, StateDir, parse_values, write_values

SLEEP = "import time; time.sleep(60)"
# Ignores SIGTERM and has a child of its own that does so too.
STUBBORN = f"""
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(subprocess.Popen([sys.executable, "-c", {SLEEP!r}]).pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    made = StateDir(tmp_path / "state")
    made.make()
    return made


def child(state: StateDir, code: str, *, stop_seconds: float = 5) -> Child:
    made = Child(ChildSpec(name="x", command=(sys.executable, "-c", code), stop_seconds=stop_seconds), state, {})
    made.start()
    return made


def look_until_said(one: Child) -> str:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if said := one.look():
            return said
        time.sleep(0.02)
    raise AssertionError("nothing was said")


def stop(one: Child) -> None:
    one.ask_to_stop()
    one.wait_stopped(lambda: False)


def test_a_child_that_ends_is_said_and_started_again_after_a_growing_pause(state: StateDir) -> None:
    one = child(state, "raise SystemExit(3)")
    assert look_until_said(one) == "x ended with code 3; it starts again in 0.5 s (log/x.log)."
    assert look_until_said(one) == "x ended with code 3; it starts again in 1 s (log/x.log)."
    assert one.failure_count == 2
    stop(one)


def test_what_a_child_writes_is_in_its_log(state: StateDir) -> None:
    one = child(state, "print('a word'); raise SystemExit(1)")
    look_until_said(one)
    assert one.log_end() == "a word"
    stop(one)


def test_stop_ends_a_stubborn_child_and_its_own_children(state: StateDir) -> None:
    one = child(state, STUBBORN, stop_seconds=0.5)
    while not one.log_end():
        time.sleep(0.02)
    grandchild = psutil.Process(int(one.log_end()))
    stop(one)
    assert not one.is_running
    psutil.wait_procs([grandchild], timeout=5)
    assert not grandchild.is_running() or grandchild.status() == psutil.STATUS_ZOMBIE


def test_a_second_signal_makes_the_stop_short(state: StateDir) -> None:
    one = child(state, STUBBORN, stop_seconds=30)
    while not one.log_end():
        time.sleep(0.02)
    begun = time.monotonic()
    one.ask_to_stop()
    one.wait_stopped(lambda: True)
    assert time.monotonic() - begun < 5


def test_left_over_processes_are_known_by_their_environment_alone(state: StateDir) -> None:
    marked, other = (
        subprocess.Popen([sys.executable, "-c", SLEEP], env={"LANEHOUSE_SUPERVISED": value})
        for value in (str(state.path), f"{state.path}-other")
    )
    time.sleep(0.2)
    assert end_leftovers(f"LANEHOUSE_SUPERVISED={state.path}") == 1
    assert marked.wait(5) != 0
    assert other.poll() is None
    other.kill()
    other.wait()


def test_the_start_lock_says_where_the_running_one_is(state: StateDir) -> None:
    with (
        state.lock("http://127.0.0.1:8000 (process 7)"),
        pytest.raises(AlreadyRunning, match=r"http://127\.0\.0\.1:8000 \(process 7\)"),
    ):
        state.lock("another")
    with state.lock("again"):
        pass


def test_keys_are_made_once_and_private(state: StateDir) -> None:
    keys = state.keys()
    assert state.keys() == keys
    assert len(keys["LANEHOUSE_SECRET_KEY"]) >= 50
    assert stat.S_IMODE((state.path / "keys.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(state.path.stat().st_mode) == 0o700


def test_damaged_keys_stop_the_start_instead_of_being_replaced(state: StateDir) -> None:
    (state.path / "keys.json").write_text("{")
    with pytest.raises(StartRefused, match="is damaged"):
        state.keys()


def test_a_kept_port_stays(state: StateDir) -> None:
    assert state.kept_port("simulator-openai") == state.kept_port("simulator-openai")


def test_a_shell_reads_the_env_file_back(state: StateDir) -> None:
    values = {"LANEHOUSE_URL": "http://127.0.0.1:1", "LANEHOUSE_OPERATOR_PASSWORD": 'it\'s $HOME "here"'}
    write_values(state.env_file, values)
    printed = subprocess.run(
        ["sh", "-c", f". {state.env_file}; env"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert {f"{name}={value}" for name, value in values.items()} <= set(printed)
    assert parse_values(state.env_file.read_text().splitlines()) == values
    assert stat.S_IMODE(state.env_file.stat().st_mode) == 0o600


def test_a_big_log_is_set_aside_while_it_is_written(state: StateDir) -> None:
    log = state.path / "log" / "x.log"
    with state.open_log("x") as file:
        file.write(b"x" * (10 * 1024 * 1024 + 1))
        file.flush()
        state.trim_logs()
        file.write(b"then")
    assert log.read_bytes() == b"then"
    assert log.with_suffix(".log.1").stat().st_size > 10 * 1024 * 1024
