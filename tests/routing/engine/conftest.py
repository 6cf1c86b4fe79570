from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from simulators.openai.running import running_simulator
from tests.harness.clock import Clock
from tests.harness.world import Tenant, use_simulator
from tests.routing.engine.kit import Engine


@pytest.fixture
def engine(tenant: Tenant, clock: Clock, tmp_path: Path) -> Iterator[Engine]:
    """A provider that answers at once, and both clocks stopped at the same second."""
    # Whole seconds, as providers count; not before the catalog, which may have been loaded in this second.
    at = clock.freeze(datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=1))
    settings = {"rows_per_second": None, "validation_seconds": 0, "finalizing_seconds": 0, "cancelling_seconds": 0}
    with running_simulator(tmp_path / "openai", **settings) as simulator:
        simulator.control.freeze(at.timestamp())
        use_simulator(simulator.base_url)
        yield Engine(simulator, tenant, clock)
