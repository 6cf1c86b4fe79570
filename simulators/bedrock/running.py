"""Start a simulated Bedrock from a test; boto3 is given its `url` and its `s3_url`."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from simulators.bedrock.app import create_app
from simulators.running import RunningSimulator, running_on_thread


@dataclass(slots=True)
class RunningBedrock(RunningSimulator):
    """A simulated Bedrock that takes calls, and where its S3 listens."""

    s3_url: str


@contextmanager
def running_simulator(state_dir: Path, **settings: object) -> Iterator[RunningBedrock]:
    """A simulated Bedrock on free ports and threads, with `settings` of `simulators.bedrock.settings`."""
    app = create_app(state_dir, dict(settings))
    with running_on_thread(app, base_path="") as simulator:
        yield RunningBedrock(simulator.url, simulator.base_path, app.state.s3_url)
