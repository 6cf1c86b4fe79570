"""A simulated OpenAI for each test, on a thread, with a clock that stands still."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import OpenAI

from simulators.openai.running import running_simulator
from tests.simulators.driver import FROZEN_AT, Driver


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    with running_simulator(tmp_path / "openai", rows_per_second=10.0) as simulator:
        simulator.control.freeze(FROZEN_AT)
        with OpenAI(base_url=simulator.base_url, api_key="sk-driver", max_retries=0) as client:
            yield Driver(simulator, client)
