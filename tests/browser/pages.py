"""Every page of the product.

The list is closed: a test compares it with the addresses, so that no page is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from playwright.sync_api import Page, expect

from routing.models import Batch
from routing.services.file_batches import validate_next_batch
from routing.services.file_quotes import price_next_file
from tests.browser.accuracy_pages import OF_ACCURACY
from tests.browser.audit_pages import NOT_OF_AUDIT, OF_AUDIT
from tests.browser.batch_pages import OF_BATCHES
from tests.browser.cases import PageCase, Role, World
from tests.browser.console_pages import OF_THE_CONSOLE
from tests.browser.customer_pages import OF_CUSTOMERS
from tests.browser.docs_pages import OF_DOCS
from tests.browser.file_pages import NOT_OF_FILES, OF_FILES
from tests.browser.fin_pages import OF_FINANCE
from tests.browser.key_pages import OF_KEYS
from tests.browser.money_pages import NOT_OF_MONEY, OF_MONEY
from tests.browser.people_pages import OF_PEOPLE
from tests.browser.quote_pages import NOT_OF_QUOTES, OF_QUOTES
from tests.browser.quote_path_pages import OF_QUOTE_PATH
from tests.browser.rate_pages import OF_RATES
from tests.browser.reconciliation_pages import NOT_OF_RECONCILIATION, OF_RECONCILIATION
from tests.browser.wall_pages import OF_WALL
from tests.routing.pages import scenes

ROTATE = "/ops/lanes/gpt-4o/openai-direct/rotate/"


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


def _validating(world: World) -> str:
    return _address(scenes.validating(world.tenant, scenes.rows()))


def _not_taken(world: World) -> str:
    batch = scenes.validating(world.tenant, scenes.rows() * 2)
    price_next_file()
    validate_next_batch()
    return _address(batch)


def _cancelled(world: World) -> str:
    return _address(scenes.ended_without_run(world.accepted(name="x" * 200), "cancelled"))


def _results_before_the_end(world: World) -> str:
    return _address(world.accepted(name="results")) + "results"


def _open_rotation(page: Page) -> None:
    page.get_by_role("link", name="Rotate gpt-4o on openai-direct").click()
    expect(page.get_by_role("dialog").get_by_label("Reason")).to_be_visible()


_OF_MEMBERS: Mapping[Role, int] = {"nobody": 302, "viewer": 200, "operator": 404}
_OF_A_BATCH: Mapping[Role, int] = {**_OF_MEMBERS, "stranger": 404}
_OF_STAFF: Mapping[Role, int] = {"nobody": 302, "admin": 404, "support": 200}


def _batch(name: str, make: Callable[[World], str]) -> PageCase:
    return PageCase(name=name, url_name="routing:batch-detail", seen_by="admin", make=make, others=_OF_A_BATCH)


def _webhooks(name: str, page: str, make: Callable[[World], str], *, viewer: int = 403) -> PageCase:
    others: Mapping[Role, int] = {**_OF_MEMBERS, "viewer": viewer}
    return PageCase(name=name, url_name=f"webhooks:{page}", seen_by="admin", make=make, others=others)


def _endpoint(world: World, tail: str = "") -> str:
    return f"/app/webhooks/{world.endpoint().public_id}/{tail}"


def _some_endpoints(world: World) -> str:
    world.delivery()
    return "/app/webhooks/"


def _some_deliveries(world: World) -> str:
    world.delivery()
    return "/app/webhooks/deliveries/"


def _delivery(world: World) -> str:
    return f"/app/webhooks/deliveries/{world.delivery().public_id}/"


_OF_WEBHOOKS = (
    _webhooks("no endpoints", "endpoint-list", lambda _world: "/app/webhooks/", viewer=200),
    _webhooks("endpoints", "endpoint-list", _some_endpoints, viewer=200),
    _webhooks("new endpoint", "endpoint-new", lambda _world: "/app/webhooks/new/"),
    _webhooks("endpoint", "endpoint-detail", _endpoint),
    _webhooks("edit an endpoint", "endpoint-edit", lambda world: _endpoint(world, "edit/")),
    _webhooks("rotate a secret", "endpoint-rotate", lambda world: _endpoint(world, "rotate/")),
    _webhooks("delete an endpoint", "endpoint-delete", lambda world: _endpoint(world, "delete/")),
    _webhooks("deliveries", "delivery-list", _some_deliveries),
    _webhooks("delivery", "delivery-detail", _delivery),
)
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
    _batch("batch whose file is checked", _validating),
    _batch("batch whose file was not taken", _not_taken),
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
    ),
    *_OF_WEBHOOKS,
    *OF_AUDIT,
    *OF_RECONCILIATION,
    *OF_BATCHES,
    *OF_THE_CONSOLE,
    *OF_FILES,
    *OF_CUSTOMERS,
    *OF_FINANCE,
    *OF_DOCS,
    *OF_KEYS,
    *OF_MONEY,
    *OF_PEOPLE,
    *OF_QUOTES,
    *OF_RATES,
    *OF_WALL,
    *OF_ACCURACY,
    *OF_QUOTE_PATH,
)
# What has an address and no page of its own.
NOT_PAGES = {
    "healthz": "for machines",
    "readyz": "for machines",
    "metrics": "for machines",
    "accounts:logout": "takes a POST and leads to the sign-in page",
    "console:home": "leads to the first page of the viewer's role",
    "webhooks:endpoint-state": "takes a POST",
    "webhooks:endpoint-test": "takes a POST",
    "webhooks:delivery-resend": "takes a POST",
    "routing:batch-file": "a download",
    "routing:provider-notice": "for providers",
    "routing:job-look": "takes a POST",
    "routing:polls-look": "takes a POST",
    **NOT_OF_AUDIT,
    **NOT_OF_RECONCILIATION,
    **NOT_OF_FILES,
    **NOT_OF_MONEY,
    **NOT_OF_QUOTES,
}
