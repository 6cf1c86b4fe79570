"""Staff's pages of customers, and finance's first page."""

from __future__ import annotations

from billing.books.services import prove_when_due
from tests.browser.cases import PageCase, Role, World
from tests.browser.money_pages import charged

_STAFF: dict[Role, int] = {"nobody": 302, "admin": 404, "support": 200, "finance": 200}


def _worked(world: World, path: str) -> str:
    charged(world.tenant.organisation, 23_951_101)
    prove_when_due()
    return path


OF_CUSTOMERS = (
    PageCase(
        name="customers",
        url_name="console:customer-list",
        seen_by="operator",
        make=lambda world: _worked(world, "/ops/customers/"),
        others=_STAFF,
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
