"""What operators see of batches: all customers' list, and one batch with its providers."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta

import pytest
from django.db.models import Sum
from django.test import Client

from accounts.models import StaffRole
from billing.domain.money import round_pico_to_micro
from billing.models import AttemptFact
from ground import clock as house_clock
from routing.models import Batch, ProviderJob, RowOutcome
from simulators.running import RunningSimulator
from tests.harness.clock import Clock
from tests.harness.world import Tenant, do_due_steps, make_tenant
from tests.routing.pages import scenes
from tests.routing.pages.conftest import REGION, html_of, poll_url_of, signed_in, words_of
from tests.routing.pages.test_batch_filters import LIST, poll_url_of_list
from tests.routing.pages.test_batch_list import copies

PAGE = "/ops/batches/"


@pytest.fixture
def operator(db: None) -> Client:
    return signed_in(scenes.staff())


def url(batch: Batch, tail: str = "") -> str:
    return f"{PAGE}{batch.public_id}/{tail}"


def shown_names(client: Client, query: str) -> list[str]:
    return re.findall(r'href="/ops/batches/batch_\w+/"\s+title="([^"]+)"', html_of(client.get(PAGE + query)))


def test_the_list_has_every_customers_batches(operator: Client, tenant: Tenant) -> None:
    other = make_tenant("other")
    scenes.accepted(tenant, "gpt-4o", name="ours")
    scenes.waiting(scenes.accepted(other, name="theirs"))
    page = words_of(operator.get(PAGE))
    assert "theirs batch_" in page
    assert "Other other In progress openai-direct 1 waiting" in page
    assert "in 23 h 59 min" in page
    assert shown_names(operator, "") == ["theirs", "ours"]
    assert shown_names(operator, "?customer=ACME") == ["ours"]
    assert shown_names(operator, f"?customer={other.organisation.public_id}") == ["theirs"]
    assert shown_names(operator, "?model=gpt-4o-mini") == ["theirs"]
    assert shown_names(operator, "?lane=bedrock") == []


def test_batches_at_risk_are_marked_and_found_by_it(
    operator: Client, tenant: Tenant, simulator: RunningSimulator
) -> None:
    at = house_clock.now()
    for name in ("late", "dear", "well", "ended", "stuck", "unpolled"):
        scenes.accepted(tenant, name=name)
    do_due_steps()
    batches = {batch.metadata["name"]: batch for batch in Batch.objects.all() if batch.metadata}
    ProviderJob.objects.update(due_at=at + timedelta(minutes=1))
    scenes.in_state(batches["late"], "in_progress", expires_at=at - timedelta(minutes=1))
    # Nine tenths of the ceiling to the micro-dollar, and a pico-dollar less.
    near_pico_usd = batches["dear"].ceiling_micro_usd * 900_000
    scenes.in_state(batches["dear"], "in_progress", collected_charge_pico_usd=near_pico_usd)
    scenes.in_state(batches["well"], "in_progress", collected_charge_pico_usd=near_pico_usd - 1)
    scenes.in_state(batches["ended"], "failed", expires_at=at - timedelta(days=1))
    jobs = ProviderJob.objects.filter
    jobs(batch=batches["stuck"]).update(state="ended", ending="completed", due_at=at - timedelta(minutes=6))
    jobs(batch=batches["unpolled"]).update(due_at=at - timedelta(minutes=3))
    found = {risk: set(shown_names(operator, f"?risk={risk}")) for risk in ("late", "stuck", "poll", "ceiling", "any")}
    assert found == {
        "late": {"late"},
        "stuck": {"stuck"},
        "poll": {"unpolled"},
        "ceiling": {"dear"},
        "any": {"late", "stuck", "unpolled", "dear"},
    }
    rows = {row["name"]: [risk["word"] for risk in row["risks"]] for row in operator.get(PAGE).context["rows"]}
    assert rows == {
        "late": ["Late"],
        "dear": ["Near ceiling"],
        "well": [],
        "ended": [],
        "stuck": ["Stuck"],
        "unpolled": ["Overdue poll"],
    }


def test_a_batch_knows_what_its_rows_are_charged(tenant: Tenant, simulator: RunningSimulator, clock: Clock) -> None:
    batch = scenes.finished(scenes.accepted(tenant, "gpt-4o-mini", "gpt-4o"), simulator, clock)
    sums = RowOutcome.objects.filter(batch_id=batch.pk).aggregate(charge=Sum("charge_pico_usd"))
    assert batch.collected_charge_pico_usd == sums["charge"] > 0


def test_the_list_is_live_and_pages_without_gap(operator: Client, tenant: Tenant) -> None:
    batch = scenes.accepted(tenant)
    poll_url = poll_url_of_list(operator.get(PAGE))
    assert operator.get(poll_url, headers=LIST).status_code == 204
    copies(batch, range(1, 61))
    first = operator.get(poll_url, headers=LIST)
    second = operator.get(first.context["older_url"])
    seen = [row["batch"].public_id for page in (first, second) for row in page.context["rows"]]
    assert len(seen) == len(set(seen)) == 61
    assert operator.get(f"{PAGE}?after=nonsense").status_code == 404


def test_ten_and_a_hundred_rows_take_the_same_queries(
    tenant: Tenant, operator: Client, django_assert_num_queries: Callable[[int], AbstractContextManager[object]]
) -> None:
    batch = scenes.accepted(tenant)
    for numbers in (range(1, 10), range(10, 100)):
        copies(batch, numbers)
        # Session, user, batches, sub-lanes, their risks, jobs to be decided, accounts, the frame's membership.
        with django_assert_num_queries(8):
            operator.get(PAGE)


def test_a_running_batch_shows_what_its_provider_knows(
    operator: Client, tenant: Tenant, simulator: RunningSimulator
) -> None:
    batch = scenes.accepted(tenant)
    do_due_steps()
    ProviderJob.objects.update(try_count=3, last_error="429: <too> many")
    job = ProviderJob.objects.get()
    page = operator.get(url(batch))
    assert f'data-copy="{job.batch_ref}"' in html_of(page)
    assert f'data-copy="{job.token}"' in html_of(page)
    assert "openai-direct #0 gpt-4o-mini, attempt 1" in words_of(page)
    assert "3 429: &lt;too&gt; many" in words_of(page)
    assert "No row has changed its lane." in words_of(page)
    assert "Margin, known when it is settled" in words_of(page)


def test_cost_stands_against_charge(
    operator: Client, tenant: Tenant, simulator: RunningSimulator, clock: Clock
) -> None:
    batch = scenes.finished(scenes.accepted(tenant), simulator, clock)
    cost_micro_usd = round_pico_to_micro(sum(AttemptFact.objects.values_list("cost_pico_usd", flat=True)))
    operator = signed_in(scenes.staff(name="Later Operator"))
    page = operator.get(url(batch))
    assert batch.charge_micro_usd is not None
    assert page.context["cost_micro_usd"] == cost_micro_usd > 0
    assert page.context["margin_micro_usd"] == batch.charge_micro_usd - cost_micro_usd
    assert "Margin of the house $0.02 0000" in words_of(page)


def test_moved_work_is_summed_by_its_way(operator: Client, tenant: Tenant, simulator: RunningSimulator) -> None:
    batch = scenes.accepted(tenant, count=60)
    do_due_steps()
    joined = scenes.with_second_lane(batch, rows_there=20)
    origin = ProviderJob.objects.get()
    for number, (row_count, attempt_number) in enumerate([(8, 2), (12, 2), (5, 1)]):
        job = ProviderJob.objects.get(pk=origin.pk)
        job.pk, job.sub_lane, job.number, job.token = None, joined, number, f"token-{number}"
        job.row_count, job.attempt_number, job.moved_from = row_count, attempt_number, origin
        job.save(force_insert=True)
    page = words_of(operator.get(url(batch)))
    assert "openai-direct gpt-4o-mini openai-eu They failed there 20" in page
    assert "openai-direct gpt-4o-mini openai-eu Taken from there before they were sent 5" in page


def test_the_page_asks_again_when_a_job_moves(operator: Client, tenant: Tenant, simulator: RunningSimulator) -> None:
    batch = scenes.accepted(tenant)
    do_due_steps()
    poll_url = poll_url_of(operator.get(url(batch)))
    assert operator.get(poll_url, headers=REGION).status_code == 204
    ProviderJob.objects.update(try_count=1)
    region = html_of(operator.get(poll_url, headers=REGION)).strip()
    assert region.startswith("<section")
    scenes.ended_without_run(batch, "failed")
    assert "data-poll" not in html_of(operator.get(poll_url, headers=REGION))


def test_an_operator_cancels_for_a_customer(operator: Client, tenant: Tenant) -> None:
    batch = scenes.accepted(tenant)
    assert url(batch, "cancel/") in html_of(operator.get(url(batch)))
    assert operator.post(url(batch, "cancel/"))["Location"] == url(batch)
    batch.refresh_from_db()
    assert batch.status == "cancelling"


@pytest.mark.parametrize(
    ("role", "acts"),
    [
        (StaffRole.OPERATOR, True),
        (StaffRole.SUPERADMIN, True),
        (StaffRole.SUPPORT, False),
        (StaffRole.FINANCE, False),
    ],
)
def test_who_acts_and_who_reads(tenant: Tenant, role: str, *, acts: bool) -> None:
    batch = scenes.accepted(tenant)
    client = signed_in(scenes.staff(role))
    assert client.get(PAGE).status_code == 200
    assert (url(batch, "cancel/") in html_of(client.get(url(batch)))) == acts
    assert client.post(url(batch, "cancel/")).status_code == (302 if acts else 403)


def test_customers_and_visitors_find_nothing(customer: Client, tenant: Tenant) -> None:
    batch = scenes.accepted(tenant)
    for page in (PAGE, url(batch), url(batch, "cancel/")):
        assert customer.get(page).status_code == 404
        assert Client().get(page)["Location"] == f"/login?next={page}"


@pytest.mark.parametrize("batch_id", ["batch_01", "x", "%00", "batch_7ZZZZZZZZZZZZZZZZZZZZZZZZZ"])
def test_an_id_that_is_none_is_not_found(operator: Client, batch_id: str) -> None:
    assert operator.get(f"{PAGE}{batch_id}/").status_code == 404
