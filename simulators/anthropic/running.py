"""Start a simulated Anthropic from a test; an SDK is given its `base_url`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from simulators.anthropic.app import create_app
from simulators.running import RunningSimulator, running_on_thread


@contextmanager
def running_simulator(state_dir: Path, **settings: object) -> Iterator[RunningSimulator]:
    """A simulated Anthropic on a free port and a thread, with `settings` of `simulators.anthropic.settings`."""
    with running_on_thread(create_app(state_dir, dict(settings)), base_path="") as simulator:
        yield simulator
