"""Every page of the product: where it is, what must be there first, and who gets which answer.

The list is closed: a test compares it with the addresses, so that no page is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from playwright.sync_api import Page, expect

from accounts.models import User
from routing.models import Batch
from simulators.running import RunningSimulator
from tests.harness.clock import Clock
from tests.harness.world import Tenant, make_tenant
from tests.routing.pages import scenes

Role = Literal["nobody", "admin", "viewer", "stranger", "operator", "support"]
ROTATE = "/ops/lanes/gpt-4o/openai-direct/rotate/"


class World:
    """What the pages are about, and the people who look at them."""

    def __init__(self, tenant: Tenant, simulator: RunningSimulator, clock: Clock) -> None:
        self.tenant = tenant
        self.simulator = simulator
        self.clock = clock
        self._people: dict[Role, User] = {}

    def person(self, role: Role) -> User | None:
        """Give somebody of this role; the same one each time."""
        if role == "nobody":
            return None
        if role not in self._people:
            self._people[role] = self._make(role)
        return self._people[role]

    def accepted(self, *models: str, count: int = 10, name: str = "nightly-classify-1129") -> Batch:
        return scenes.accepted(self.tenant, *models, count=count, name=name)

    def finished(self, batch: Batch) -> Batch:
        return scenes.finished(batch, self.simulator, self.clock)

    def _make(self, role: Role) -> User:
        if role in {"operator", "support"}:
            return scenes.staff(role, name=f"{role.title()} Olu")
        if role == "stranger":
            return scenes.member(make_tenant("other").organisation, name="Stranger Sam")
        return scenes.member(self.tenant.organisation, role, name=f"{role.title()} Casey")


def _address(batch: Batch) -> str:
    return f"/app/batches/{batch.public_id}/"


def _empty_list(_world: World) -> str:
    return "/app/batches/"


def _full_list(world: World) -> str:
    world.finished(world.accepted(name="of-yesterday"))
    scenes.running(world.accepted("gpt-4o-mini", "gpt-4o", count=60), completed=31, failed=2)
    scenes.ended_without_run(world.accepted(name=""), "failed")
    world.accepted(name=scenes.LONG_NAME)
    return "/app/batches/"


def _running(world: World) -> str:
    batch = world.accepted("gpt-4o-mini", "gpt-4o", count=60, name="running")
    scenes.running(batch, completed=31, failed=2, reported=12)
    scenes.with_second_lane(batch, rows_there=20)
    return _address(batch)


def _waiting(world: World) -> str:
    return _address(scenes.waiting(world.accepted(name="waiting")))


def _completed(world: World) -> str:
    return _address(world.finished(world.accepted("gpt-4o-mini", "gpt-4o", count=3, name="completed")))


def _partly_failed(world: World) -> str:
    world.simulator.control.add_fault("row_error", contains="number 3", status_code=400, code="invalid_request")
    return _address(world.finished(world.accepted(name="partly-failed")))


def _failed(world: World) -> str:
    return _address(scenes.ended_without_run(world.accepted(name=""), "failed"))


def _cancelled(world: World) -> str:
    return _address(scenes.ended_without_run(world.accepted(name="x" * 200), "cancelled"))


def _results_before_the_end(world: World) -> str:
    return _address(world.accepted(name="results")) + "results"


def _open_rotation(page: Page) -> None:
    page.get_by_role("link", name="Rotate gpt-4o on openai-direct").click()
    expect(page.get_by_role("dialog").get_by_label("Reason")).to_be_visible()


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCase:
    """One page in one state. ``seen_by`` looks at it in the browser; ``others`` get these statuses."""

    name: str
    url_name: str
    seen_by: Role
    make: Callable[[World], str]
    status: int = 200
    others: Mapping[Role, int] = field(default_factory=dict)
    act: Callable[[Page], None] | None = None


_OF_MEMBERS: Mapping[Role, int] = {"nobody": 302, "viewer": 200, "operator": 404}
_OF_A_BATCH: Mapping[Role, int] = {**_OF_MEMBERS, "stranger": 404}
_OF_STAFF: Mapping[Role, int] = {"nobody": 302, "admin": 404, "support": 200}


def _batch(name: str, make: Callable[[World], str]) -> PageCase:
    return PageCase(name=name, url_name="routing:batch-detail", seen_by="admin", make=make, others=_OF_A_BATCH)


PAGES = (
    PageCase(
        name="sign in",
        url_name="accounts:login",
        seen_by="nobody",
        make=lambda _world: "/login",
        others={"admin": 302, "operator": 302},
    ),
    PageCase(name="no batches", url_name="routing:batch-list", seen_by="admin", make=_empty_list, others=_OF_MEMBERS),
    PageCase(name="batches", url_name="routing:batch-list", seen_by="admin", make=_full_list, others=_OF_MEMBERS),
    _batch("running batch", _running),
    _batch("waiting batch", _waiting),
    _batch("completed batch", _completed),
    _batch("partly failed batch", _partly_failed),
    _batch("failed batch", _failed),
    _batch("cancelled batch", _cancelled),
    PageCase(
        name="lanes",
        url_name="catalog:lane-list",
        seen_by="operator",
        make=lambda _world: "/ops/lanes/",
        others=_OF_STAFF,
    ),
    PageCase(
        name="lanes, rotating one",
        url_name="catalog:lane-list",
        seen_by="operator",
        make=lambda _world: "/ops/lanes/?provider=openai",
        act=_open_rotation,
    ),
    PageCase(
        name="rotate a lane",
        url_name="catalog:lane-rotate",
        seen_by="operator",
        make=lambda _world: ROTATE,
        others={**_OF_STAFF, "support": 403},
    ),
    PageCase(
        name="no such page",
        url_name="routing:batch-detail",
        seen_by="admin",
        make=lambda _world: "/app/batches/batch_x/",
        status=404,
    ),
    PageCase(
        name="not for this role",
        url_name="routing:batch-results",
        seen_by="viewer",
        make=_results_before_the_end,
        status=403,
        others={"admin": 404, "nobody": 302, "stranger": 404},
    ),
)
# What has an address and no page of its own.
NOT_PAGES = {
    "healthz": "for machines",
    "readyz": "for machines",
    "accounts:logout": "takes a POST and leads to the sign-in page",
    "console:home": "leads to the first page of the viewer's role",
    "routing:batch-output": "a download",
    "routing:batch-errors": "a download",
}
