"""Child processes: each in its own session, restarted when it ends, ended by the kernel if the supervisor is killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from config.postgres import processes
from config.supervisor.state import StateDir

FIRST_PAUSE_SECONDS: Final = 0.5
LONGEST_PAUSE_SECONDS: Final = 30.0
# Who ran this long is taken to be well again.
WELL_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """What a child is."""

    name: str
    command: tuple[str, ...]
    stop_seconds: float
    environment: dict[str, str] = field(default_factory=dict)


class Child:
    """One child and its restarts."""

    def __init__(self, spec: ChildSpec, state: StateDir, environment: dict[str, str]) -> None:
        self.spec = spec
        self.failure_count = 0
        self._state = state
        self._environment = {**environment, **spec.environment}
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self._restart_at = 0.0

    @property
    def is_running(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process; the kernel sends it SIGTERM when the supervisor ends in any way."""
        setpriv = shutil.which("setpriv") or "setpriv"
        with self._state.open_log(self.spec.name) as log:
            self._process = subprocess.Popen(  # noqa: S603 -- our own command
                [setpriv, "--pdeathsig", "TERM", "--", *self.spec.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )
        self._started_at = time.monotonic()

    def look(self) -> str | None:
        """Restart the process if it ended and its pause is over; give a sentence when there is something to say."""
        process = self._process
        if process is None:
            if time.monotonic() >= self._restart_at:
                self.start()
            return None
        code = process.poll()
        if code is None:
            return None
        self._kill_group(process)
        self._process = None
        well = time.monotonic() - self._started_at > WELL_SECONDS
        self.failure_count = 1 if well else self.failure_count + 1
        pause = min(FIRST_PAUSE_SECONDS * 2 ** (self.failure_count - 1), LONGEST_PAUSE_SECONDS)
        self._restart_at = time.monotonic() + pause
        return f"{self.spec.name} {how_it_ended(code)}; it starts again in {pause:g} s (log/{self.spec.name}.log)."

    def ask_to_stop(self) -> None:
        """Send SIGTERM."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def wait_stopped(self, is_urgent: Callable[[], bool]) -> None:
        """Wait for the end, then kill what is left of its process group."""
        process, self._process = self._process, None
        if process is None:
            return
        processes.wait_until(lambda: process.poll() is not None or is_urgent(), seconds=self.spec.stop_seconds)
        self._kill_group(process)
        process.wait()

    def log_end(self, line_count: int = 15) -> str:
        """Give the last lines of its log."""
        path = self._state.path / "log" / f"{self.spec.name}.log"
        with contextlib.suppress(OSError):
            return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-line_count:])
        return ""

    def _kill_group(self, process: subprocess.Popen[bytes]) -> None:
        """Kill the whole session's group: its own children must not outlive it."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def how_it_ended(code: int) -> str:
    """Say an exit code in words."""
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"was ended by {signal.Signals(-code).name}"
    return f"ended with code {code}"


def end_leftovers(marker: str) -> int:
    """End what a killed supervisor left behind, known by its environment; give how many there were."""
    found = processes.with_environment(marker)
    if found:
        processes.end(found, seconds=12)
    return len(found)
