"""Usage as customers read it: one region, days of the reporting zone, and sums that agree with the receipts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from accounts.models import MemberRole, Organisation
from billing.services.settlement import settle_batch
from ground.charts import Series, stacked_bars
from ground.ids import new_public_id
from tests.billing.kit import make_organisation, settlement, usage
from tests.billing.test_receipt_pages import client_of
from tests.harness.clock import Clock
from tests.routing.pages.conftest import html_of, words_of

PAGE = "/app/usage/"
LIST = {"HX-Request": "true", "HX-Target": "list"}
NOW = datetime(2026, 11, 10, 12, 0, tzinfo=UTC)


def settled(organisation: Organisation, model: str, micro_usd: int, at: datetime) -> str:
    batch = new_public_id("batch_", at)
    settle_batch(settlement(organisation, batch, usage(model, micro_usd), settled_at=at))
    return batch


@pytest.fixture
def house(clock: Clock) -> Organisation:
    """Kathmandu's organisation, with usage of two models around its midnight of 9 to 10 November."""
    clock.freeze(NOW)
    organisation = make_organisation(money=100_000_000)
    organisation.reporting_zone = "Asia/Kathmandu"
    organisation.save()
    settled(organisation, "mini", 3_000_000, datetime(2026, 11, 9, 18, 14, tzinfo=UTC))
    settled(organisation, "mini", 1_000_000, datetime(2026, 11, 9, 18, 15, tzinfo=UTC))
    settled(organisation, "large", 500_001, datetime(2026, 11, 9, 18, 15, tzinfo=UTC))
    return organisation


def test_cards_bars_and_table_are_one_region_and_add_up(house: Organisation) -> None:
    client = client_of(house)
    page = client.get(PAGE)
    assert client.get(PAGE, headers=LIST).content.decode().strip() in html_of(page)
    words = words_of(page)
    for said in (
        "Days in Asia/Kathmandu",
        "Charged $4.50",
        "12 Oct 2026 to 10 Nov 2026",
        "model-mini 0 4,000,000 0 0 $4.00 0000 88.9 %",
        "model-large 0 500,001 0 0 $0.50 0001 11.1 %",
        "Total 0 4,500,001 0 0 $4.50 0001",
        "9 Nov 2026 $3.00 $0",
        "10 Nov 2026 $1.00 $0.50",
    ):
        assert said in words, said
    assert html_of(page).count('<rect class="s0" x=') == 3  # a bar each day, and the legend


def test_8_a_day_is_the_reporting_zones_whatever_the_viewers(house: Organisation) -> None:
    client = client_of(house)
    client.cookies["zone"] = "America%2FLos_Angeles"
    for day, dollars in (("2026-11-09", "$3.00"), ("2026-11-10", "$1.50"), ("2026-11-08", None)):
        words = words_of(client.get(f"{PAGE}?since={day}&until={day}"))
        assert (f"Charged {dollars}" in words) if dollars else ("No usage in these days" in words)


def test_a_filter_narrows_and_a_group_leads_to_itself(house: Organisation) -> None:
    client = client_of(house)
    assert 'href="/app/usage/?model=model-mini"' in html_of(client.get(PAGE))
    words = words_of(client.get(f"{PAGE}?model=model-large&by=lane"))
    assert "lane-large 0 500,001 0 0 $0.50 0001 100.0 %" in words
    assert "Without a key accepted on a page" in words_of(client.get(f"{PAGE}?by=key"))
    assert "Share" not in words_of(client.get(f"{PAGE}?by=batch"))


def test_without_usage_the_last_day_that_had_any_is_shown(house: Organisation, clock: Clock) -> None:
    clock.freeze(NOW + timedelta(days=60))
    page = client_of(house).get(PAGE)
    assert "The last day before them with usage is 10 Nov 2026." in words_of(page)
    assert 'href="/app/usage/?since=2026-11-10&amp;until=2026-11-10"' in html_of(page)
    assert "No usage yet" in words_of(client_of(make_organisation(), MemberRole.VIEWER).get(PAGE))


@pytest.mark.parametrize("query", ["since=x", "since=2020-01-01&until=2026-01-01", "by=user"])
def test_filters_that_cannot_be_read_show_nothing(house: Organisation, query: str) -> None:
    assert "These filters cannot be read" in words_of(client_of(house).get(f"{PAGE}?{query}"))


def test_batches_page_by_cursor_and_stay_with_their_organisation(house: Organisation) -> None:
    made = [settled(house, "mini", 1, NOW - timedelta(minutes=number)) for number in range(51)]
    client = client_of(house, MemberRole.VIEWER)
    first = html_of(client.get(f"{PAGE}?by=batch&preset=7d"))
    assert f"?preset=7d&amp;by=batch&amp;after={made[49]}" in first
    assert made[50] in html_of(client.get(f"{PAGE}?by=batch&after={made[49]}"))
    other = make_organisation(money=5)
    settled(other, "mini", 1, NOW)
    assert client_of(other, MemberRole.BILLING).get(f"{PAGE}?by=batch&after={made[49]}").status_code == 404


def test_bars_stand_upon_one_another_and_keep_their_sum() -> None:
    starts = [NOW + timedelta(days=day) for day in range(2)]
    chart = stacked_bars(
        "t",
        "s",
        starts,
        [Series(label="a", values=(1, 0)), Series(label="b", values=(2, 3))],
        str,
        ZoneInfo("UTC"),
    )
    # 420 wide from 52: 210 a bar, a tenth of it free on each side; three high from 128 up to 10.
    assert [(bar.x, bar.y, bar.width, bar.height, bar.tone) for bar in chart.bars] == [
        (73.0, 88.7, 168.0, 39.3, 0),
        (73.0, 10.0, 168.0, 78.7, 1),
        (283.0, 10.0, 168.0, 118.0, 1),
    ]
    assert chart.rows == ((starts[0], ("1", "2")), (starts[1], ("0", "3")))
