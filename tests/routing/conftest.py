"""The engine's world: a stand-in provider whose clock the test moves, and a tenant with credit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from simulators.openai.app import create_app
from simulators.running import RunningSimulator, running_on_thread
from tests.harness.world import Tenant, make_tenant, use_simulator


@pytest.fixture
def simulator(db: None, tmp_path: Path) -> Iterator[RunningSimulator]:
    """An OpenAI stand-in, used by every organisation's OpenAI lanes."""
    with running_on_thread(create_app(tmp_path / "simulator")) as running:
        use_simulator(running.base_url)
        yield running


@pytest.fixture
def tenant(db: None) -> Tenant:
    """An organisation with 100 USD and a key."""
    return make_tenant()
