"""Every page in both themes and two widths: readable by everybody, and nothing goes wrong in it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from tests.browser.cases import PageCase, Role, World
from tests.browser.conftest import OpenPage
from tests.browser.pages import NOT_PAGES, PAGES
from tests.browser.watched import Theme, Viewer, Watched

WINDOWS: tuple[tuple[Theme, int], ...] = (("light", 1360), ("light", 390), ("dark", 1360), ("dark", 390))
NARROW = (320, 390)
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


def begins_wrongly(watched: Watched, case: PageCase) -> Iterator[str]:
    """A page has one heading, and its first stop is the skip link; a dialog has stops of its own."""
    if watched.page.locator("h1").count() != 1:
        yield "not one h1"
    if case.act is None:
        watched.focus_the_start()
        watched.page.keyboard.press("Tab")
        if watched.page.locator(":focus").text_content() != "Skip to content":
            yield "no skip link first"


def unseen_by_keyboard(watched: Watched) -> Iterator[str]:
    """Tab reaches whatever takes the focus, and it shows where it is."""
    reached, unseen = watched.walk(SHORT_WALK)
    reachable = watched.reachable_count()
    if reached not in {reachable, SHORT_WALK}:
        yield f"Tab reaches {reached} of {reachable}"
    yield from (f"focus is not seen: {html}" for html in unseen)


def unreadable_somewhere(watched: Watched) -> Iterator[str]:
    """In both themes and two widths nothing hinders a reader, and nothing is wider than a narrow window."""
    for theme, width in WINDOWS:
        watched.turn_into(theme, width)
        yield from (f"{theme} {width}: {violation}" for violation in watched.violations())
    for width in NARROW:
        watched.turn_into("light", width)
        if watched.scrolls_sideways():
            yield f"scrolls sideways at {width}"


def answers_of_others(case: PageCase, world: World, path: str) -> dict[Role, int]:
    given: dict[Role, int] = {}
    for role in case.others:
        client = Client()
        person = world.person(role)
        if person is not None:
            client.force_login(person)
        given[role] = client.get(path).status_code
    return given


def called_wrongly(watched: Watched, case: PageCase, titles: Path) -> Iterator[str]:
    """A page's title is its own: two addresses never share one, in whichever process their tests run."""
    title = watched.page.title()
    if not title.endswith(" · Lanehouse"):
        yield f"title {title!r}"
    taken = titles / hashlib.sha256(title.encode()).hexdigest()
    try:
        with taken.open("x") as first:
            first.write(case.url_name)
    except FileExistsError:
        # An empty file: its writer is at it this moment.
        if taken.read_text() not in {case.url_name, ""}:
            yield f"{title!r} is also the title of {taken.read_text()}"


@every_page
def test_a_page_is_for_everybody_it_is_meant_for(
    case: PageCase, world: World, open_page: OpenPage, titles: Path
) -> None:
    path = case.make(world)
    watched = open_page(Viewer(user=world.person(case.seen_by)))
    shown(watched, case, path)
    named_wrongly = list(called_wrongly(watched, case, titles)) if case.act is None else []
    wrong = [
        *named_wrongly,
        *begins_wrongly(watched, case),
        *unseen_by_keyboard(watched),
        *unreadable_somewhere(watched),
    ]
    assert wrong == []
    assert answers_of_others(case, world, path) == case.others
