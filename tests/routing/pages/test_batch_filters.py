"""The filters, tabs and live rows of the list of batches."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from django.test import Client

from routing.models import Batch
from simulators.running import RunningSimulator
from tests.harness.clock import Clock
from tests.harness.world import Tenant
from tests.routing.pages import scenes
from tests.routing.pages.conftest import html_of, poll_url_of, words_of

PAGE = "/app/batches/"
LIST = {"HX-Request": "true", "HX-Target": "list"}


def shown_names(client: Client, query: str) -> list[str]:
    return re.findall(r'href="/app/batches/batch_\w+/"\s+title="([^"]+)"', html_of(client.get(PAGE + query)))


def dated(batch: Batch, at: datetime) -> None:
    Batch.objects.filter(pk=batch.pk).update(created_at=at)


def test_each_state_has_its_tab(customer: Client, tenant: Tenant, simulator: RunningSimulator, clock: Clock) -> None:
    simulator.control.add_fault("row_error", contains="number 7", status_code=400, code="invalid_request")
    scenes.finished(scenes.accepted(tenant, name="whole", count=5), simulator, clock)
    scenes.finished(scenes.accepted(tenant, name="partly"), simulator, clock)
    for status in ("failed", "expired", "cancelled"):
        scenes.ended_without_run(scenes.accepted(tenant, name=status), status)
    scenes.accepted(tenant, name="open")
    shown = {
        state: shown_names(customer, f"?state={state}")
        for state in ("running", "completed", "partly_failed", "failed", "expired", "cancelled")
    }
    assert shown == {
        "running": ["open"],
        "completed": ["whole"],
        "partly_failed": ["partly"],
        "failed": ["failed"],
        "expired": ["expired"],
        "cancelled": ["cancelled"],
    }
    assert len(shown_names(customer, "")) == 6


def test_a_tab_keeps_the_other_filters_and_the_form_keeps_the_tab(customer: Client, tenant: Tenant) -> None:
    scenes.accepted(tenant)
    page = html_of(customer.get(f"{PAGE}?state=running&text=night"))
    assert 'href="/app/batches/?text=night&amp;state=completed"' in page
    assert '<input type="hidden" name="state" value="running" id="id_state">' in page
    assert re.search(r'aria-current="page">\s*Running', page)


def test_text_finds_names_and_ids_and_a_model_its_batches(customer: Client, tenant: Tenant) -> None:
    first = scenes.accepted(tenant, "gpt-4o-mini", name="Alpha run")
    scenes.accepted(tenant, "gpt-4o", name="beta")
    assert shown_names(customer, "?text=alpha") == ["Alpha run"]
    assert shown_names(customer, f"?text={first.public_id[-10:].lower()}") == ["Alpha run"]
    assert shown_names(customer, "?model=4O-MINI") == ["Alpha run"]
    assert shown_names(customer, "?model=4o") == ["beta", "Alpha run"]


def test_days_are_the_viewers(customer: Client, tenant: Tenant) -> None:
    dated(scenes.accepted(tenant, name="late"), datetime(2026, 11, 3, 20, tzinfo=UTC))
    assert shown_names(customer, "?since=2026-11-03&until=2026-11-03") == ["late"]
    customer.cookies["zone"] = "Asia%2FKolkata"
    assert shown_names(customer, "?since=2026-11-03&until=2026-11-03") == []
    assert shown_names(customer, "?since=2026-11-04") == ["late"]


@pytest.mark.parametrize("query", ["?state=lost", "?since=x", "?text=" + "x" * 81])
def test_a_filter_that_cannot_be_read_lists_nothing(customer: Client, tenant: Tenant, query: str) -> None:
    scenes.accepted(tenant)
    assert "These filters cannot be read" in words_of(customer.get(PAGE + query))


def test_no_match_is_not_first_use(customer: Client) -> None:
    page = words_of(customer.get(f"{PAGE}?text=nothing"))
    assert "No batches match these filters" in page
    assert "curl" not in page


def test_the_region_alone_is_the_region_of_the_page(customer: Client, tenant: Tenant) -> None:
    scenes.ended_without_run(scenes.accepted(tenant), "cancelled")
    region = html_of(customer.get(f"{PAGE}?text=night", headers=LIST))
    assert region.strip() in html_of(customer.get(f"{PAGE}?text=night"))
    assert region.strip().startswith("<section")


def test_the_first_page_asks_again_while_a_batch_runs(customer: Client, tenant: Tenant) -> None:
    batch = scenes.accepted(tenant)
    poll_url = poll_url_of_list(customer.get(f"{PAGE}?text=night"))
    assert customer.get(poll_url, headers=LIST).status_code == 204
    scenes.running(batch, completed=3, failed=1)
    answer = customer.get(poll_url, headers=LIST)
    assert 'aria-valuetext="3 of 10 requests done, 1 failed"' in html_of(answer)
    assert "text=night" in poll_url_of(answer)


def test_ended_batches_and_older_pages_do_not_ask_again(customer: Client, tenant: Tenant) -> None:
    batch = scenes.accepted(tenant)
    scenes.accepted(tenant)
    assert "data-poll" in html_of(customer.get(PAGE))
    newest = Batch.objects.latest("pk")
    assert "data-poll" not in html_of(customer.get(f"{PAGE}?after={newest.public_id}"))
    for each in (batch, newest):
        scenes.ended_without_run(each, "failed")
    assert "data-poll" not in html_of(customer.get(PAGE))


def poll_url_of_list(response: object) -> str:
    found = re.search(r'data-poll hx-get="([^"]+)"', html_of(response))  # type: ignore[arg-type]
    assert found
    return found.group(1).replace("&amp;", "&")
