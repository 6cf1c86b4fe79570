"""What a page is to the browser's tests: where it is, what must be there first, and who gets which answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from playwright.sync_api import Page

from accounts.models import User
from routing.models import Batch
from simulators.running import RunningSimulator
from tests.harness.clock import Clock
from tests.harness.world import Tenant, make_tenant
from tests.routing.pages import scenes
from webhooks.models import Delivery, Endpoint
from webhooks.services.endpoints import create_endpoint, send_test_event

Role = Literal["nobody", "admin", "viewer", "stranger", "operator", "support", "finance", "superadmin", "billing"]


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

    def endpoint(self) -> Endpoint:
        url = "https://hooks.example.com/lanehouse"
        endpoint, _secret = create_endpoint(self.tenant.organisation, url=url, name="Nightly jobs", event_types=())
        return endpoint

    def delivery(self) -> Delivery:
        return send_test_event(self.tenant.organisation, self.endpoint().public_id)

    def _make(self, role: Role) -> User:
        if role in {"operator", "support", "finance", "superadmin"}:
            return scenes.staff(role, name=f"{role.title()} Olu")
        if role == "stranger":
            return scenes.member(make_tenant("other").organisation, name="Stranger Sam")
        return scenes.member(self.tenant.organisation, role, name=f"{role.title()} Casey")


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
