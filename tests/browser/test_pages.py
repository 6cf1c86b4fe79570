"""Every page in both themes and two widths: readable by everybody, and nothing goes wrong in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from playwright.sync_api import expect

from tests.browser.cases import PageCase, World
from tests.browser.conftest import NewWorld, OpenPage
from tests.browser.pages import NOT_PAGES, PAGES
from tests.browser.watched import Theme, Viewer, Watched

WINDOWS: tuple[tuple[Theme, int], ...] = (("light", 1360), ("light", 390), ("dark", 1360), ("dark", 390))
SHORT_WALK = 60
every_page = pytest.mark.parametrize("case", PAGES, ids=lambda case: case.name)


def names(patterns: list[URLPattern | URLResolver], namespace: str = "") -> Iterator[str]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            # The API has no pages; its own document lists it.
            if not str(pattern.pattern).startswith("v1/"):
                yield from names(pattern.url_patterns, f"{pattern.namespace}:" if pattern.namespace else namespace)
        elif pattern.name:
            yield namespace + pattern.name


def shown(watched: Watched, case: PageCase, path: str) -> None:
    if case.status >= 400:
        watched.expected_statuses.add(case.status)
    assert watched.go(path).status == case.status
    if case.act:
        # A form that is sent with mistakes comes back with this.
        watched.expected_statuses.add(422)
        case.act(watched.page)


def test_every_address_is_a_page_of_the_list_or_said_to_be_none() -> None:
    listed = {case.url_name for case in PAGES}
    assert set(names(get_resolver().url_patterns)) == listed | set(NOT_PAGES)


@every_page
def test_a_page_is_for_everybody_in_every_window(case: PageCase, world: World, open_page: OpenPage) -> None:
    path = case.make(world)
    found = []
    for theme, width in WINDOWS:
        watched = open_page(Viewer(user=world.person(case.seen_by), theme=theme, width=width))
        shown(watched, case, path)
        found += [f"{theme} {width}: {violation}" for violation in watched.violations()]
        found += [
            f"{theme}: scrolls sideways at {narrow}" for narrow in (320, 390) if watched.scrolls_sideways_at(narrow)
        ]
    assert found == []


@every_page
def test_a_page_has_one_heading_and_begins_with_the_skip_link(
    case: PageCase, world: World, open_page: OpenPage
) -> None:
    watched = open_page(Viewer(user=world.person(case.seen_by)))
    shown(watched, case, case.make(world))
    expect(watched.page.locator("h1")).to_have_count(1)
    if case.act is None:
        watched.focus_the_start()
        watched.page.keyboard.press("Tab")
        expect(watched.page.locator(":focus")).to_have_text("Skip to content")


@every_page
def test_what_the_keyboard_reaches_is_seen(case: PageCase, world: World, open_page: OpenPage) -> None:
    watched = open_page(Viewer(user=world.person(case.seen_by)))
    shown(watched, case, case.make(world))
    reached, unseen = watched.walk(SHORT_WALK)
    assert unseen == []
    assert reached == watched.reachable_count() or reached == SHORT_WALK


@every_page
def test_who_may_not_see_a_page_does_not(case: PageCase, world: World) -> None:
    path = case.make(world)
    given = {}
    for role in case.others:
        client = Client()
        person = world.person(role)
        if person is not None:
            client.force_login(person)
        given[role] = client.get(path).status_code
    assert given == case.others


def test_each_page_has_a_title_of_its_own(new_world: NewWorld) -> None:
    pages_by_title: dict[str, set[str]] = {}
    for case in PAGES:
        if case.act is None:
            world = new_world()
            client = Client()
            person = world.person(case.seen_by)
            if person is not None:
                client.force_login(person)
            found = re.search(r"<title>(.*?)</title>", client.get(case.make(world)).content.decode())
            assert found
            pages_by_title.setdefault(found.group(1), set()).add(case.url_name)
    assert {title: pages for title, pages in pages_by_title.items() if len(pages) > 1} == {}
    assert all(title.endswith(" · Lanehouse") for title in pages_by_title)
