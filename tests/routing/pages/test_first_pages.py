"""The first pages, the jump box and preferences: right figures, and nothing of anybody else's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.test import Client

from accounts.models import ApiKey, Organisation, User
from catalog.domain.records import LaneHealth
from catalog.services.sla import record_sla_snapshot
from console.overviews import engine_queue, lanes_in_breach, month_spans, work_in_flight
from ground import clock
from routing.models import ProviderJob
from simulators.running import RunningSimulator
from tests.harness.clock import Clock
from tests.harness.world import Tenant, do_due_steps, make_tenant
from tests.routing.pages import scenes
from tests.routing.pages.conftest import html_of, signed_in, words_of
from webhooks.models import Delivery, Endpoint
from webhooks.services.endpoints import create_endpoint, send_test_event

RUNNING = {"HX-Request": "true", "HX-Target": "running"}


@pytest.fixture
def operator(db: None) -> Client:
    return signed_in(scenes.staff())


def test_everybody_is_led_to_their_first_page(customer: Client, operator: Client) -> None:
    assert customer.get("/").headers["Location"] == "/app/"
    assert operator.get("/").headers["Location"] == "/ops/"
    assert operator.get("/app/").status_code == 404
    assert customer.get("/ops/").status_code == 404


def test_the_overview_adds_up_one_organisations_work(
    customer: Client, tenant: Tenant, simulator: RunningSimulator, clock: Clock
) -> None:
    first = words_of(customer.get("/app/"))
    assert "Three steps to the first result" in first
    assert "No batch is running." in first
    done = scenes.finished(scenes.accepted(tenant, count=3, name="done"), simulator, clock)
    scenes.running(scenes.accepted(tenant, "gpt-4o-mini", count=60, name="half way"), completed=31, failed=2)
    scenes.accepted(make_tenant("other"), count=7, name="theirs")
    assert done.charge_micro_usd is not None
    page = words_of(customer.get("/app/"))
    assert "1 batch, 33 of 60 requests done." in page
    assert "Charged this month $0.02" in page
    assert "half way" in page
    assert "theirs" not in page
    assert "Three steps" not in page
    alone = customer.get("/app/", headers=RUNNING)
    assert "33 of 60" in words_of(alone)
    assert "<h1" not in html_of(alone)


def test_the_overview_says_what_needs_a_look(customer: Client, tenant: Tenant) -> None:
    create_endpoint(tenant.organisation, url="https://hooks.example.com/x", name="Nightly <b>jobs</b>", event_types=())
    delivery = send_test_event(tenant.organisation, Endpoint.objects.get().public_id)
    Delivery.objects.filter(pk=delivery.pk).update(
        state="failed", due_at=None, failure_count=7, attempt_count=7, state_changed_at=clock.now()
    )
    Endpoint.objects.update(state="disabled", state_reason="answered 410")
    Organisation.objects.filter(pk=tenant.organisation.pk).update(billing_blocked_at=clock.now())
    ApiKey.objects.all().delete()
    html = html_of(customer.get("/app/"))
    assert "Nightly &lt;b&gt;jobs&lt;/b&gt;: answered 410" in html
    assert "New batches are blocked" in html
    assert "Deliveries given up 1" in words_of(customer.get("/app/"))


def test_a_viewer_is_told_no_sums(tenant: Tenant) -> None:
    page = words_of(signed_in(scenes.member(tenant.organisation, "viewer")).get("/app/"))
    assert "Available $100.00" in page
    assert "Charged this month" not in page
    assert "Price a file" not in page


# Kathmandu is 5 h 45 min ahead: 1 December begins there at 18:15 UTC on 30 November. In Los Angeles November has a day
# of 25 hours: it began at 07:00 UTC on the 1st (PDT) and ends at 08:00 UTC on 1 December (PST).
@pytest.mark.parametrize(
    ("at", "zone", "last", "this"),
    [
        (datetime(2026, 11, 30, 18, 14, 59, tzinfo=UTC), "Asia/Kathmandu", "2026-09-30T18:15", "2026-10-31T18:15"),
        (datetime(2026, 11, 30, 18, 15, tzinfo=UTC), "Asia/Kathmandu", "2026-10-31T18:15", "2026-11-30T18:15"),
        (datetime(2026, 12, 1, 8, tzinfo=UTC), "America/Los_Angeles", "2026-11-01T07:00", "2026-12-01T08:00"),
        (datetime(2026, 1, 31, 12, tzinfo=UTC), "UTC", "2025-12-01T00:00", "2026-01-01T00:00"),
    ],
)
def test_months_are_the_zones_own(at: datetime, zone: str, last: str, this: str) -> None:
    this_month, last_month = month_spans(at, ZoneInfo(zone))
    instants = [last_month.since, last_month.until, this_month.since]
    assert [f"{each.astimezone(UTC):%Y-%m-%dT%H:%M}" for each in instants if each] == [last, this, this]
    assert this_month.until == at


def test_operators_see_what_is_in_flight_and_late(
    operator: Client, tenant: Tenant, simulator: RunningSimulator, clock: Clock
) -> None:
    assert "All calm" in words_of(operator.get("/ops/"))
    batch = scenes.accepted(tenant, "gpt-4o-mini", count=60)
    do_due_steps()
    ProviderJob.objects.update(due_at=clock.now() - timedelta(seconds=121), try_count=2, last_error="401: no")
    scenes.in_state(batch, "in_progress", expires_at=clock.now() - timedelta(seconds=1))
    flight, queue = work_in_flight(clock.now()), engine_queue()
    assert (flight.batch_count, flight.row_count, flight.done_count, flight.late_batch_count) == (1, 60, 0, 1)
    assert flight.oldest == batch
    assert (queue.open_count, queue.late_count, queue.failing_count, queue.unclear_count) == (1, 1, 1, 0)
    page = words_of(operator.get("/ops/"))
    assert "Running 1 batch" in page
    assert "Late late 1" in page
    block = operator.get("/ops/", headers={"HX-Request": "true", "HX-Target": "block-engine"})
    assert "Answered with errors retrying 1" in words_of(block)
    assert "Running" not in words_of(block)


def test_a_lane_is_in_breach_from_the_limit_on(operator: Client) -> None:
    def measured(error_ppm: int, p95_minutes: int, count: int = 10) -> LaneHealth:
        return LaneHealth(
            error_ppm=error_ppm,
            p95_dispatch_ms=1,
            p50_completion_minutes=1,
            p95_completion_minutes=p95_minutes,
            sample_count=count,
        )

    record_sla_snapshot(
        {
            ("gpt-4o", "openai-direct"): measured(50_000, 30),
            ("gpt-4o-mini", "openai-direct"): measured(49_999, 1_439),
        },
        clock.now(),
    )
    assert [each.overview.lane.model_slug for each in lanes_in_breach()] == ["gpt-4o"]
    assert "gpt-4o openai-direct 5.0 %" in words_of(operator.get("/ops/"))


def test_an_id_leads_to_its_page_and_a_foreign_one_to_nothing(
    customer: Client, operator: Client, tenant: Tenant
) -> None:
    ours, theirs = scenes.accepted(tenant, name="ours"), scenes.accepted(make_tenant("other"), name="theirs")
    assert customer.get("/go", {"q": f" {ours.public_id} "}).headers["Location"] == f"/app/batches/{ours.public_id}/"
    assert customer.get("/go", {"q": ours.quote_id}).headers["Location"] == f"/app/quotes/{ours.quote_id}/"
    assert operator.get("/go", {"q": theirs.public_id}).headers["Location"] == f"/ops/batches/{theirs.public_id}/"
    for text in (theirs.public_id, theirs.quote_id, "batch_x", "theirs", "zz"):
        answer = customer.get("/go", {"q": text})
        assert answer.status_code == 200
        assert "Nothing found" in words_of(answer)


def test_a_text_finds_what_the_viewer_may_see(customer: Client, operator: Client, tenant: Tenant) -> None:
    for number in range(7):
        scenes.accepted(tenant, count=1, name=f"nightly {number}")
    page = words_of(customer.get("/go", {"q": "NIGHTLY"}))
    assert [f"nightly {number}" in page for number in range(7)] == [False, False, True, True, True, True, True]
    assert "at least two characters" in words_of(customer.get("/go", {"q": "n"}))
    page = words_of(operator.get("/go", {"q": "acme"}))
    assert f"Customers Acme {tenant.organisation.public_id}" in page
    assert "gpt-4o-mini on openai-direct" in words_of(operator.get("/go", {"q": "gpt-4o-mini"}))
    assert "Lanes" not in words_of(customer.get("/go", {"q": "gpt-4o-mini"}))


def test_preferences_are_kept_and_used(customer: Client) -> None:
    page = customer.get("/me/preferences/")
    assert 'value="Asia/Kathmandu"' in html_of(page)
    assert "data-shortcuts" not in html_of(page)
    saved = customer.post("/me/preferences/", {"time_zone": "Asia/Kathmandu"}, follow=True)
    assert "Times in Asia/Kathmandu" in words_of(saved)
    assert 'data-shortcuts="off"' in html_of(saved)
    refused = customer.post("/me/preferences/", {"time_zone": "Mars/Olympus", "shortcuts": "on"})
    assert refused.status_code == 422
    user = User.objects.get()
    assert (user.time_zone, user.shortcuts_off) == ("Asia/Kathmandu", True)
