"""The one <html> and the pages that stand without anything else."""

import json
import re

import pytest
from django.http import HttpRequest
from django.template import Context, Engine
from django.test import RequestFactory

LINK = {"key": "batches", "label": "Batches", "url": "/batches", "icon": "stack-2", "chord": "b"}
NAV = [{"label": "", "links": [LINK]}]


def page(template: str = "404.html", theme: str = "", **context: object) -> str:
    request: HttpRequest = RequestFactory().get("/")
    if theme:
        request.COOKIES["theme"] = theme
    return Engine.get_default().get_template(template).render(Context({"request": request, **context}))


def test_the_500_page_needs_no_context_at_all() -> None:
    html = Engine.get_default().get_template("500.html").render(Context())
    assert "Something failed on our side" in html
    assert html.count("<h1") == 1


@pytest.mark.parametrize("template", ["400.html", "403.html", "403_csrf.html", "404.html", "429.html", "503.html"])
def test_an_error_page_has_one_heading_and_a_way_back(template: str) -> None:
    html = page(template, request_id="req_1")
    assert html.count("<h1") == 1
    assert 'data-copy="req_1"' in html
    assert 'href="/"' in html


def test_the_forbidden_page_names_the_role_that_is_needed() -> None:
    assert "This page is for the role finance." in page("403.html", reason="This page is for the role finance.")


@pytest.mark.parametrize(
    ("cookie", "attribute"), [("dark", ' data-theme="dark"'), ("light", ' data-theme="light"'), ("auto", "")]
)
def test_the_theme_is_in_the_first_bytes(cookie: str, attribute: str) -> None:
    assert f'<html lang="en"{attribute}>' in page(theme=cookie)


def test_a_theme_that_we_do_not_have_is_not_written_into_the_page() -> None:
    assert '<html lang="en">' in page(theme='"><script>')


def test_the_skip_link_comes_before_everything_else() -> None:
    body = page(nav_sections=NAV).partition("<body")[2]
    assert re.search(r"<(a|button|input)\b[^>]*>", body).group() == '<a class="skip" href="#main">'  # type: ignore[union-attr]


def test_the_htmx_settings_are_valid_and_strict() -> None:
    found = re.search(r"name=\"htmx-config\"\s+content='([^']+)'", page())
    assert found
    config = json.loads(found.group(1))
    assert config["allowEval"] is False
    assert {"code": "422", "swap": True} in config["responseHandling"]


def test_the_current_link_is_marked_and_has_its_chord() -> None:
    html = page(nav_sections=NAV, active_nav="batches")
    assert '<a href="/batches" aria-current="page" data-chord="b">' in html


def test_without_links_there_is_no_navigation() -> None:
    assert "<nav" not in page()


def test_the_jump_box_stands_only_where_it_leads_somewhere() -> None:
    assert 'id="jump"' not in page(nav_sections=NAV)
    assert 'action="/go"' in page(nav_sections=NAV, jump_url="/go")


def test_the_sign_in_page_keeps_the_address_typed_and_never_the_password() -> None:
    form = {"username": {"value": "a@example.com"}, "password": {"value": "secret"}}
    html = page("accounts/login.html", form=form, next="/app/")
    assert 'value="a@example.com"' in html
    assert "secret" not in html
    assert '<input type="hidden" name="next" value="/app/">' in html
