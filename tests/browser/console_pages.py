"""The first pages, the jump box and preferences."""

from __future__ import annotations

from datetime import timedelta

from catalog.domain.records import LaneHealth
from catalog.services.sla import record_sla_snapshot
from ground import clock, retention_record
from ground.retention_record import Kept
from tests.browser.cases import PageCase, Role, World
from tests.routing.pages import scenes

_OF_MEMBERS: dict[Role, int] = {"nobody": 302, "viewer": 200, "operator": 404}
_OF_STAFF: dict[Role, int] = {"nobody": 302, "admin": 404, "support": 200}
_OF_PEOPLE: dict[Role, int] = {"nobody": 302, "viewer": 200, "operator": 200}


def _working(world: World) -> str:
    world.finished(world.accepted(name="of-yesterday"))
    scenes.running(world.accepted("gpt-4o-mini", "gpt-4o", count=60), completed=31, failed=2)
    return "/app/"


def _busy(world: World) -> str:
    scenes.waiting(world.accepted("gpt-4o-mini", "gpt-4o", count=60))
    failing = LaneHealth(
        error_ppm=71_000,
        p95_dispatch_ms=900,
        p50_completion_minutes=30,
        p95_completion_minutes=90,
        sample_count=1_234,
        enqueued_tokens=0,
    )
    record_sla_snapshot({("gpt-4o", "openai-direct"): failing}, clock.now() - timedelta(seconds=20))
    return "/ops/"


def _found(world: World) -> str:
    world.accepted(name="nightly-classify")
    return "/go?q=nightly"


def _swept(_world: World) -> str:
    """Files, quotes and sessions went, and the other sweeps found nothing."""
    retention_record.add(Kept.FILES, 12, size_bytes=48_000_000)
    retention_record.add(Kept.PAYLOADS, 1_204)
    retention_record.add(Kept.SESSIONS, 3)
    retention_record.add(Kept.EXPORTS, 0, size_bytes=0)
    return "/ops/retention/"


OF_THE_CONSOLE = (
    PageCase(
        name="overview at first",
        url_name="console:customer-overview",
        seen_by="admin",
        make=lambda _world: "/app/",
        others=_OF_MEMBERS,
    ),
    PageCase(name="overview", url_name="console:customer-overview", seen_by="admin", make=_working),
    PageCase(
        name="in flight, all calm",
        url_name="console:operator-overview",
        seen_by="operator",
        make=lambda _world: "/ops/",
        others=_OF_STAFF,
    ),
    PageCase(name="in flight", url_name="console:operator-overview", seen_by="operator", make=_busy),
    PageCase(
        name="retention",
        url_name="console:retention",
        seen_by="operator",
        make=_swept,
        others={"nobody": 302, "admin": 404, "support": 200, "finance": 403},
    ),
    PageCase(name="jump", url_name="console:go", seen_by="admin", make=_found, others=_OF_PEOPLE),
    PageCase(
        name="preferences",
        url_name="console:preferences",
        seen_by="admin",
        make=lambda _world: "/me/preferences/",
        others=_OF_PEOPLE,
    ),
)
