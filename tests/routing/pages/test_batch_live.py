"""The part of a batch's page that asks again, and stops."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta

import pytest
from django.http import HttpResponseBase
from django.test import Client

from routing.models import Batch
from routing.views.polling import likely_end, poll_of
from simulators.running import RunningSimulator
from tests.harness.clock import Clock
from tests.harness.world import Tenant
from tests.routing.pages import scenes
from tests.routing.pages.conftest import REGION, poll_url_of, signed_in, text_of


def url(batch: Batch) -> str:
    return f"/app/batches/{batch.public_id}/"


def region(response: HttpResponseBase) -> str:
    text = text_of(response)
    start = text.index('<section id="batch"')
    found = re.search(r"<section id=\"batch\".*?</ol></div></section></div></div></section>", text[start:])
    assert found
    return found.group()


@pytest.mark.parametrize("status", ["in_progress", "failed"])
def test_page_and_fragment_show_the_same_region(customer: Client, tenant: Tenant, clock: Clock, status: str) -> None:
    batch = scenes.accepted(tenant)
    clock.freeze(batch.created_at)
    if status == "failed":
        scenes.ended_without_run(batch, status)
    page, fragment = customer.get(url(batch)), customer.get(url(batch), headers=REGION)
    assert "<html" in page.content.decode()
    assert "<html" not in fragment.content.decode()
    assert region(page) == region(fragment)


def test_going_back_in_history_gets_the_whole_page(customer: Client, tenant: Tenant) -> None:
    response = customer.get(url(scenes.accepted(tenant)), headers={**REGION, "HX-History-Restore-Request": "true"})
    assert "<html" in response.content.decode()


def test_a_poll_is_answered_with_nothing_while_nothing_moves(customer: Client, tenant: Tenant) -> None:
    page = customer.get(url(scenes.accepted(tenant)))
    response = customer.get(poll_url_of(page), headers=REGION)
    assert response.status_code == 204
    assert response.content == b""


def test_the_same_address_by_hand_is_a_whole_page(customer: Client, tenant: Tenant) -> None:
    page = customer.get(url(scenes.accepted(tenant)))
    assert "<html" in customer.get(poll_url_of(page)).content.decode()


@pytest.mark.parametrize(
    "moved", [{"completed_count": 1}, {"reported_count": 3}, {"state": "running"}, {"reason": "enqueued_tokens_limit"}]
)
def test_a_poll_is_answered_when_a_sub_lane_moved(customer: Client, tenant: Tenant, moved: dict[str, object]) -> None:
    batch = scenes.accepted(tenant)
    poll_url = poll_url_of(customer.get(url(batch)))
    batch.sub_lanes.update(**moved)
    response = customer.get(poll_url, headers=REGION)
    assert response.status_code == 200
    assert poll_url_of(response) != poll_url


def test_the_answer_after_the_end_no_longer_asks_and_says_so(
    customer: Client, tenant: Tenant, simulator: RunningSimulator, clock: Clock
) -> None:
    batch = scenes.accepted(tenant)
    poll_url = poll_url_of(customer.get(url(batch)))
    scenes.finished(batch, simulator, clock)
    response = customer.get(poll_url, headers=REGION)
    content = response.content.decode()
    for attribute in ("hx-trigger", "data-poll", "data-updated"):
        assert attribute not in content
    events = json.loads(response["HX-Trigger"])
    assert events["batch-finished"] == {"id": batch.public_id, "status": "completed"}
    assert events["toast"]["text"] == "Completed: nightly-classify-1129."
    assert "<title>Completed: nightly-classify-1129 · Lanehouse</title>" in content


def test_an_answer_on_the_way_says_nothing(customer: Client, tenant: Tenant) -> None:
    batch = scenes.accepted(tenant)
    assert "HX-Trigger" not in customer.get(url(batch), headers=REGION)


def test_the_page_of_an_ended_batch_never_asks(customer: Client, tenant: Tenant) -> None:
    page = customer.get(url(scenes.ended_without_run(scenes.accepted(tenant), "failed")))
    assert "HX-Trigger" not in page
    assert "hx-get" not in page.content.decode()


def test_a_poll_without_session_leads_the_whole_page_to_sign_in(tenant: Tenant) -> None:
    batch = scenes.accepted(tenant)
    headers = {**REGION, "HX-Current-URL": f"https://lanehouse.example{url(batch)}"}
    response = Client().get(f"{url(batch)}?v=1", headers=headers)
    assert response["HX-Redirect"] == f"/login?next={url(batch)}"
    assert response.content == b""


def test_pages_vary_on_htmx_and_are_not_kept(customer: Client, tenant: Tenant) -> None:
    response = customer.get(url(scenes.accepted(tenant)))
    assert "HX-Request" in response["Vary"]
    assert response["Cache-Control"] == "private, no-store"


@pytest.mark.parametrize(
    ("age_minutes", "completed", "state", "every_ms"),
    [
        (1, 0, "queued", 2_000),
        (5, 0, "queued", 15_000),
        (5, 0, "waiting", 15_000),
        (5, 0, "running", 5_000),
        (5, 50, "running", 5_000),
        (60, 10, "running", 15_000),
        (60, 90, "running", 2_000),
        (60, 100, "completed", 2_000),
    ],
)
def test_the_wait_depends_on_age_and_end(age_minutes: int, completed: int, state: str, every_ms: int) -> None:
    batch, sub_lane = scenes.unsaved(row_count=100, completed=completed, state=state)
    at = batch.created_at + timedelta(minutes=age_minutes)
    assert poll_of(batch, [sub_lane], at).every_ms == every_ms


def test_a_new_wait_is_told_though_nothing_else_moved() -> None:
    batch, sub_lane = scenes.unsaved(row_count=100, completed=50, state="running")
    young = poll_of(batch, [sub_lane], batch.created_at + timedelta(minutes=1))
    assert young.version != poll_of(batch, [sub_lane], batch.created_at + timedelta(minutes=3)).version


def test_the_likely_end_goes_on_at_the_pace_so_far() -> None:
    batch, sub_lane = scenes.unsaved(row_count=100, completed=20, state="running")
    at = batch.created_at + timedelta(minutes=10)
    assert likely_end(batch, [sub_lane], at) == batch.created_at + timedelta(minutes=50)
    assert likely_end(batch, [sub_lane], batch.created_at + timedelta(hours=20)) == batch.expires_at


def test_there_is_no_likely_end_before_the_first_row_and_after_the_last() -> None:
    for completed in (0, 100):
        batch, sub_lane = scenes.unsaved(row_count=100, completed=completed, state="running")
        assert likely_end(batch, [sub_lane], batch.created_at + timedelta(minutes=10)) is None


def test_an_unchanged_poll_reads_five_times(
    customer: Client, tenant: Tenant, django_assert_num_queries: Callable[[int], AbstractContextManager[object]]
) -> None:
    poll_url = poll_url_of(customer.get(url(scenes.accepted(tenant))))
    # Session, user, membership, batch, sub-lanes.
    with django_assert_num_queries(5):
        customer.get(poll_url, headers=REGION)


@pytest.mark.parametrize("models", [("gpt-4o-mini",), ("gpt-4o-mini", "gpt-4o")])
def test_the_page_reads_as_often_whatever_the_split(
    customer: Client,
    tenant: Tenant,
    models: tuple[str, ...],
    django_assert_num_queries: Callable[[int], AbstractContextManager[object]],
) -> None:
    batch = scenes.accepted(tenant, *models)
    with django_assert_num_queries(7):
        customer.get(url(batch))


def test_a_members_poll_of_a_foreign_batch_is_not_found(tenant: Tenant) -> None:
    stranger = signed_in(scenes.staff())
    assert stranger.get(url(scenes.accepted(tenant)), headers=REGION).status_code == 404
