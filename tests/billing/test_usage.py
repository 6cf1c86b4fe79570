"""Usage: counted once with its receipt, and the same sum however it is cut."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import transaction
from django.test import Client

from accounts.models import Organisation
from accounts.services.organisations import create_api_key
from billing.domain.calendar import BucketWidth, borders, day_starts_at, quarter_after, quarter_before
from billing.domain.records import SettlementRequest
from billing.models import Receipt
from billing.services.settlement import settle_batch
from billing.usage.reading import Dimension, UsageSums, batch_usage_page, usage_rows
from catalog.domain.records import TokenKind
from ground.functions import call
from tests.billing.kit import AT, assert_books_hold, fee, group, house_legs, make_organisation, settlement, usage

ZONES = (
    "UTC",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "America/Los_Angeles",
    "Australia/Lord_Howe",
    "America/Havana",
)
_batches = itertools.count(1)


def settled(organisation: Organisation, at: datetime, micro_usd: int = 1, **terms: Any) -> Receipt:
    request = settlement(organisation, f"batch_u{next(_batches)}", usage("a", micro_usd), settled_at=at)
    return settle_batch(SettlementRequest(**{**{name: getattr(request, name) for name in request.__slots__}, **terms}))


def lengths_in_hours(first: date, days: int, zone: str) -> list[float]:
    place = ZoneInfo(zone)
    found = borders(
        day_starts_at(first, place), day_starts_at(first + timedelta(days=days), place), BucketWidth.DAY, place
    )
    return [(end - start) / timedelta(hours=1) for start, end in itertools.pairwise(found)]


def test_days_are_as_long_as_their_zones_clocks_say() -> None:
    assert lengths_in_hours(date(2026, 3, 7), 3, "America/Los_Angeles") == [24, 23, 24]
    assert lengths_in_hours(date(2026, 10, 31), 3, "America/Los_Angeles") == [24, 25, 24]
    # At midnight Havana's clocks go on to one, and back from one to midnight.
    assert lengths_in_hours(date(2026, 3, 7), 3, "America/Havana") == [24, 23, 24]
    assert lengths_in_hours(date(2026, 10, 31), 3, "America/Havana") == [24, 25, 24]
    assert day_starts_at(date(2026, 11, 3), ZoneInfo("Asia/Kathmandu")) == datetime(2026, 11, 2, 18, 15, tzinfo=UTC)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("width", BucketWidth)
def test_buckets_join_without_gap_over_a_change_of_the_clocks(zone: str, width: BucketWidth) -> None:
    since, until = datetime(2026, 10, 30, 5, 15, tzinfo=UTC), datetime(2026, 11, 3, 2, 45, tzinfo=UTC)
    found = borders(since, until, width, ZoneInfo(zone))
    assert (found[0], found[-1]) == (since, until)
    assert all(start < end for start, end in itertools.pairwise(found))
    assert all(border == quarter_before(border) == quarter_after(border) for border in found)
    local = [border.astimezone(ZoneInfo(zone)) for border in found[1:-1]]
    assert width is BucketWidth.QUARTER_HOUR or all(each.minute in {0, 30} for each in local)
    assert width is not BucketWidth.DAY or len({each.date() for each in local}) == len(local)


def test_8_the_days_of_a_range_add_up_to_it_and_to_the_ledger_in_every_zone(db: None) -> None:
    organisation = make_organisation(money=10_000_000)
    # Over Los Angeles' change of 1 November: at every quarter of an hour.
    for number in range(96):
        settled(organisation, datetime(2026, 10, 31, tzinfo=UTC) + number * timedelta(minutes=45), 2**number % 9_973)
    spent = house_legs(organisation)["revenue_usage:customer"]
    for zone in map(ZoneInfo, ZONES):
        days = borders(
            day_starts_at(date(2026, 10, 29), zone), day_starts_at(date(2026, 11, 6), zone), BucketWidth.DAY, zone
        )
        by_day = {row.bucket: row.sums.charge_micro_usd for row in usage_rows(organisation, days, limit=99)}
        each = [
            sum(row.sums.charge_micro_usd for row in usage_rows(organisation, [start, end], limit=9))
            for start, end in itertools.pairwise(days)
        ]
        (whole,) = usage_rows(organisation, [days[0], days[-1]], limit=9)
        assert [by_day.get(bucket, 0) for bucket in range(len(each))] == each
        assert sum(each) == whole.sums.charge_micro_usd == spent


def test_a_receipt_is_counted_by_model_lane_and_key_with_all_its_kinds(organisation: Organisation) -> None:
    key, _ = create_api_key(organisation=organisation, name="nightly", at=AT)
    mini = group(
        "mini", (TokenKind.INPUT, 50_000, 1_000), (TokenKind.CACHED_INPUT, 25_000, 400), (TokenKind.OUTPUT, 10**6, 60)
    )
    large = group("large", (TokenKind.CACHE_WRITE_5M, 10**6, 7), (TokenKind.CACHE_WRITE_1H, 10**6, 2))
    request = settlement(organisation, "batch_1", mini, large, fees=[fee("mini", 20), fee("mini", 20, "second")])
    counted = {"mini": 12, "large": 3}
    settle_batch(
        SettlementRequest(
            **{name: getattr(request, name) for name in request.__slots__ if name not in {"groups", "api_key_id"}},
            groups=tuple(
                type(each)(
                    group_key=each.group_key,
                    model_slug=each.model_slug,
                    lane_id=each.lane_id,
                    charged=each.charged,
                    row_count=counted[each.group_key],
                )
                for each in request.groups
            ),
            api_key_id=key.pk,
        )
    )
    by = (Dimension.KEY, Dimension.MODEL, Dimension.LANE)
    rows = usage_rows(organisation, [quarter_before(AT), quarter_after(AT + timedelta(seconds=1))], by=by, limit=9)
    assert {row.group: row.sums for row in rows} == {
        (key.pk, "model-large", "lane-large"): UsageSums(
            request_count=3, cache_write_tokens=9, usage_charge_micro_usd=9
        ),
        # 50 + 10 + 60 micro-USD
        (key.pk, "model-mini", "lane-mini"): UsageSums(
            request_count=12,
            input_tokens=1_000,
            cached_input_tokens=400,
            output_tokens=60,
            usage_charge_micro_usd=120,
            fee_micro_usd=20,
        ),
        (key.pk, "model-mini", "second"): UsageSums(fee_micro_usd=20),
    }
    assert_books_hold()


def test_a_receipt_is_counted_once_however_often_and_however_it_is_settled(organisation: Organisation) -> None:
    receipt = settled(organisation, AT, 5)
    request = settlement(organisation, receipt.batch_public_id, usage("a", 5))
    assert settle_batch(request).pk == receipt.pk
    assert call("billing_fold_usage", [[receipt.pk], [None], ["[]"]], "bigint[] bigint[] jsonb[]") == (0,)
    with transaction.atomic():
        settle_batch(settlement(organisation, "batch_that_breaks", usage("a", 7)))
        transaction.set_rollback(True)
    (row,) = usage_rows(organisation, [AT - timedelta(days=1), AT + timedelta(days=1)], limit=9)
    assert row.sums.charge_micro_usd == 5
    assert_books_hold()


def test_batches_page_newest_first_while_others_settle(organisation: Organisation) -> None:
    made = [settled(organisation, AT + timedelta(minutes=5 * number)).batch_public_id for number in range(7)]
    seen: list[str] = []
    before = None
    while True:
        page, has_more = batch_usage_page(organisation, AT, AT + timedelta(days=1), before_receipt=before, limit=3)
        seen += [each.batch_public_id for each in page]
        if not has_more:
            break
        before = page[-1].settled_at, page[-1].receipt_id
        settled(organisation, AT + timedelta(hours=5))
    assert seen == made[::-1]


@pytest.fixture
def asks(organisation: Organisation) -> Any:
    """A program of the organisation, and of its key's name."""
    organisation.reporting_zone = "Asia/Kathmandu"
    organisation.save()
    _, new = create_api_key(organisation=organisation, name="reader", at=AT)

    def get(query: str, status: int = 200) -> Any:
        answer = Client().get(f"/v1/usage?{query}", headers={"authorization": f"Bearer {new.text}"})
        assert answer.status_code == status, answer.content
        return answer.json()

    return get


def unix(*parts: int) -> int:
    return int(datetime(*parts, tzinfo=UTC).timestamp())  # type: ignore[arg-type,misc]


def test_the_api_gives_openais_buckets_in_the_reporting_zone(organisation: Organisation, asks: Any) -> None:
    # 18:14 and 18:15 UTC are two days in Kathmandu.
    settled(organisation, datetime(2026, 11, 2, 18, 14, 59, tzinfo=UTC), 3)
    settled(organisation, datetime(2026, 11, 2, 18, 15, tzinfo=UTC), 4)
    page = asks(f"start_time={unix(2026, 11, 1, 18, 15)}&end_time={unix(2026, 11, 4)}&group_by=model,lane_id")
    assert {name: page[name] for name in ("object", "has_more", "next_page", "zone")} == {
        "object": "page",
        "has_more": False,
        "next_page": None,
        "zone": "Asia/Kathmandu",
    }
    assert [(each["start_time"], each["end_time"], len(each["results"])) for each in page["data"]] == [
        (unix(2026, 11, 1, 18, 15), unix(2026, 11, 2, 18, 15), 1),
        (unix(2026, 11, 2, 18, 15), unix(2026, 11, 3, 18, 15), 1),
        (unix(2026, 11, 3, 18, 15), unix(2026, 11, 4), 0),
    ]
    assert page["data"][1]["results"][0] == {
        "object": "organization.usage.completions.result",
        "input_tokens": 4,
        "input_uncached_tokens": 4,
        "input_cached_tokens": 0,
        "input_cache_write_tokens": 0,
        "output_tokens": 0,
        "num_model_requests": 0,
        "usage_charge_micro_usd": 4,
        "fee_micro_usd": 0,
        "charge_micro_usd": 4,
        "project_id": None,
        "user_id": None,
        "api_key_id": None,
        "model": "model-a",
        "lane_id": "lane-a",
        "batch_id": None,
    }
    in_utc = asks(f"start_time={unix(2026, 11, 2)}&end_time={unix(2026, 11, 3)}&zone=UTC&models[]=model-a")
    assert [each["results"][0]["charge_micro_usd"] for each in in_utc["data"]] == [7]
    assert asks(f"start_time={unix(2026, 11, 2)}&end_time={unix(2026, 11, 3)}&models=no")["data"][0]["results"] == []


def test_11_pages_add_up_to_the_database_while_usage_comes_in(organisation: Organisation, asks: Any) -> None:
    for number in range(30):
        settled(organisation, AT + timedelta(hours=number), number)
    query = f"start_time={unix(2026, 11, 3)}&end_time={unix(2026, 11, 6)}&bucket_width=1h&group_by=batch_id&limit=7"
    seen: list[tuple[str, int]] = []
    page: Any = {"next_page": None, "has_more": True}
    while page["has_more"]:
        page = asks(query + (f"&page={page['next_page']}" if page["next_page"] else ""))
        seen += [
            (result["batch_id"], result["charge_micro_usd"]) for each in page["data"] for result in each["results"]
        ]
        settled(organisation, AT - timedelta(days=1))
    assert len({batch for batch, _ in seen}) == len(seen)
    assert sum(charge for _, charge in seen) == sum(range(30))


def test_usage_of_others_is_nobody_elses(organisation: Organisation, asks: Any) -> None:
    other = make_organisation(money=100)
    receipt = settled(other, AT, 9)
    span = f"start_time={unix(2026, 11, 1)}&end_time={unix(2026, 11, 9)}"
    assert all(not each["results"] for each in asks(span)["data"])
    assert all(not each["results"] for each in asks(f"{span}&batch_ids={receipt.batch_public_id}")["data"])


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("", "start_time"),
        ("start_time=x", "start_time"),
        ("start_time=1", "start_time"),
        ("start_time=99999999999999999999", "start_time"),
        ("start_time=1790000000&end_time=1790000000", "end_time"),
        ("start_time=1790000000&zone=Mars/Olympus", "zone"),
        ("start_time=1790000000&zone=../../etc/passwd", "zone"),
        ("start_time=1790000000&group_by=user_id", "group_by"),
        ("start_time=1790000000&bucket_width=1w", "bucket_width"),
        ("start_time=1790000000&limit=0", "limit"),
        ("start_time=1790000000&page=page_AAAA", "page"),
        ("start_time=1790000000&page=%C3%A4", "page"),
    ],
)
def test_what_cannot_be_meant_is_refused(asks: Any, query: str, param: str) -> None:
    assert asks(query, 400)["error"]["param"] == param
