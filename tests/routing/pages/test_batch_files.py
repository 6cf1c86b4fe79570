"""Downloads."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest
from django.test import Client

from accounts.models import MemberRole
from simulators.running import RunningSimulator
from tests.harness.clock import Clock
from tests.harness.world import Tenant
from tests.routing.pages import scenes
from tests.routing.pages.conftest import words_of


def test_each_file_is_what_the_page_says_it_is(
    customer: Client, tenant: Tenant, simulator: RunningSimulator, clock: Clock
) -> None:
    simulator.control.add_fault("row_error", contains="number 3", status_code=400, code="invalid_request")
    batch = scenes.finished(scenes.accepted(tenant), simulator, clock)
    page = customer.get(f"/app/batches/{batch.public_id}/").content.decode()
    for kind, line_count in (("results", 10), ("output", 9), ("errors", 1)):
        response = customer.get(f"/app/batches/{batch.public_id}/files/{kind}")
        content = response.getvalue()
        assert content.count(b"\n") == line_count
        assert f'data-copy="{hashlib.sha256(content).hexdigest()}"' in page
        assert response["Content-Disposition"].startswith("attachment")


def test_a_file_that_would_be_empty_is_not_offered(
    customer: Client, tenant: Tenant, simulator: RunningSimulator, clock: Clock
) -> None:
    batch = scenes.finished(scenes.accepted(tenant), simulator, clock)
    page = customer.get(f"/app/batches/{batch.public_id}/")
    assert "No request failed" in words_of(page)
    assert f"/app/batches/{batch.public_id}/files/errors" not in page.content.decode()
    for kind in ("errors", "nonsense"):
        assert customer.get(f"/app/batches/{batch.public_id}/files/{kind}").status_code == 404


def test_there_is_nothing_to_download_before_the_end(customer: Client, tenant: Tenant) -> None:
    batch = scenes.accepted(tenant)
    assert customer.get(f"/app/batches/{batch.public_id}/files/results").status_code == 404


@pytest.mark.parametrize(
    ("role", "status"),
    [
        (MemberRole.ADMIN, 200),
        (MemberRole.DEVELOPER, 200),
        (MemberRole.BILLING, 403),
        (MemberRole.VIEWER, 403),
    ],
)
def test_results_are_for_those_who_work_with_them(
    tenant: Tenant,
    simulator: RunningSimulator,
    clock: Clock,
    as_role: Callable[[str], Client],
    role: str,
    status: int,
) -> None:
    batch = scenes.finished(scenes.accepted(tenant), simulator, clock)
    client = as_role(role)
    response = client.get(f"/app/batches/{batch.public_id}/files/results")
    assert response.status_code == status
    response.close()
    offered = "Download results" in words_of(client.get(f"/app/batches/{batch.public_id}/"))
    assert offered == (status == 200)


def test_who_may_not_download_learns_which_role_may(tenant: Tenant, as_role: Callable[[str], Client]) -> None:
    response = as_role(MemberRole.VIEWER).get(f"/app/batches/{scenes.accepted(tenant).public_id}/files/results")
    assert "Downloads are for the role admin or developer." in words_of(response)
