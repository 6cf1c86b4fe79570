"""Pages of lane health: the SLA wall, and one lane with its charts."""

from __future__ import annotations

from datetime import timedelta

from catalog.domain.records import LaneHealth
from catalog.services.sla import record_sla_snapshot
from ground import clock
from tests.browser.cases import PageCase, Role, World

_WALL, _LANE = "/ops/sla/", "/ops/lanes/gpt-4o/openai-direct/"
_OTHERS: dict[Role, int] = {"nobody": 302, "admin": 404, "support": 200}


def _measured(_world: World) -> None:
    at = clock.now()
    for number in [*range(40), *range(55, 120), 125]:
        health = LaneHealth(
            error_ppm=2_000 + number * 137 % 9_000,
            p95_dispatch_ms=400 + number * 31 % 500,
            p50_completion_minutes=12 + number % 7,
            p95_completion_minutes=40 + number * 7 % 60,
            sample_count=900 + number,
            enqueued_tokens=200_000 * number,
        )
        record_sla_snapshot({("gpt-4o", "openai-direct"): health}, at - timedelta(minutes=11 * (126 - number)))


def _wall(world: World) -> str:
    _measured(world)
    return _WALL


def _lane(world: World, query: str = "") -> str:
    _measured(world)
    return _LANE + query


OF_WALL = (
    PageCase(name="SLA wall", url_name="catalog:wall", seen_by="operator", make=_wall, others=_OTHERS),
    PageCase(
        name="SLA wall without a match",
        url_name="catalog:wall",
        seen_by="operator",
        make=lambda _world: f"{_WALL}?text=nothing",
    ),
    PageCase(name="lane", url_name="catalog:lane-page", seen_by="operator", make=_lane, others=_OTHERS),
    PageCase(
        name="lane over 7 days",
        url_name="catalog:lane-page",
        seen_by="operator",
        make=lambda world: _lane(world, "?range=7d"),
    ),
    PageCase(
        name="lane that nobody has measured",
        url_name="catalog:lane-page",
        seen_by="operator",
        make=lambda _world: _LANE,
    ),
)
