"""Pages of money: receipts and the wallet."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from accounts.models import Organisation
from billing.exports.models import Export
from billing.services.exports import ExportWish, create_export
from billing.services.settlement import settle_batch
from billing.services.wallets import record_top_up
from ground import clock
from ground.ids import new_public_id
from tests.billing.kit import settlement, usage
from tests.browser.cases import PageCase, Role, World

_RECEIPTS, _WALLET = "/app/receipts/", "/app/wallet/"
_LIST_OTHERS: dict[Role, int] = {"nobody": 302, "viewer": 403, "operator": 404}


def charged(organisation: Organisation, micro_usd: int, ceiling_micro_usd: int = 10**15) -> None:
    at = clock.now()
    batch = new_public_id("batch_", at)
    settle_batch(
        settlement(organisation, batch, usage("gpt-4o", micro_usd), settled_at=at, ceiling_micro_usd=ceiling_micro_usd)
    )


def _some_receipts(world: World) -> str:
    world.finished(world.accepted("gpt-4o-mini", "gpt-4o", count=3))
    charged(world.tenant.organisation, 23_951_101)
    charged(world.tenant.organisation, 70_000, ceiling_micro_usd=60_000)
    return _RECEIPTS


def _receipt(world: World) -> str:
    batch = world.finished(world.accepted("gpt-4o-mini", "gpt-4o", count=3))
    return f"{_RECEIPTS}{batch.receipt_id}/"


def _wallet_in_use(world: World) -> str:
    _some_receipts(world)
    record_top_up(
        world.tenant.organisation,
        reference="SEPA 2026-11-28 / 4471-A",
        amount_micro_usd=250_000_000,
        effective_at=clock.now(),
        recorded_by=None,
    )
    world.accepted(count=60)
    return _WALLET


def _wallet_that_owes(world: World) -> str:
    charged(world.tenant.organisation, 100_750_000)
    return _WALLET


def _some_usage(world: World) -> str:
    for number, (model, micro_usd) in enumerate(
        (("gpt-4o-mini", 23_951_101), ("gpt-4o", 7_400_000), ("o3", 1_250_000), ("o4-mini", 900_000), ("gpt-5", 80_000))
    ):
        for day in range(1 + number, 28, 1 + number):
            at = clock.now() - timedelta(days=day)
            request = settlement(
                world.tenant.organisation,
                new_public_id("batch_", at),
                usage(model, micro_usd // (day % 7 + 1)),
                settled_at=at,
            )
            settle_batch(request)
    return "/app/usage/"


def _exports(world: World) -> str:
    _some_usage(world)
    for kind in ("usage", "focus"):
        create_export(world.tenant.organisation, ExportWish(kind=kind, file_format="csv", filters={}))
    return "/app/exports/"


def _export(world: World) -> str:
    _some_usage(world)
    wish = ExportWish(kind="focus", file_format="parquet", first_day=clock.now().date() - timedelta(days=20))
    return f"/app/exports/{create_export(world.tenant.organisation, wish).public_id}/"


def _export_that_waits(world: World) -> str:
    export = create_export(world.tenant.organisation, ExportWish(kind="usage", file_format="csv"))
    Export.objects.filter(pk=export.pk).update(
        state="running",
        due_at=clock.now(),
        finished_at=None,
        sha256=None,
        size_bytes=None,
        row_count=None,
        blob_name="",
        expected_count=1_000_000,
        done_count=420_000,
    )
    return f"/app/exports/{export.public_id}/"


def _house_export(world: World) -> str:
    _some_usage(world)
    return f"/fin/exports/{create_export(None, ExportWish(kind='journal', file_format='beancount')).public_id}/"


_OF_EXPORTS: dict[Role, int] = {"nobody": 302, "viewer": 403, "operator": 404}
_OF_FINANCE: dict[Role, int] = {"nobody": 302, "admin": 404, "operator": 403}


def _exports_page(name: str, page: str, make: Callable[[World], str]) -> PageCase:
    return PageCase(name=name, url_name=f"billing:export-{page}", seen_by="admin", make=make, others=_OF_EXPORTS)


def _finance_page(name: str, page: str, make: Callable[[World], str]) -> PageCase:
    return PageCase(
        name=name, url_name=f"billing:house-export-{page}", seen_by="finance", make=make, others=_OF_FINANCE
    )


OF_EXPORTS = (
    _exports_page("no exports", "list", lambda _world: "/app/exports/"),
    _exports_page("exports", "list", _exports),
    _exports_page("new export", "new", lambda _world: "/app/exports/new?of=usage&since=2026-11-01&model=gpt-4o"),
    _exports_page("export", "detail", _export),
    _exports_page("export that is written", "detail", _export_that_waits),
    _finance_page("exports of finance", "list", lambda world: _house_export(world)[:13]),
    _finance_page("new export of finance", "new", lambda _world: "/fin/exports/new"),
    _finance_page("export of finance", "detail", _house_export),
)
OF_MONEY = (
    *OF_EXPORTS,
    PageCase(
        name="usage",
        url_name="billing:usage",
        seen_by="admin",
        make=_some_usage,
        others={**_LIST_OTHERS, "viewer": 200},
    ),
    PageCase(
        name="usage by batch",
        url_name="billing:usage",
        seen_by="viewer",
        make=lambda world: _some_usage(world) + "?by=batch&preset=90d",
    ),
    PageCase(name="no usage", url_name="billing:usage", seen_by="admin", make=lambda _world: "/app/usage/"),
    PageCase(
        name="no receipts",
        url_name="billing:receipt-list",
        seen_by="admin",
        make=lambda _world: _RECEIPTS,
        others=_LIST_OTHERS,
    ),
    PageCase(name="receipts", url_name="billing:receipt-list", seen_by="admin", make=_some_receipts),
    PageCase(
        name="no receipts that match",
        url_name="billing:receipt-list",
        seen_by="admin",
        make=lambda _world: f"{_RECEIPTS}?text=nothing&state=final&since=2026-01-01",
    ),
    PageCase(
        name="receipt",
        url_name="billing:receipt-detail",
        seen_by="admin",
        make=_receipt,
        others={**_LIST_OTHERS, "stranger": 404},
    ),
    PageCase(
        name="wallet",
        url_name="billing:wallet",
        seen_by="admin",
        make=_wallet_in_use,
        others={**_LIST_OTHERS, "viewer": 200},
    ),
    PageCase(name="wallet that owes", url_name="billing:wallet", seen_by="admin", make=_wallet_that_owes),
    PageCase(name="wallet for a viewer", url_name="billing:wallet", seen_by="viewer", make=lambda _world: _WALLET),
)
NOT_OF_MONEY = {
    "billing:receipt-csv": "a download",
    "billing:receipt-pdf": "a download",
    "billing:receipt-json": "a download",
    **{
        f"billing:{prefix}-{page}": why
        for prefix in ("export", "house-export")
        for page, why in (("file", "a download"), ("metadata", "a download"), ("cancel", "a form's target"))
    },
}
