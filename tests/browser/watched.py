"""A window that keeps note of every request, console message, policy violation and error."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from django.conf import settings
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, Page, Request, Response

from accounts.models import User

_AXE = (Path(__file__).parent / "axe.min.js").read_text()
_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_WATCH_POLICY = """
window.policyViolations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.policyViolations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
});
"""
# What axe cannot judge by itself, looked at by a person.
_REVIEWED = {
    "color-contrast": "cells that scroll under a sticky column; tests/console checks every pair of tokens",
}
# Put into words in the page: a table of a thousand cells has a megabyte of results.
_JUDGE = """
async ({tags, reviewed}) => {
  const found = await axe.run(document, {runOnly: tags, resultTypes: ["violations", "incomplete"]});
  const unsure = found.incomplete.filter((item) => !reviewed.includes(item.id));
  return [...found.violations, ...unsure].flatMap((item) => item.nodes.map((node) =>
    `${item.id}: ${node.target} ${node.html.slice(0, 160)} ${(node.failureSummary || "").slice(0, 200)}`));
}
"""
_WAIT_MS = 10_000
_HEIGHT = 900
# Day, month, year, and the button of the calendar.
_PARTS_OF_A_DATE = 4


Theme = Literal["light", "dark"]
_FOCUSED = """
() => {
  const element = document.activeElement;
  if (element === document.body) return null;
  const seen = element.walked === true;
  const again = window.lastWalked === element; // a date has a stop for each of its parts
  element.walked = true;
  window.lastWalked = element;
  const style = getComputedStyle(element);
  const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
  return {seen, again, outlined, html: element.outerHTML.slice(0, 120)};
}
"""
_REACHABLE = """
() => {
  const root = document.querySelector("dialog[open]") || document;
  const names = "a[href], button, input, select, textarea, summary, [tabindex]";
  const stops = [...root.querySelectorAll(names)].filter((element) =>
    element.tabIndex >= 0 && !element.disabled && element.type !== "hidden"
    && element.checkVisibility({visibilityProperty: true}));
  const radios = stops.filter((element) => element.type === "radio"); // a group is one stop
  return stops.length - radios.length + new Set(radios.map((element) => element.name)).size;
}
"""
# Where the focus stands before the first Tab.
_START = """
() => {
  document.body.tabIndex = -1;
  document.body.focus();
  document.body.removeAttribute("tabindex");
}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """Who looks, and through what kind of window."""

    user: User | None = None
    width: int = 1360
    theme: Theme = "light"
    zone: str = "Europe/Berlin"
    script: bool = True


class Watched:
    """One page in a window of its own."""

    def __init__(self, context: BrowserContext, page: Page, base_url: str, *, has_script: bool) -> None:
        self.page = page
        self._has_script = has_script
        self.base_url = base_url
        self.requests: list[str] = []
        self.problems: list[str] = []
        self.expected_statuses: set[int] = set()
        self._context = context
        page.on("console", lambda message: self._console(message.type, message.text))
        page.on("pageerror", lambda error: self.problems.append(f"page error: {error}"))
        page.on("request", self._request)
        page.on("requestfailed", self._request_failed)
        page.on("response", self._response)

    def go(self, path: str) -> Response:
        """Open a path; its status may be one of an error page."""
        response = self.page.goto(self.base_url + path)
        assert response is not None
        return response

    def count_of(self, path: str) -> int:
        """How many requests for this path there were so far."""
        return sum(urlsplit(url).path == path for url in self.requests)

    def violations(self) -> list[str]:
        """What axe finds wrong, one line a node."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(_AXE)
        found: list[str] = self.page.evaluate(_JUDGE, {"tags": _TAGS, "reviewed": list(_REVIEWED)})
        return found

    def turn_into(self, theme: Theme, width: int) -> None:
        """Be a window of another theme and width; the page stays what it is."""
        self.page.emulate_media(color_scheme=theme)
        self.page.set_viewport_size({"width": width, "height": _HEIGHT})

    def scrolls_sideways(self) -> bool:
        """Say whether the page is wider than its window."""
        root = self.page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        return bool(root[0] > root[1])

    def walk(self, most: int) -> tuple[int, list[str]]:
        """Press Tab through the page; give how many elements took the focus, and those that did not show it."""
        self.focus_the_start()
        reached = 0
        repeats = 0
        unseen: list[str] = []
        while reached < most and repeats < _PARTS_OF_A_DATE:
            self.page.keyboard.press("Tab")
            focused = self.page.evaluate(_FOCUSED)
            if focused is None:
                # Out of the document and, from a dialog, round to its start.
                self.page.keyboard.press("Tab")
                focused = self.page.evaluate(_FOCUSED)
            if focused is not None and focused["again"]:
                repeats += 1
                continue
            if focused is None or focused["seen"]:
                break
            repeats = 0
            reached += 1
            if not focused["outlined"]:
                unseen.append(focused["html"])
        return reached, unseen

    def focus_the_start(self) -> None:
        """Stand before the first thing that takes the focus."""
        self.page.evaluate(_START)

    def reachable_count(self) -> int:
        """Count what should take the focus."""
        return int(self.page.evaluate(_REACHABLE))

    def close(self) -> None:
        """Close the window."""
        if self._has_script and not self.page.is_closed():
            self.problems += [f"policy: {text}" for text in self.page.evaluate("window.policyViolations || []")]
        self._context.close()

    def _console(self, kind: str, text: str) -> None:
        # The browser and htmx report every error answer; those a test expects are checked by their status.
        if self.expected_statuses and ("Failed to load resource" in text or "Response Status Error Code" in text):
            return
        if kind in {"error", "warning"}:
            self.problems.append(f"console {kind}: {text}")

    def _request(self, request: Request) -> None:
        self.requests.append(request.url)
        if urlsplit(request.url).hostname != "127.0.0.1" and not request.url.startswith("data:"):
            self.problems.append(f"request beyond loopback: {request.url}")

    def _request_failed(self, request: Request) -> None:
        # A poll or a download that the page's end cuts off is no fault.
        if request.failure != "net::ERR_ABORTED":
            self.problems.append(f"failed request: {request.url} {request.failure}")

    def _response(self, response: Response) -> None:
        if response.status >= 400 and response.status not in self.expected_statuses:
            self.problems.append(f"status {response.status}: {response.url}")


def open_watched(browser: Browser, base_url: str, viewer: Viewer) -> Watched:
    """Open a window; a viewer with a user is signed in already."""
    context = browser.new_context(
        viewport={"width": viewer.width, "height": _HEIGHT},
        color_scheme=viewer.theme,
        timezone_id=viewer.zone,
        reduced_motion="reduce",
        java_script_enabled=viewer.script,
    )
    context.set_default_timeout(_WAIT_MS)
    context.add_init_script(_WATCH_POLICY)
    if viewer.user is not None:
        client = Client()
        client.force_login(viewer.user)
        session = client.cookies[settings.SESSION_COOKIE_NAME].value
        context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": base_url}])
    return Watched(context, context.new_page(), base_url, has_script=viewer.script)
