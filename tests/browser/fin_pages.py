"""Finance's pages of the books, and the customer's monthly statement."""

from __future__ import annotations

from django.conf import settings

from billing.adjustments.models import AdjustmentKind
from billing.adjustments.services import AdjustmentWish, request_adjustment
from billing.books.services import prove_when_due
from ground import clock
from tests.browser.cases import PageCase, Role, World
from tests.browser.money_pages import charged
from tests.routing.pages import scenes

_FIN: dict[Role, int] = {"nobody": 302, "admin": 404, "operator": 403}


def _traded(world: World, path: str) -> str:
    charged(world.tenant.organisation, 23_951_101)
    world.accepted(count=60)
    prove_when_due()
    return path.format(organisation=world.tenant.organisation.public_id)


def _asked(world: World, tail: str = "") -> str:
    other = scenes.staff("finance", name="Asking Ada")
    made = [
        request_adjustment(
            world.tenant.organisation,
            AdjustmentWish(kind=kind, amount_micro_usd=micro_usd, reason="late batch, agreed by mail"),
            request_key=kind,
            requested_by=other,
        )
        for kind, micro_usd in (
            (AdjustmentKind.GRANT, 5_000_000),
            (AdjustmentKind.CREDIT, settings.ADJUSTMENT_APPROVAL_ABOVE_MICRO_USD + 1),
        )
    ]
    return f"/fin/adjustments/{made[1].public_id}/{tail}"


def _case(name: str, url_name: str, path: str) -> PageCase:
    return PageCase(
        name=name,
        url_name=f"billing:{url_name}",
        seen_by="finance",
        make=lambda world: _traded(world, path),
        others=_FIN,
    )


OF_FINANCE = (
    _case("ledger", "ledger", "/fin/ledger/"),
    _case("accounts of the ledger", "ledger-accounts", "/fin/ledger/accounts/"),
    _case("account statement", "ledger-account", "/fin/ledger/accounts/wallet:{organisation}/"),
    _case("ledger entry", "entry-detail", "/fin/ledger/entries/top_up:{organisation}:first/"),
    _case("ledger health", "ledger-health", "/fin/ledger/health/"),
    PageCase(
        name="receipt for finance",
        url_name="billing:house-receipt",
        seen_by="finance",
        make=lambda world: f"/fin/receipts/{world.finished(world.accepted(count=3)).receipt_id}/",
        others=_FIN,
    ),
    _case("wallets", "wallet-list", "/fin/wallets/"),
    _case("top up a wallet", "wallet-top-up", "/fin/wallets/{organisation}/top-up/"),
    PageCase(
        name="adjustments",
        url_name="billing:adjustment-list",
        seen_by="finance",
        make=lambda world: _asked(world) and "/fin/adjustments/",
        others=_FIN,
    ),
    _case("new adjustment", "adjustment-new", "/fin/adjustments/new/"),
    PageCase(
        name="adjustment that waits",
        url_name="billing:adjustment-detail",
        seen_by="finance",
        make=_asked,
        others=_FIN,
    ),
    PageCase(
        name="decide an adjustment",
        url_name="billing:adjustment-decide",
        seen_by="finance",
        make=lambda world: _asked(world, "decide/"),
        others=_FIN,
    ),
    PageCase(
        name="low-balance alert",
        url_name="billing:wallet-alert",
        seen_by="admin",
        make=lambda _world: "/app/wallet/alert/",
        others={"nobody": 302, "viewer": 403, "operator": 404},
    ),
    PageCase(
        name="statement of a month",
        url_name="billing:month-statement",
        seen_by="admin",
        make=lambda world: _traded(world, f"/app/wallet/statements/{clock.now():%Y-%m}/"),
        others={"nobody": 302, "viewer": 403, "operator": 404},
    ),
)
