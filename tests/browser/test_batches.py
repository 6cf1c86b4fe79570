"""Finding a batch, watching the list, cancelling."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.batch_pages import let_it_end, submitted
from tests.browser.cases import World
from tests.browser.conftest import OpenPage
from tests.browser.watched import Viewer
from tests.routing.pages import scenes


def test_a_customer_cancels_a_batch(world: World, open_page: OpenPage) -> None:
    batch = submitted(world)
    watched = open_page(Viewer(user=world.person("admin")))
    watched.go(f"/app/batches/{batch.public_id}/")
    page = watched.page
    page.get_by_role("link", name="Cancel").click()
    dialog = page.get_by_role("dialog", name="Cancel the batch")
    expect(dialog).to_contain_text("0 of 120 requests")
    expect(dialog.get_by_role("button", name="Keep it running")).to_be_focused()
    dialog.get_by_role("button", name="Cancel the batch").click()
    expect(page.get_by_role("status").filter(has_text="The batch is being cancelled.")).to_be_visible()
    expect(page.locator("h1 + .badge")).to_have_text("Cancelling · 2 sub-lanes")
    expect(page.get_by_role("link", name="Cancel")).to_have_count(0)
    let_it_end(world)
    expect(page.locator("h1 + .badge")).to_contain_text("Cancelled")


def test_a_dialog_that_is_left_cancels_nothing(world: World, open_page: OpenPage) -> None:
    batch = submitted(world)
    watched = open_page(Viewer(user=world.person("admin")))
    watched.go(f"/app/batches/{batch.public_id}/")
    watched.page.get_by_role("link", name="Cancel").click()
    watched.page.get_by_role("button", name="Keep it running").click()
    expect(watched.page.get_by_role("dialog")).to_be_hidden()
    batch.refresh_from_db()
    assert batch.status == "in_progress"


def test_without_script_a_batch_is_found_and_cancelled(world: World, open_page: OpenPage) -> None:
    world.accepted(name="another")
    batch = world.accepted(name="the-one")
    watched = open_page(Viewer(user=world.person("admin"), script=False))
    watched.go("/app/batches/")
    page = watched.page
    page.get_by_label("Name or id").fill("one")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("#list tbody tr")).to_have_count(1)
    page.get_by_role("link", name="the-one").click()
    page.get_by_role("link", name="Cancel").click()
    page.get_by_role("button", name="Cancel the batch").click()
    expect(page.get_by_text("The batch is being cancelled.")).to_be_visible()
    batch.refresh_from_db()
    assert batch.status == "cancelling"


def test_a_list_moves_under_a_filter_and_then_rests(world: World, open_page: OpenPage) -> None:
    batch = world.accepted(count=60, name="the-one")
    watched = open_page(Viewer(user=world.person("admin")))
    watched.go("/app/batches/")
    page = watched.page
    page.locator("#id_text").press_sequentially("the-o")
    expect(page.get_by_role("link", name="Remove filter Name or id: the-o")).to_be_visible()
    scenes.running(batch, completed=31, failed=2)
    expect(page.locator("#list tbody tr")).to_contain_text("31 / 60")
    expect(page.locator("#id_text")).to_have_value("the-o")
    expect(page.locator("#id_text")).to_be_focused()
    scenes.ended_without_run(batch, "failed")
    expect(page.locator("#list")).not_to_have_attribute("data-poll", "")


def test_an_operator_finds_a_customers_batch(world: World, open_page: OpenPage) -> None:
    batch = submitted(world)
    watched = open_page(Viewer(user=world.person("operator")))
    watched.go("/ops/batches/?customer=acme")
    watched.page.get_by_role("link", name="submitted").click()
    expect(watched.page.get_by_role("heading", name="Provider jobs")).to_be_visible()
    expect(watched.page.get_by_role("button", name="Copy provider batch id")).to_have_count(2)
    assert watched.page.url.endswith(f"/ops/batches/{batch.public_id}/")
