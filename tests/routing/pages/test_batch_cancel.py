"""Cancelling a batch from its page."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from accounts.models import MemberRole
from routing.models import Batch
from tests.harness.world import Tenant, make_tenant
from tests.routing.pages import scenes
from tests.routing.pages.conftest import html_of, signed_in, words_of

DIALOG = {"HX-Request": "true", "HX-Target": "dialog"}


def url(batch: Batch, tail: str = "cancel/") -> str:
    return f"/app/batches/{batch.public_id}/{tail}"


def test_the_dialog_says_what_is_charged_anyway(customer: Client, tenant: Tenant) -> None:
    batch = scenes.running(scenes.accepted(tenant, "gpt-4o-mini", "gpt-4o", count=60), completed=31, failed=2)
    dialog = words_of(customer.get(url(batch), headers=DIALOG))
    # 31 requests at 1,234,567 pico-USD are 38.27 micro-USD.
    assert "33 of 120 requests: delivered, and charged $0.00 0038" in dialog
    assert "87 requests: not sent, or cancelled where they run." in dialog
    assert "up to $0.04 0000 , for lanes that delivered a request" in dialog
    assert "<html" not in html_of(customer.get(url(batch), headers=DIALOG))


def test_a_cancel_is_done_and_the_page_says_so(customer: Client, tenant: Tenant) -> None:
    batch = scenes.accepted(tenant)
    answer = customer.post(url(batch), headers=DIALOG)
    assert answer["HX-Refresh"] == "true"
    page = words_of(customer.get(url(batch, "")))
    assert "The batch is being cancelled. What finished by now is still collected." in page
    assert "Cancelling" in page
    assert url(batch) not in html_of(customer.get(url(batch, "")))


def test_without_script_it_leads_back_to_the_batch(customer: Client, tenant: Tenant) -> None:
    batch = scenes.accepted(tenant)
    assert "<h1>Cancel the batch</h1>" in html_of(customer.get(url(batch)))
    assert customer.post(url(batch))["Location"] == url(batch, "")
    batch.refresh_from_db()
    assert batch.status == "cancelling"


def test_a_batch_that_has_ended_is_left_alone(customer: Client, tenant: Tenant) -> None:
    batch = scenes.ended_without_run(scenes.accepted(tenant), "failed")
    assert "There is nothing to cancel" in words_of(customer.get(url(batch)))
    customer.post(url(batch))
    assert "The batch has ended already: it is failed." in words_of(customer.get(url(batch, "")))


def test_a_batch_whose_requests_are_done_is_left_to_finish(customer: Client, tenant: Tenant) -> None:
    batch = scenes.running(scenes.accepted(tenant), completed=10, failed=0)
    customer.post(url(batch))
    assert "Every request is done already" in words_of(customer.get(url(batch, "")))
    batch.refresh_from_db()
    assert batch.status == "in_progress"


@pytest.mark.parametrize(("role", "status"), [("admin", 302), ("developer", 302), ("billing", 403), ("viewer", 403)])
def test_who_may_cancel(tenant: Tenant, as_role: Callable[[str], Client], role: str, status: int) -> None:
    batch = scenes.accepted(tenant)
    client = as_role(MemberRole(role))
    assert (url(batch) in html_of(client.get(url(batch, "")))) == (status == 302)
    assert client.post(url(batch)).status_code == status


def test_a_stranger_cancels_nothing(tenant: Tenant) -> None:
    batch = scenes.accepted(tenant)
    stranger = signed_in(scenes.member(make_tenant("other").organisation, name="Otto Other"))
    assert stranger.post(url(batch)).status_code == 404
    batch.refresh_from_db()
    assert batch.status == "in_progress"


def test_a_cancel_needs_its_token(tenant: Tenant) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(scenes.member(tenant.organisation))
    assert client.post(url(scenes.accepted(tenant))).status_code == 403
