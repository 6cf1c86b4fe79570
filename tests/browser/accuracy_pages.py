"""Pages of how accurate quotes were, and of what was learned of a model."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from ground import clock
from routing.domain.learning.states import HouseState
from routing.models import LearnedState
from routing.services.learning import learn_from_next_batch
from tests.browser.cases import PageCase, Role, World

_BOARD, _OWN, _MODEL = "/ops/accuracy/", "/app/accuracy/", "/ops/accuracy/gpt-4o/"
_OTHERS: dict[Role, int] = {"nobody": 302, "admin": 404, "support": 200}


def _settled(world: World, address: str) -> str:
    for count in (12, 30):
        world.finished(world.accepted("gpt-4o", "gpt-4o-mini", count=count))
        assert learn_from_next_batch()
    return address


def _drifted(world: World, address: str) -> str:
    _settled(world, address)
    row = LearnedState.objects.get(model_slug="gpt-4o", organisation=None)
    state = msgspec.structs.replace(
        HouseState.from_bytes(row.state),
        recent_error_ppm=41_000,
        recent_row_count=500,
        drifted_at=int((clock.now() - timedelta(hours=2)).timestamp()),
    )
    row.state, row.version = state.to_bytes(), row.version + 1_000
    row.save()
    return address


OF_ACCURACY = (
    PageCase(
        name="accuracy of all quotes",
        url_name="routing:any-accuracy",
        seen_by="operator",
        make=lambda world: _drifted(world, _BOARD),
        others=_OTHERS,
    ),
    PageCase(
        name="accuracy of all quotes before any batch",
        url_name="routing:any-accuracy",
        seen_by="operator",
        make=lambda _world: _BOARD + "?days=90",
    ),
    PageCase(
        name="accuracy of a customer's quotes",
        url_name="routing:accuracy",
        seen_by="viewer",
        make=lambda world: _settled(world, _OWN),
        others={"nobody": 302, "stranger": 200, "operator": 404},
    ),
    PageCase(
        name="accuracy of a customer without a batch",
        url_name="routing:accuracy",
        seen_by="viewer",
        make=lambda _world: _OWN,
    ),
    PageCase(
        name="learning of a model",
        url_name="routing:learning",
        seen_by="operator",
        make=lambda world: _drifted(world, _MODEL),
        others=_OTHERS,
    ),
)
