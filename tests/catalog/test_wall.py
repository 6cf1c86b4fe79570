"""The operators' SLA wall and the page of a lane."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client

from accounts.models import User
from catalog.domain.records import LaneHealth
from catalog.health import lane_span, sla_wall
from catalog.services.sla import record_sla_snapshot
from ground import clock

KEY = ("gpt-4o", "openai-direct")
WALL, LANE = "/ops/sla/", "/ops/lanes/gpt-4o/openai-direct/"


def health(error_ppm: int, *, count: int = 10, enqueued: int = 0) -> LaneHealth:
    return LaneHealth(
        error_ppm=error_ppm,
        p95_dispatch_ms=480,
        p50_completion_minutes=20,
        p95_completion_minutes=47,
        sample_count=count,
        enqueued_tokens=enqueued,
    )


@pytest.fixture
def desk(operator: User) -> Client:
    client = Client()
    client.force_login(operator)
    return client


def words(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200
    return " ".join(response.content.decode().split())


def test_a_bucket_has_its_worst_sample_and_what_was_not_measured_is_a_gap(db: None) -> None:
    at = clock.now()
    # Two hours are 120 buckets of a minute: two samples in the last, none between, one that is only the prior.
    record_sla_snapshot({KEY: health(3_000, enqueued=5)}, at - timedelta(seconds=50))
    record_sla_snapshot({KEY: health(9_000)}, at - timedelta(seconds=20))
    record_sla_snapshot({KEY: health(10_000, count=0, enqueued=7)}, at - timedelta(minutes=10, seconds=30))
    record_sla_snapshot({KEY: health(1)}, at - timedelta(hours=3))
    span = lane_span(*KEY, until=at, span=timedelta(hours=2))
    assert [(number, ppm) for number, ppm in enumerate(span.error_ppm) if ppm is not None] == [(119, 9_000)]
    assert [(number, count) for number, count in enumerate(span.enqueued_tokens) if count is not None] == [
        (109, 7),
        (119, 5),
    ]


def test_the_wall_begins_with_the_worst_lane_that_was_measured(db: None) -> None:
    at = clock.now()
    record_sla_snapshot({KEY: health(3_000), ("gpt-4o-mini", "openai-direct"): health(9_000)}, at)
    first, second, *_ = sla_wall()
    assert [each.overview.lane.model_slug for each in (first, second)] == ["gpt-4o-mini", "gpt-4o"]
    assert first.sampled_at == at


def test_the_wall_says_each_figure_with_its_count(desk: Client) -> None:
    record_sla_snapshot({KEY: health(3_000, count=1_234)}, clock.now())
    said = words(desk, f"{WALL}?text=gpt-4o&provider=openai")
    for figure in ("0.30 %", "480 ms", "20 min", "47 min", "n = 1,234"):
        assert figure in said


def test_the_page_of_a_lane_draws_what_was_measured(desk: Client) -> None:
    record_sla_snapshot({KEY: health(3_000)}, clock.now() - timedelta(minutes=5))
    said = words(desk, LANE)
    assert "Always 0.3 %." in said
    assert said.count('<svg class="chart"') == 4
    assert "View as table" in said
    assert words(desk, f"{LANE}?range=7d").count('<svg class="chart"') == 4


def test_a_lane_that_was_not_measured_says_so(desk: Client) -> None:
    assert words(desk, LANE).count("Nothing was measured in this span.") >= 4


def test_an_unknown_lane_is_not_found(desk: Client) -> None:
    assert desk.get("/ops/lanes/gpt-4o/nowhere/").status_code == 404


def test_the_wall_answers_204_while_nothing_moved(desk: Client) -> None:
    headers = {"HX-Request": "true", "HX-Target": "wall"}
    region = desk.get(WALL, headers=headers).content.decode()
    poll = region.split('hx-get="')[1].split('"')[0].replace("&amp;", "&")
    assert desk.get(poll, headers=headers).status_code == 204
    record_sla_snapshot({KEY: health(3_000)}, clock.now())
    assert desk.get(poll, headers=headers).status_code == 200
