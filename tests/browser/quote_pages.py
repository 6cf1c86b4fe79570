"""Pages of quotes and workflows."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from django.test import Client
from playwright.sync_api import Page, expect

from routing.domain.constraints import LaneConstraints
from routing.domain.scoring import WorkflowProfile
from routing.services.file_quotes import price_next_file
from routing.services.workflows import Author, create_workflow
from tests.browser.cases import PageCase, Role, World
from tests.routing.pages import scenes

_OTHERS: dict[Role, int] = {"nobody": 302, "viewer": 200, "operator": 404}
_WRITERS_ONLY: dict[Role, int] = {**_OTHERS, "viewer": 403}
_QUOTES, _WORKFLOWS = "/app/quotes/", "/app/workflows/"


def _quoted(world: World, *models: str) -> str:
    response = Client().post(
        "/v1/quotes/model",
        scenes.rows(*models, count=7),
        content_type="application/jsonl",
        headers=world.tenant.headers,
    )
    assert response.status_code == 201, response.content
    quote_id: str = response.json()["id"]
    return f"{_QUOTES}{quote_id}/"


def _some_quotes(world: World) -> str:
    world.accepted("gpt-4o-mini", "gpt-4o")
    _quoted(world)
    world.clock.advance(hours=1)
    _quoted(world, "gpt-4o", "claude-3-5-haiku")
    return _QUOTES


def _expired(world: World) -> str:
    path = _quoted(world)
    world.clock.advance(hours=1)
    return path


def _accepted(world: World) -> str:
    return f"{_QUOTES}{world.accepted().quote_id}/"


def _by_file(world: World, content: bytes) -> str:
    return f"{_QUOTES}{scenes.pending_quote(world.tenant, content)}/"


def _refused(world: World) -> str:
    path = _by_file(world, scenes.rows() * 2 + b"not json\n")
    price_next_file()
    return path


def _workflow(world: World, name: str = "nightly-eu") -> str:
    wanted = WorkflowProfile(
        name=name,
        penalty_micro_usd_per_minute=20,
        fan_out=False,
        constraints=LaneConstraints(
            regions=("eu", "global"),
            providers_denied=("bedrock",),
            max_input_rate_micro_usd_per_mtok=1_250_000,
            finish_by_minutes=240,
        ),
    )
    made = create_workflow(world.tenant.organisation, wanted, Author(api_key=world.tenant.api_key))
    return f"{_WORKFLOWS}{made.workflow.public_id}/"


def _some_workflows(world: World) -> str:
    _workflow(world)
    _workflow(world, "w" * 64)
    return _WORKFLOWS


def _send_wrong_rows(page: Page) -> None:
    page.get_by_label("Or paste its lines").fill('{"custom_id": "a"}\nnot json\n')
    page.get_by_role("button", name="Price it").click()
    expect(page.get_by_role("heading", name="What is wrong with the file")).to_be_visible()


def _send_a_wrong_workflow(page: Page) -> None:
    page.get_by_label("Name").fill("Not A Name")
    page.get_by_label("A minute of waiting").fill("-1")
    page.get_by_role("button", name="Create workflow").click()
    expect(page.get_by_text("This could not be saved")).to_be_visible()


def _case(name: str, page: str, make: Callable[[World], str], others: Mapping[Role, int] = _OTHERS) -> PageCase:
    return PageCase(name=name, url_name=f"routing:{page}", seen_by="admin", make=make, others=others)


OF_QUOTES = (
    _case("no quotes", "quote-list", lambda _world: _QUOTES),
    _case("quotes", "quote-list", _some_quotes),
    _case("no quotes that match", "quote-list", lambda _world: f"{_QUOTES}?state=failed&since=2026-01-01"),
    _case("price a file", "quote-new", lambda _world: f"{_QUOTES}new/", _WRITERS_ONLY),
    PageCase(
        name="price a file with wrong rows",
        url_name="routing:quote-new",
        seen_by="admin",
        make=lambda _world: f"{_QUOTES}new/",
        act=_send_wrong_rows,
    ),
    _case("quote", "quote-detail", lambda world: _quoted(world, "gpt-4o-mini", "gpt-4o"), {**_OTHERS, "stranger": 404}),
    _case("quote that expired", "quote-detail", _expired),
    _case("quote that was accepted", "quote-detail", _accepted),
    _case("quote whose file is read", "quote-detail", lambda world: _by_file(world, scenes.rows())),
    _case("quote whose file was refused", "quote-detail", _refused),
    PageCase(name="quote for a viewer", url_name="routing:quote-detail", seen_by="viewer", make=_quoted),
    _case("no workflows", "workflow-list", lambda _world: _WORKFLOWS),
    _case("workflows", "workflow-list", _some_workflows),
    _case("workflow", "workflow-detail", _workflow, {**_OTHERS, "stranger": 404}),
    _case("new workflow", "workflow-new", lambda _world: f"{_WORKFLOWS}new/", _WRITERS_ONLY),
    PageCase(
        name="new workflow with mistakes",
        url_name="routing:workflow-new",
        seen_by="admin",
        make=lambda _world: f"{_WORKFLOWS}new/",
        act=_send_a_wrong_workflow,
    ),
    _case("edit a workflow", "workflow-edit", lambda world: f"{_workflow(world)}edit/", _WRITERS_ONLY),
    _case("archive a workflow", "workflow-archive", lambda world: f"{_workflow(world)}archive/", _WRITERS_ONLY),
)
NOT_OF_QUOTES = {"routing:quote-accept": "takes a POST and leads to the batch"}
