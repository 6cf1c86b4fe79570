"""What people come to do, from the first click to the last."""

from __future__ import annotations

import hashlib

from playwright.sync_api import expect

from tests.browser.cases import World
from tests.browser.conftest import OpenPage
from tests.browser.watched import Viewer, Watched
from tests.routing.pages import scenes


def sign_in(watched: Watched, email: str) -> None:
    watched.page.get_by_label("E-mail").fill(email)
    watched.page.get_by_label("Password").fill(scenes.PASSWORD)
    watched.page.get_by_role("button", name="Sign in").click()


def test_a_customer_signs_in_and_reads_a_batch(world: World, open_page: OpenPage) -> None:
    world.accepted(name="the-one")
    user = world.person("admin")
    assert user is not None
    watched = open_page(Viewer())
    watched.go("/")
    sign_in(watched, user.email)
    page = watched.page
    expect(page).to_have_title("Overview · Lanehouse")
    page.get_by_role("link", name="Batches", exact=True).first.click()
    page.get_by_role("link", name="the-one").click()
    expect(page.get_by_role("heading", name="the-one", level=1)).to_be_visible()


def test_a_wrong_password_is_refused_in_place(world: World, open_page: OpenPage) -> None:
    watched = open_page(Viewer())
    watched.expected_statuses.add(422)
    watched.go("/login")
    sign_in(watched, "nobody@example.com")
    expect(watched.page.get_by_role("alert").first).to_contain_text("You are not signed in")
    expect(watched.page.get_by_label("E-mail")).to_have_value("nobody@example.com")


def test_signing_out_ends_it(world: World, open_page: OpenPage) -> None:
    watched = open_page(Viewer(user=world.person("admin")))
    watched.go("/app/batches/")
    watched.page.get_by_role("button", name="Casey").click()
    watched.page.get_by_role("button", name="Sign out").click()
    watched.go("/app/batches/")
    expect(watched.page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_the_downloaded_results_are_the_file(world: World, open_page: OpenPage) -> None:
    batch = world.finished(world.accepted())
    watched = open_page(Viewer(user=world.person("admin")))
    watched.go(f"/app/batches/{batch.public_id}/")
    with watched.page.expect_download() as download:
        watched.page.get_by_role("link", name="Download results").first.click()
    assert batch.results_file is not None
    content = download.value.path().read_bytes()
    assert hashlib.sha256(content).digest() == bytes(batch.results_file.sha256)
    assert download.value.suggested_filename == batch.results_file.filename


def test_an_id_is_copied_whole(world: World, open_page: OpenPage) -> None:
    batch = world.accepted()
    watched = open_page(Viewer(user=world.person("admin")))
    watched.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    watched.go(f"/app/batches/{batch.public_id}/")
    watched.page.get_by_role("button", name="Copy batch id").click()
    expect(watched.page.locator("#live")).to_contain_text("Copied batch_")
    assert watched.page.evaluate("navigator.clipboard.readText()") == batch.public_id


def test_an_operator_takes_a_lane_out_with_a_reason(world: World, open_page: OpenPage) -> None:
    watched = open_page(Viewer(user=world.person("operator")))
    watched.go("/ops/lanes/?provider=openai")
    page = watched.page
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="Rotate gpt-4o on openai-direct"))
    expect(row).to_contain_text("In rotation")
    row.get_by_role("link", name="Rotate").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Out: takes no work").check()
    dialog.get_by_label("Reason").fill("errors since noon")
    dialog.get_by_role("button", name="Change rotation").click()
    expect(dialog).to_be_hidden()
    expect(row).to_contain_text("Out of rotation")
    expect(row).to_contain_text("errors since noon")
    page.reload()
    expect(row).to_contain_text("errors since noon")


def test_a_rotation_without_reason_is_refused_in_the_dialog(world: World, open_page: OpenPage) -> None:
    watched = open_page(Viewer(user=world.person("operator")))
    watched.expected_statuses.add(422)
    watched.go("/ops/lanes/?provider=openai")
    page = watched.page
    page.get_by_role("link", name="Rotate gpt-4o on openai-direct").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Change rotation").click()
    expect(dialog.get_by_role("alert")).to_contain_text("The rotation was not changed")
    expect(dialog.locator(":focus")).to_have_count(1)
    assert watched.violations() == []


def test_the_theme_chosen_stays(world: World, open_page: OpenPage) -> None:
    watched = open_page(Viewer(user=world.person("admin")))
    watched.go("/app/batches/")
    page = watched.page
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Dark").click()
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert dark != light
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page.get_by_role("button", name="Dark")).to_have_attribute("aria-pressed", "true")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark


def test_the_browsers_zone_is_used_from_the_second_page_on(world: World, open_page: OpenPage) -> None:
    watched = open_page(Viewer(user=world.person("admin"), zone="America/Los_Angeles"))
    watched.go("/app/batches/")
    watched.page.reload()
    expect(watched.page.get_by_text("Times in America/Los_Angeles")).to_be_visible()


def test_a_customer_needs_no_mouse(world: World, open_page: OpenPage) -> None:
    for name in ("older", "newer"):
        world.accepted(name=name)
    user = world.person("admin")
    assert user is not None
    watched = open_page(Viewer())
    watched.go("/")
    keyboard, page = watched.page.keyboard, watched.page
    expect(page.locator("input:focus")).to_have_count(1)
    keyboard.type(user.email)
    keyboard.press("Tab")
    keyboard.type(scenes.PASSWORD)
    keyboard.press("Enter")
    expect(page).to_have_title("Overview · Lanehouse")
    keyboard.press("g")
    keyboard.press("b")
    expect(page.get_by_role("heading", name="Batches", level=1)).to_be_visible()
    keyboard.press("j")
    keyboard.press("j")
    keyboard.press("k")
    keyboard.press("j")
    expect(page.get_by_role("link", name="older")).to_be_focused()
    keyboard.press("Enter")
    expect(page.get_by_role("heading", name="older", level=1)).to_be_visible()
    keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    keyboard.press("Escape")
    keyboard.press("g")
    keyboard.press("b")
    expect(page.get_by_role("heading", name="Batches", level=1)).to_be_visible()


def test_an_operator_needs_no_mouse(world: World, open_page: OpenPage) -> None:
    watched = open_page(Viewer(user=world.person("operator")))
    watched.go("/ops/lanes/?text=gpt-4o-2024-08-06")
    keyboard, page = watched.page.keyboard, watched.page
    keyboard.press("j")
    # A row begins with the link to its lane.
    keyboard.press("Tab")
    expect(page.get_by_role("link", name="Rotate gpt-4o on openai-direct")).to_be_focused()
    keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("radio", name="Drain")).to_be_focused()
    # Until it has settled, a new dialog takes the focus to its first field once more.
    expect(page.locator(".htmx-settling")).to_have_count(0)
    dialog.get_by_label("Reason").focus()
    keyboard.type("planned work")
    keyboard.press("Tab")
    keyboard.press("Tab")
    expect(dialog.get_by_role("button", name="Change rotation")).to_be_focused()
    keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    expect(page.locator("#lane-gpt-4o-openai-direct")).to_contain_text("planned work")
