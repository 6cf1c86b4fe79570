"""The page of a batch's results."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from accounts.models import MemberRole
from routing.models import Batch
from simulators.running import RunningSimulator
from tests.harness.clock import Clock
from tests.harness.world import Tenant, make_tenant
from tests.routing.pages import scenes
from tests.routing.pages.conftest import html_of, poll_url_of, signed_in, words_of

REGION = {"HX-Request": "true", "HX-Target": "results"}


def url(batch: Batch) -> str:
    return f"/app/batches/{batch.public_id}/results"


def test_each_file_is_named_counted_and_hashed(
    customer: Client, tenant: Tenant, simulator: RunningSimulator, clock: Clock
) -> None:
    simulator.control.add_fault("row_error", contains="number 3", status_code=400, code="invalid_request")
    batch = scenes.finished(scenes.accepted(tenant), simulator, clock)
    page = customer.get(url(batch))
    assert "Lines 10 Order Every request once, in the order of the input" in words_of(page)
    assert "Lines 9 Order Requests that succeeded, in the order of the input" in words_of(page)
    assert "Lines 1 Order Requests that did not, with their code, in the order of the input" in words_of(page)
    for stored in (batch.results_file, batch.output_file, batch.error_file):
        assert stored is not None
        assert f'data-copy="{bytes(stored.sha256).hex()}"' in html_of(page)
        assert f"({stored.size_bytes:,} bytes)" in words_of(page)


def test_while_it_runs_the_page_waits_and_says_how_to_read_what_is_done(customer: Client, tenant: Tenant) -> None:
    batch = scenes.running(scenes.accepted(tenant), completed=4, failed=1)
    page = customer.get(url(batch))
    assert "Results come when the batch has ended" in words_of(page)
    assert f"curl -sS -D - http://testserver/v1/batches/{batch.public_id}/results" in words_of(page)
    poll_url = poll_url_of(page)
    assert customer.get(poll_url, headers=REGION).status_code == 204
    scenes.ended_without_run(batch, "failed")
    answer = customer.get(poll_url, headers=REGION)
    assert "There are no files" in words_of(answer)
    assert "data-poll" not in html_of(answer)


def test_the_region_alone_is_the_region_of_the_page(customer: Client, tenant: Tenant) -> None:
    batch = scenes.ended_without_run(scenes.accepted(tenant), "failed")
    region = html_of(customer.get(url(batch), headers=REGION)).strip()
    assert region.startswith("<section")
    assert region in html_of(customer.get(url(batch)))


def test_files_whose_time_is_over_are_gone(
    customer: Client, tenant: Tenant, simulator: RunningSimulator, clock: Clock
) -> None:
    batch = scenes.finished(scenes.accepted(tenant), simulator, clock)
    clock.advance(days=31)
    customer = signed_in(scenes.member(tenant.organisation, name="Later"))
    assert "These files are gone" in words_of(customer.get(url(batch)))
    assert customer.get(f"/app/batches/{batch.public_id}/files/results").status_code == 404


@pytest.mark.parametrize(("role", "status"), [("admin", 200), ("developer", 200), ("billing", 403), ("viewer", 403)])
def test_results_are_for_those_who_work_with_them(
    tenant: Tenant, as_role: Callable[[str], Client], role: str, status: int
) -> None:
    assert as_role(MemberRole(role)).get(url(scenes.accepted(tenant))).status_code == status


def test_another_organisations_results_are_not_found(tenant: Tenant) -> None:
    stranger = signed_in(scenes.member(make_tenant("other").organisation, name="Otto Other"))
    assert stranger.get(url(scenes.accepted(tenant))).status_code == 404
