"""One batch: the figures of every state."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.test import Client

from accounts.models import MemberRole
from routing.models import Batch, Quote
from simulators.running import RunningSimulator
from tests.harness.clock import Clock
from tests.harness.world import Tenant, make_tenant
from tests.routing.pages import scenes
from tests.routing.pages.conftest import signed_in, text_of, words_of


def url(batch: Batch) -> str:
    return f"/app/batches/{batch.public_id}/"


def test_a_running_batch_shows_how_far_it_is(customer: Client, tenant: Tenant) -> None:
    batch = scenes.running(scenes.accepted(tenant, count=60), completed=31, failed=2, reported=12)
    page = words_of(customer.get(url(batch)))
    for shown in (
        "nightly-classify-1129",
        "In progress",
        "Requests done 31 / 60",
        "12 more at the provider",
        "Failed so far 2 6.06 % of finished",
        "Workflow default",
        "openai-direct gpt-4o-mini Running",
        "The receipt comes when the batch has ended.",
    ):
        assert shown in page


def test_what_is_charged_so_far_is_the_collected_rows_rounded_once(customer: Client, tenant: Tenant) -> None:
    # 31 rows of 1,234,567 pico-USD are 38.27 micro-USD.
    batch = scenes.running(scenes.accepted(tenant, count=60), completed=31, failed=2)
    page = text_of(customer.get(url(batch)))
    assert page.count('<data class="money" value="38"') == 2


def test_the_batch_is_called_by_its_id_where_it_has_no_name(customer: Client, tenant: Tenant) -> None:
    batch = scenes.accepted(tenant, name="")
    page = text_of(customer.get(url(batch)))
    assert f"<title>In progress: {batch.public_id} · Lanehouse</title>" in page
    assert page.count(f'data-copy="{batch.public_id}"') == 1


def test_a_finished_batch_shows_its_receipt_to_the_last_digit(
    customer: Client, tenant: Tenant, simulator: RunningSimulator, clock: Clock
) -> None:
    batch = scenes.finished(scenes.accepted(tenant, "gpt-4o-mini", "gpt-4o", count=3), simulator, clock)
    receipt = customer.get(f"/v1/batches/{batch.public_id}/receipt", headers=tenant.headers).json()
    page = words_of(customer.get(url(batch)))
    # gpt-4o-mini: 39 tokens in at $0.075, 60 out at $0.30; gpt-4o: the same at $1.25 and $5.00; two fees.
    table = page[page.index("Line item") :]
    for shown in (
        "Input tokens openai-direct · gpt-4o-mini 39 $0.075 $0.00 0003",
        "Output tokens openai-direct · gpt-4o-mini 60 $0.30 $0.00 0018",
        "Input tokens openai-direct · gpt-4o 39 $1.25 $0.00 0049",
        "Output tokens openai-direct · gpt-4o 60 $5.00 $0.00 0300",
        "Control plane fee openai-direct · gpt-4o-mini $0.02 0000",
        "Total $0.04 0370",
    ):
        assert shown in table
    assert receipt["total_micro_usd"] == 40_370
    for name in ("reserved", "released", "estimate_total"):
        micro_usd = receipt[f"{name}_micro_usd"]
        assert f"${micro_usd // 10_000 / 100:.2f} {micro_usd % 10_000:04d}" in table
    assert receipt["id"] in table


def test_a_finished_batch_shows_when_and_how_long(
    customer: Client, tenant: Tenant, simulator: RunningSimulator, clock: Clock
) -> None:
    batch = scenes.finished(scenes.accepted(tenant), simulator, clock)
    page = words_of(customer.get(url(batch)))
    assert re.search(r"Finished at \d+ \w+, \d\d:\d\d took \d min", page)
    assert "Requests done 10 / 10 100.0 %" in page
    assert "Failed 0 of 10 finished" in page
    timeline = page[page.index("Timeline") :]
    assert timeline.index("Accepted, in progress") < timeline.index("Finalizing") < timeline.index("Completed")


def test_a_partly_failed_batch_says_so(
    customer: Client, tenant: Tenant, simulator: RunningSimulator, clock: Clock
) -> None:
    simulator.control.add_fault("row_error", contains="number 3", status_code=400, code="invalid_request")
    batch = scenes.finished(scenes.accepted(tenant), simulator, clock)
    page = words_of(customer.get(url(batch)))
    assert "Partly failed" in page
    assert "1 of 10 requests failed" in page
    assert "Download errors" in page


def test_a_batch_of_which_all_failed_says_so(
    customer: Client, tenant: Tenant, simulator: RunningSimulator, clock: Clock
) -> None:
    simulator.control.add_fault("row_error", status_code=400, code="invalid_request")
    page = words_of(customer.get(url(scenes.finished(scenes.accepted(tenant), simulator, clock))))
    assert "All failed" in page
    assert "10 of 10 requests failed" in page


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ("failed", "This batch failed before a request was sent"),
        ("expired", "The 24 hours ended before every request was done"),
        ("cancelled", "This batch was cancelled"),
    ],
)
def test_an_ended_batch_says_what_became_of_it(customer: Client, tenant: Tenant, status: str, shown: str) -> None:
    batch = scenes.ended_without_run(scenes.accepted(tenant), status)
    page = customer.get(url(batch))
    assert shown in words_of(page)
    assert "took 1 h" in words_of(page)
    assert "hx-get" not in page.content.decode()


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ("validating", "The file is being checked"),
        ("finalizing", "Finalizing"),
        ("cancelling", "This batch is being cancelled"),
    ],
)
def test_a_batch_on_its_way_says_where_it_is(customer: Client, tenant: Tenant, status: str, shown: str) -> None:
    page = customer.get(url(scenes.in_state(scenes.accepted(tenant), status)))
    assert shown in words_of(page)
    assert "hx-get" in page.content.decode()


def test_a_waiting_sub_lane_says_why_in_words(customer: Client, tenant: Tenant) -> None:
    page = words_of(customer.get(url(scenes.waiting(scenes.accepted(tenant)))))
    assert "Waiting Lane is full" in page
    assert "openai-direct is waiting: lane is full" in page
    assert "enqueued_tokens_limit" not in page


def test_several_sub_lanes_are_one_batch(customer: Client, tenant: Tenant) -> None:
    batch = scenes.running(scenes.accepted(tenant, count=60), completed=31, failed=2)
    scenes.with_second_lane(batch, rows_there=20)
    page = words_of(customer.get(url(batch)))
    assert "In progress · 2 sub-lanes" in page
    assert "20 moved to another lane" in page
    assert "20 moved here from another lane" in page
    assert "Total 31 / 60 2 $0.00 0038" in page


def test_very_large_numbers_stay_exact(customer: Client, tenant: Tenant) -> None:
    batch = scenes.in_state(
        scenes.accepted(tenant), "in_progress", row_count=1_000_000, ceiling_micro_usd=987_654_321_987_654
    )
    page = customer.get(url(batch))
    assert "0 / 1,000,000" in words_of(page)
    assert "$987,654,321.98 7654" in words_of(page)


def test_a_name_is_text_never_markup(customer: Client, tenant: Tenant) -> None:
    batch = scenes.accepted(tenant, name="<script>alert(1)</script>")
    page = customer.get(url(batch)).content.decode()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page


def test_the_quote_stands_beside_the_batch(customer: Client, tenant: Tenant) -> None:
    batch = scenes.accepted(tenant)
    page = words_of(customer.get(url(batch)))
    assert batch.quote_id in page
    assert "Likely between" in page
    assert "Why this lane" in page


def test_the_page_stands_without_its_quote(customer: Client, tenant: Tenant, owner_cursor: object) -> None:
    batch = scenes.accepted(tenant)
    Quote.objects.filter(public_id=batch.quote_id).delete()
    page = customer.get(url(batch))
    assert page.status_code == 200
    assert "Likely between" not in words_of(page)
    assert "Ceiling" in words_of(page)


def test_another_organisations_batch_is_not_found(tenant: Tenant) -> None:
    batch = scenes.accepted(tenant)
    stranger = signed_in(scenes.member(make_tenant("other").organisation, name="Otto Other"))
    assert stranger.get(url(batch)).status_code == 404
    for file in ("results", "files/results", "files/output", "files/errors", "cancel/"):
        assert stranger.get(url(batch) + file).status_code == 404


@pytest.mark.parametrize("batch_id", ["batch_01", "x", "batch_7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "%00"])
def test_an_id_that_is_none_is_not_found(customer: Client, batch_id: str) -> None:
    assert customer.get(f"/app/batches/{batch_id}/").status_code == 404


def test_staff_without_an_organisation_find_nothing(tenant: Tenant) -> None:
    batch = scenes.accepted(tenant)
    assert signed_in(scenes.staff()).get(url(batch)).status_code == 404


@pytest.mark.parametrize("role", MemberRole.values)
def test_every_member_may_look(tenant: Tenant, as_role: Callable[[str], Client], role: str) -> None:
    assert as_role(role).get(url(scenes.accepted(tenant))).status_code == 200


def test_a_visitor_is_led_to_sign_in_and_back(tenant: Tenant) -> None:
    batch = scenes.accepted(tenant)
    response = Client().get(url(batch))
    assert response.status_code == 302
    assert response["Location"] == f"/login?next={url(batch)}"


def test_only_reading_is_taken(customer: Client, tenant: Tenant) -> None:
    assert customer.post(url(scenes.accepted(tenant))).status_code == 405
