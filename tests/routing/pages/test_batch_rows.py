"""The rows of a batch: found by outcome, code, lane and id, page by page, and one whole."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal

import pytest
from django.test import Client

from accounts.models import MemberRole
from ground.blobs import delete_blob
from routing import batch_rows
from routing.models import Batch
from routing.payloads import payload_name
from simulators.running import RunningSimulator
from tests.harness.clock import Clock
from tests.harness.world import Tenant, make_tenant
from tests.routing.pages import scenes
from tests.routing.pages.conftest import html_of, signed_in, words_of

REGION = {"HX-Request": "true", "HX-Target": "list"}


def url(batch: Batch, query: str = "") -> str:
    return f"/app/batches/{batch.public_id}/requests{query}"


def ids_at(customer: Client, batch: Batch, query: str = "") -> list[str]:
    page = html_of(customer.get(url(batch, query), headers=REGION))
    return re.findall(r'<th scope="row"><a [^>]*title="([^"]*)"', page)


@pytest.fixture
def batch(tenant: Tenant, simulator: RunningSimulator, clock: Clock) -> Batch:
    """Ten rows of each of two models, of which number 3 of each failed."""
    simulator.control.add_fault("row_error", contains="number 3", status_code=400, code="invalid_request")
    return scenes.finished(scenes.accepted(tenant, "gpt-4o-mini", "gpt-4o"), simulator, clock)


def test_rows_are_found_by_outcome_code_lane_and_id(customer: Client, batch: Batch) -> None:
    every = [f"{model}-{number}" for model in ("gpt-4o-mini", "gpt-4o") for number in range(10)]
    failed = ["gpt-4o-mini-3", "gpt-4o-3"]
    (lane_id,) = set(batch.sub_lanes.values_list("lane_id", flat=True))
    wanted = {
        "": every,
        "?outcome=failed": failed,
        "?outcome=succeeded": [each for each in every if each not in failed],
        "?outcome=open": [],
        "?code=provider_error": failed,
        f"?lane={lane_id}&outcome=failed": failed,
        "?custom_id=MINI-": every[:10],
        "?custom_id=-3&outcome=failed&after=3": ["gpt-4o-3"],
        "?after=18": ["gpt-4o-9"],
        "?custom_id=nobody": [],
        # What no batch has is said to be wrong, and lists nothing.
        "?lane=elsewhere": [],
        "?after=-1": [],
    }
    assert {query: ids_at(customer, batch, query) for query in wanted} == wanted
    assert "All 20 Succeeded 18 Failed 2" in words_of(customer.get(url(batch)))


def test_pages_go_by_row_and_a_long_search_says_how_far_it_came(
    customer: Client, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = scenes.running(scenes.accepted(tenant, count=120), completed=110, failed=0)
    assert len(ids_at(customer, batch)) == 50
    assert ids_at(customer, batch, "?after=99")[0] == "gpt-4o-mini-100"
    assert ids_at(customer, batch, "?outcome=open") == [f"gpt-4o-mini-{number}" for number in range(110, 120)]
    monkeypatch.setattr(batch_rows, "_SEARCHED_ROWS", 40)
    monkeypatch.setattr(batch_rows, "_SEARCHED_BYTES", 1)
    page = customer.get(url(batch, "?custom_id=-119"))
    assert "Nothing found so far" in words_of(page)
    assert "custom_id=-119&amp;after=39" in html_of(page)
    assert ids_at(customer, batch, "?custom_id=-119&after=79") == ["gpt-4o-mini-119"]


def test_one_row_shows_what_was_asked_beside_what_came_back(customer: Client, batch: Batch) -> None:
    good, bad = (words_of(customer.get(f"{url(batch)}/{row}")) for row in (4, 3))
    assert "Name river number 4." in good
    tokens = re.search(r"Tokens (\d+) in; (\d+) out Charge", good)
    charge = re.search(r'<data class="money" value="([0-9.]+)"', html_of(customer.get(f"{url(batch)}/4")))
    assert tokens
    assert charge
    # $0.075 and $0.30 for a million, in micro-USD.
    assert Decimal(charge[1]) == (75 * int(tokens[1]) + 300 * int(tokens[2])) / Decimal(1_000)
    assert "assistant" in good
    assert "Name river number 3." in bad
    assert "provider_error" in bad
    assert "Only requests that succeed are charged." in bad
    assert "batch_" not in re.sub(rf"{batch.public_id}", "", bad)
    assert customer.get(f"{url(batch)}/20").status_code == 404


def test_without_its_file_a_batch_still_lists_its_rows(customer: Client, batch: Batch) -> None:
    delete_blob(payload_name(batch.quote_id))
    assert "Row 3 3 Failed provider_error" in words_of(customer.get(url(batch)))
    assert "It is gone" in words_of(customer.get(f"{url(batch)}/3"))
    assert customer.get(url(batch, "?custom_id=x")).status_code == 200


def test_a_batch_that_never_went_has_no_rows(customer: Client, tenant: Tenant) -> None:
    assert "There are no requests" in words_of(customer.get(url(scenes.validating(tenant, scenes.rows()))))


def test_rows_are_for_those_who_work_with_them(tenant: Tenant, as_role: Callable[[str], Client]) -> None:
    batch = scenes.accepted(tenant)
    statuses = {role: as_role(MemberRole(role)).get(url(batch)).status_code for role in ("developer", "billing")}
    assert statuses == {"developer": 200, "billing": 403}
    stranger = signed_in(scenes.member(make_tenant("other").organisation, name="Otto Other"))
    assert stranger.get(url(batch)).status_code == 404
    assert stranger.get(f"{url(batch)}/0").status_code == 404
