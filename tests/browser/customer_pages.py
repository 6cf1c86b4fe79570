"""Staff's pages of customers, and finance's first page."""

from __future__ import annotations

from accounts.services.blocking import set_block
from billing.books.services import prove_when_due
from tests.browser.cases import PageCase, Role, World
from tests.browser.money_pages import charged
from tests.harness.world import make_tenant
from tests.routing.pages import scenes

_STAFF: dict[Role, int] = {"nobody": 302, "admin": 404, "support": 200, "finance": 200}


def _worked(world: World, path: str) -> str:
    charged(world.tenant.organisation, 23_951_101)
    prove_when_due()
    return path


def _whole(world: World) -> str:
    """With batches, money, keys and an endpoint, and blocked."""
    organisation = world.tenant.organisation
    scenes.running(world.accepted("gpt-4o-mini", "gpt-4o", count=60), completed=31, failed=2)
    world.endpoint()
    operator = world.person("operator")
    assert operator is not None
    set_block(organisation, is_blocked=True, reason="asked for by their bank", user=operator)
    return _worked(world, f"/ops/customers/{organisation.public_id}/")


OF_CUSTOMERS = (
    PageCase(
        name="customers",
        url_name="console:customer-list",
        seen_by="operator",
        make=lambda world: _worked(world, "/ops/customers/"),
        others=_STAFF,
    ),
    PageCase(
        name="customer",
        url_name="console:customer-detail",
        seen_by="operator",
        make=_whole,
        others=_STAFF,
    ),
    PageCase(
        name="customer with nothing",
        url_name="console:customer-detail",
        seen_by="finance",
        make=lambda _world: f"/ops/customers/{make_tenant('empty', credit_micro_usd=0).organisation.public_id}/",
    ),
    PageCase(
        name="block of a customer",
        url_name="console:customer-block",
        seen_by="finance",
        make=lambda world: f"/ops/customers/{world.tenant.organisation.public_id}/block/",
        others={**_STAFF, "support": 403, "operator": 200},
    ),
    PageCase(
        name="limits of a customer",
        url_name="console:customer-limits",
        seen_by="operator",
        make=lambda world: f"/ops/customers/{world.tenant.organisation.public_id}/limits/",
        others={**_STAFF, "support": 403, "finance": 403},
    ),
    PageCase(
        name="finance",
        url_name="console:finance-overview",
        seen_by="finance",
        make=lambda world: _worked(world, "/fin/"),
        others={"nobody": 302, "admin": 404, "operator": 403},
    ),
)
