"""Start a simulator from a test or a demo: on a thread of this process, or as a process of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from starlette.applications import Starlette

from simulators.remote import SimulatorControl
from simulators.serving import serving_on_thread

_ROOT = Path(__file__).resolve().parent.parent
_STOP_SECONDS = 10.0
# What an SDK wants behind host and port.
_BASE_PATHS = {"openai": "/v1"}


@dataclass(slots=True)
class RunningSimulator:
    """A simulator that takes calls: `url` is ``http://host:port``, `base_url` what an SDK is given."""

    url: str
    base_path: str
    control: SimulatorControl = field(init=False)

    def __post_init__(self) -> None:
        """Connect the control client."""
        self.control = SimulatorControl(self.url)

    @property
    def base_url(self) -> str:
        """The base of the provider's API."""
        return f"{self.url}{self.base_path}"


@contextmanager
def running_on_thread(app: Starlette, base_path: str = "/v1") -> Iterator[RunningSimulator]:
    """Serve `app` on a free loopback port from a thread."""
    with serving_on_thread(app) as url:
        yield RunningSimulator(url, base_path)


class SimulatorProcess:
    """A simulator as a process of its own, which can be killed and started again on the same port and state."""

    def __init__(self, provider: str, state_dir: Path, arguments: Sequence[str] = ()) -> None:
        """Start ``python -m simulators.<provider>`` with `arguments` on a free port; return when it takes calls."""
        self._base_path = _BASE_PATHS.get(provider, "")
        self._command = [sys.executable, "-m", f"simulators.{provider}", f"--state-dir={state_dir}", *arguments]
        self._process, self.simulator = self._start(port=0)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def kill(self) -> None:
        """End the process at once, as ``kill -9`` does."""
        self._process.kill()
        self._collect()

    def stop(self) -> int:
        """Ask the process to end (SIGTERM); gives its exit code."""
        self._process.terminate()
        return self._collect()

    def restart(self) -> None:
        """Start again after `kill` or `stop`, on the same port and state."""
        self._process, self.simulator = self._start(urlsplit(self.simulator.url).port or 0)

    def _start(self, port: int) -> tuple[subprocess.Popen[str], RunningSimulator]:
        command = [*self._command, f"--port={port}"]
        environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
        process = subprocess.Popen(command, cwd=_ROOT, env=environment, stdout=subprocess.PIPE, text=True)  # noqa: S603
        line = process.stdout.readline().strip() if process.stdout else ""
        if not line:
            message = f"the simulator ended with {process.wait()}: {' '.join(command)}"
            if process.stdout:
                process.stdout.close()
            raise RuntimeError(message)
        return process, RunningSimulator(line, self._base_path)

    def _collect(self) -> int:
        exit_code = self._process.wait(_STOP_SECONDS)
        if self._process.stdout is not None:
            self._process.stdout.close()
        return exit_code


@contextmanager
def running_process(provider: str, state_dir: Path, arguments: Sequence[str] = ()) -> Iterator[SimulatorProcess]:
    """A simulator process that is stopped at the end, also after a `kill`."""
    started = SimulatorProcess(provider, state_dir, arguments)
    try:
        yield started
    finally:
        started.stop()
