"""A batch's page that is open while things happen."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, Route, expect

from routing.models import Batch
from tests.browser.cases import World
from tests.browser.conftest import POLL_MS, OpenPage
from tests.browser.watched import Viewer, Watched
from tests.harness.world import do_due_steps
from tests.routing.pages import scenes


def opened(world: World, open_page: OpenPage, batch: Batch) -> Watched:
    watched = open_page(Viewer(user=world.person("admin")))
    # Time that a test can let pass at once; it also goes on by itself.
    watched.page.clock.install()
    watched.go(address(batch))
    return watched


def address(batch: Batch) -> str:
    return f"/app/batches/{batch.public_id}/"


def badge(page: Page, word: str) -> None:
    expect(page.locator("h1 + .badge")).to_contain_text(word)


def let_polls_pass(watched: Watched, batch: Batch, count: int) -> int:
    """Let the time of so many polls pass; give how many requests there were in it."""
    before = watched.count_of(address(batch))
    watched.page.clock.run_for(POLL_MS * count)
    # Requests made by then are told before the answer to this.
    watched.page.evaluate("new Promise((resolve) => { requestAnimationFrame(() => resolve()); })")
    return watched.count_of(address(batch)) - before


def test_a_batch_finishes_while_its_page_is_open(world: World, open_page: OpenPage) -> None:
    batch = world.accepted(count=6)
    watched = opened(world, open_page, batch)
    page = watched.page
    badge(page, "In progress")
    do_due_steps()
    expect(page.get_by_role("cell", name="Running")).to_be_visible()
    world.finished(batch)
    badge(page, "Completed")
    expect(page.get_by_role("heading", name="Receipt")).to_be_visible()
    expect(page.locator("tfoot th", has_text="Released at the end")).to_be_visible()
    expect(page.locator("#toasts")).to_contain_text("Completed: nightly-classify-1129.")
    expect(page).to_have_title("Completed: nightly-classify-1129 · Lanehouse")
    expect(page.locator("#live")).to_have_text("Completed: nightly-classify-1129.")
    assert let_polls_pass(watched, batch, 20) == 0


def test_a_page_asks_while_the_batch_runs(world: World, open_page: OpenPage) -> None:
    batch = world.accepted()
    watched = opened(world, open_page, batch)
    with watched.page.expect_response(lambda response: response.status == 204):
        watched.page.clock.run_for(POLL_MS)


def test_what_a_person_opened_and_where_they_are_survives_the_polls(world: World, open_page: OpenPage) -> None:
    batch = scenes.running(world.accepted(count=60), completed=10, failed=0)
    watched = opened(world, open_page, batch)
    page = watched.page
    page.get_by_text("Why this lane").click()
    page.set_viewport_size({"width": 1360, "height": 500})
    page.evaluate("scrollTo(0, 300)")
    page.get_by_role("button", name="Copy quote id").focus()
    for completed in (20, 30, 40):
        scenes.in_state(batch, "in_progress", completed_count=completed)
        batch.sub_lanes.update(completed_count=completed)
        expect(page.locator(".stats")).to_contain_text(f"{completed} / 60")
    expect(page.locator("details")).to_have_attribute("open", "")
    expect(page.get_by_role("button", name="Copy quote id")).to_be_focused()
    assert page.evaluate("scrollY") == 300


def test_missed_polls_are_told_and_forgotten_when_they_come_again(world: World, open_page: OpenPage) -> None:
    batch = world.accepted()
    watched = opened(world, open_page, batch)
    watched.expected_statuses.add(503)

    def busy(route: Route) -> None:
        route.fulfill(status=503, body="busy")

    watched.page.route(re.compile(r"\?v="), busy)
    mark = watched.page.locator("[data-updated]")
    expect(mark).to_contain_text("retrying")
    watched.page.unroute(re.compile(r"\?v="))
    expect(mark).to_contain_text("Updated")


def test_a_session_that_ends_leads_to_sign_in(world: World, open_page: OpenPage) -> None:
    watched = opened(world, open_page, world.accepted())
    watched.page.context.clear_cookies()
    watched.page.wait_for_url(re.compile(r"/login\?next="))
    expect(watched.page.get_by_role("heading", name="Sign in")).to_be_visible()


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_batch_that_ends_otherwise_stops_too(world: World, open_page: OpenPage, status: str) -> None:
    batch = world.accepted()
    watched = opened(world, open_page, batch)
    badge(watched.page, "In progress")
    scenes.ended_without_run(batch, status)
    badge(watched.page, status.capitalize())
    assert let_polls_pass(watched, batch, 20) == 0


def test_back_and_reload_show_the_whole_page(world: World, open_page: OpenPage) -> None:
    batch = world.accepted()
    watched = opened(world, open_page, batch)
    page = watched.page
    page.get_by_role("link", name="Batches").first.click()
    expect(page.get_by_role("heading", name="Batches", level=1)).to_be_visible()
    page.go_back()
    badge(page, "In progress")
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()
    page.reload()
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()


def test_without_script_a_reload_shows_the_same(world: World, open_page: OpenPage) -> None:
    batch = world.accepted()
    watched = open_page(Viewer(user=world.person("admin"), script=False))
    watched.go("/app/batches/")
    watched.page.get_by_role("link", name="nightly-classify-1129").click()
    badge(watched.page, "In progress")
    world.finished(batch)
    watched.page.reload()
    badge(watched.page, "Completed")
    expect(watched.page.locator("tfoot th", has_text="Total")).to_be_visible()
