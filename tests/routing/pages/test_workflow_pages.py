"""Pages of workflows: who may change one, and what a mistake says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from routing.models import Workflow, WorkflowVersion
from tests.harness.world import Tenant, make_tenant
from tests.routing.pages import scenes
from tests.routing.pages.conftest import signed_in, words_of

LIST, NEW = "/app/workflows/", "/app/workflows/new/"
FIELDS: dict[str, Any] = {
    "name": "nightly",
    "penalty_per_minute": "0.00002",
    "penalty_per_percent": "1.5",
    "webhook_mode": "each",
    "regions": ["global", "eu"],
    "max_input_rate": "1.25",
    "finish_by_minutes": "240",
}


def made(client: Client) -> str:
    """Make a workflow by the form, and give its page's address."""
    response = client.post(NEW, FIELDS)
    assert response.status_code == 302, words_of(response)
    return response["Location"]


def test_a_workflow_is_made_by_the_form_exactly(customer: Client) -> None:
    words = words_of(customer.get(made(customer)))
    version = WorkflowVersion.objects.get()
    assert (version.penalty_micro_usd_per_minute, version.penalty_micro_usd_per_percent) == (20, 1_500_000)
    assert (version.fan_out, version.webhook_mode, version.regions) == (False, "each", ["eu", "global"])
    assert (version.max_input_rate_micro_usd_per_mtok, version.finish_by_minutes) == (1_250_000, 240)
    assert "only in eu, global" in words
    assert "Casey Customer" in words


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("name", "Two Words", "A name has 1 to 64"),
        ("name", "default", "the house&#x27;s own profile"),
        ("penalty_per_minute", "-1", "greater than or equal to 0"),
        ("penalty_per_minute", "0.0000001", "no more than 6 decimal places"),
        ("penalty_per_percent", "NaN", "Enter a number"),
        ("finish_by_minutes", "1441", "less than or equal to 1440"),
        ("regions", ["mars"], "Select a valid choice"),
    ],
)
def test_a_mistake_is_said_at_its_field(customer: Client, field: str, value: object, said: str) -> None:
    response = customer.post(NEW, {**FIELDS, field: value})
    assert response.status_code == 422
    html = response.content.decode()
    assert said in html
    assert f'href="#id_{field}' in html
    assert not Workflow.objects.exists()


def test_an_edit_is_a_version_more_and_no_change_is_none(customer: Client) -> None:
    path = made(customer)
    same = {name: value for name, value in FIELDS.items() if name != "name"}
    customer.post(f"{path}edit/", same)
    assert WorkflowVersion.objects.count() == 1
    customer.post(f"{path}edit/", {**same, "finish_by_minutes": "60"})
    assert Workflow.objects.get().version_number == 2
    assert [each.finish_by_minutes for each in WorkflowVersion.objects.order_by("number")] == [240, 60]


def test_the_form_shows_what_holds_now(customer: Client) -> None:
    html = customer.get(f"{made(customer)}edit/").content.decode()
    for value in ("0.00002", "1.5", "1.25", "240"):
        assert f'value="{value}"' in html


def test_an_archived_one_is_shown_and_no_longer_edited(customer: Client) -> None:
    path = made(customer)
    assert customer.post(f"{path}archive/")["Location"] == LIST
    assert "Archived" in words_of(customer.get(LIST))
    assert customer.get(path).status_code == 200
    assert customer.get(f"{path}edit/").status_code == 404


@pytest.mark.parametrize(("role", "status"), [("developer", 200), ("billing", 403), ("viewer", 403)])
def test_who_may_change_workflows(customer: Client, as_role: Callable[[str], Client], role: str, status: int) -> None:
    path = made(customer)
    client = as_role(role)
    assert client.get(LIST).status_code == 200
    assert client.get(path).status_code == 200
    for page in (NEW, f"{path}edit/", f"{path}archive/"):
        assert client.get(page).status_code == status
    if status == 403:
        assert client.post(f"{path}archive/").status_code == 403


def test_a_strangers_workflow_is_not_found(customer: Client, tenant: Tenant) -> None:
    path = made(customer)
    stranger = signed_in(scenes.member(make_tenant("other").organisation, name="Sam Stranger"))
    for page in (path, f"{path}edit/", f"{path}archive/", f"{LIST}nightly/"):
        assert stranger.get(page).status_code == 404
