"""A real browser in front of the product. Nothing leaves loopback, and nothing may go wrong unseen."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright
from pytest_django.fixtures import Settings

from simulators.openai.app import create_app
from simulators.running import RunningSimulator, running_on_thread
from tests.browser.cases import World
from tests.browser.server import Server, serving
from tests.browser.watched import Viewer, Watched, open_watched
from tests.harness.clock import Clock
from tests.harness.world import Tenant, make_tenant, use_simulator

_ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]
POLL_MS = 200
OpenPage = Callable[[Viewer], Watched]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test of this folder is a browser test."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.browser)


def chromium() -> str:
    """The browser's command: the one without a window around its pages takes half the processor time."""
    found = os.environ.get("CHROMIUM_PATH") or shutil.which("chromium-headless-shell") or shutil.which("chromium")
    assert found, "there is no Chromium: scripts/install_chromium"
    return found


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with pytest.MonkeyPatch.context() as environment, sync_playwright() as playwright:
        # Playwright's synchronous API runs an event loop in this thread, so Django takes every query of a test for one
        # from asynchronous code. None is: the loop stands still while a test runs.
        environment.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        browser = playwright.chromium.launch(executable_path=chromium(), args=_ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def simulator(db: None, tmp_path: Path) -> Iterator[RunningSimulator]:
    with running_on_thread(create_app(tmp_path / "simulator")) as running:
        use_simulator(running.base_url)
        yield running


@pytest.fixture
def tenant(db: None) -> Tenant:
    return make_tenant()


@pytest.fixture
def world(tenant: Tenant, simulator: RunningSimulator, clock: Clock) -> World:
    return World(tenant, simulator, clock)


@pytest.fixture(scope="session")
def titles(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder that all processes of the run share: each title's page, by the title's hash."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "titles"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture
def open_page(browser: Browser, server: Server, db: None, settings: Settings) -> Iterator[OpenPage]:
    """Open a window for a viewer; at the end it is closed, and whatever went wrong in it fails the test."""
    settings.PAGE_POLL_MILLISECONDS = POLL_MS
    opened: list[Watched] = []

    def open_one(viewer: Viewer) -> Watched:
        opened.append(open_watched(browser, server.url, viewer))
        return opened[-1]

    yield open_one
    for watched in opened:
        watched.close()
    server.wait_until_quiet()
    problems = [problem for watched in opened for problem in watched.problems]
    assert problems == []
