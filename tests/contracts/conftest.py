from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contracts.kits import KINDS, Kind, Kit


@pytest.fixture(params=KINDS, ids=lambda kind: kind.provider)
def kind(request: pytest.FixtureRequest) -> Kind:
    chosen: Kind = request.param
    return chosen


@pytest.fixture
def kit(kind: Kind, tmp_path: Path) -> Iterator[Kit]:
    """The adapter on a simulator that does everything at once."""
    with kind.start(tmp_path / "simulator", **kind.at_once) as simulator:
        kit = Kit(kind, simulator)
        yield kit
        kit.close()
