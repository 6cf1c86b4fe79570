"""What lanes have shown: right values by hand, gaps, priors, seeds."""

from __future__ import annotations

from datetime import timedelta

import pytest

from accounts.models import OrganisationKind
from billing.services.wallets import open_wallet, record_top_up
from catalog.domain.records import PRIOR_HEALTH, LaneHealth
from catalog.models import Lane, SampleSource, SlaSample
from catalog.selectors import current_catalog
from routing.models import ProviderAccount, ProviderJob
from routing.services.lanes import ensure_partitions, measure_lanes
from tests.harness.world import Tenant
from tests.routing.engine.kit import MODEL, STEPS, Engine, chat_file, questions


def health(slug: str = MODEL) -> LaneHealth:
    return current_catalog().sla.health(slug, "openai-direct")


def measured(engine: Engine) -> LaneHealth:
    engine.pass_time(1)
    measure_lanes()
    return health()


def seed(engine: Engine) -> None:
    """Give the lane figures of its own, as the catalog does for some."""
    SlaSample.objects.create(
        lane=Lane.objects.get(model__slug=MODEL),
        taken_at=engine.clock.now(),
        source=SampleSource.SEED,
        error_ppm=4_000,
        p95_dispatch_ms=700,
        p50_completion_minutes=7,
        p95_completion_minutes=9,
        sample_count=0,
        enqueued_tokens=0,
    )


def run_job(engine: Engine, body: bytes, *, dispatch_ms: int, minutes: int) -> None:
    """Run one batch, and set how long its job took to be sent and to be done."""
    batch = engine.finish(engine.accept(body))
    job = engine.job(batch)
    submitted_at = job.intended_at + timedelta(milliseconds=dispatch_ms)
    ProviderJob.objects.filter(pk=job.pk).update(
        submitted_at=submitted_at, completed_at=submitted_at + timedelta(minutes=minutes)
    )


def test_a_lane_that_never_ran_keeps_what_the_catalog_gave_it(engine: Engine) -> None:
    seed(engine)
    given = health()
    assert given.p95_completion_minutes == 9
    assert measured(engine) == given


def test_tokens_in_flight_are_shown_beside_the_seeds_for_as_long_as_they_are_there(engine: Engine) -> None:
    seed(engine)
    engine.simulator.control.change_settings(rows_per_second=0.01)
    batch = engine.accept(questions(3))
    STEPS["start"]()
    STEPS["submit"]()
    tokens = engine.job(batch).estimated_input_tokens
    for _ in range(3):
        now = measured(engine)
        assert (now.p95_completion_minutes, now.sample_count, now.enqueued_tokens) == (9, 0, tokens)


def test_the_figures_are_those_worked_out_by_hand(engine: Engine) -> None:
    for dispatch_ms, minutes in ((100, 10), (200, 20), (300, 30), (400, 40), (500, 50)):
        run_job(engine, questions(4), dispatch_ms=dispatch_ms, minutes=minutes)
    # Of 24 attempts one is the lane's failure; two are the rows' own.
    run_job(
        engine,
        chat_file("[[sim:fail]]", "[[sim:context_length]]", "[[sim:content_filter]]", "Hello"),
        dispatch_ms=300,
        minutes=30,
    )
    now = measured(engine)
    # Of 100 200 300 300 400 500 the 95th percentile lies at 0.95 x 5 = 4.75 places: 400 + 0.75 x 100.
    assert now.p95_dispatch_ms == 475
    assert now.p50_completion_minutes == 30
    assert now.p95_completion_minutes == 48
    assert now.sample_count == 24
    assert now.error_ppm == 1_000_000 // 24
    assert now.enqueued_tokens == 0


def test_a_lane_that_refuses_every_job_has_an_error_rate_though_it_has_no_times(engine: Engine) -> None:
    seed(engine)
    engine.fault("batches.create", "http_error", status_code=400, times=2)
    for _ in range(2):
        engine.finish(engine.accept(questions(2)))
    now = measured(engine)
    assert (now.error_ppm, now.sample_count) == (1_000_000, 4)
    assert (now.p95_dispatch_ms, now.p95_completion_minutes) == (700, 9)


def test_after_a_day_without_work_the_stated_prior_comes_back(engine: Engine) -> None:
    engine.finish(engine.accept(questions(2)))
    assert measured(engine).sample_count == 2
    engine.pass_time(86_400)
    assert measured(engine) == PRIOR_HEALTH
    assert measure_lanes() == 0


def test_the_work_of_a_test_twin_says_nothing_about_a_lane(engine: Engine, tenant: Tenant) -> None:
    twin = tenant.organisation.test_twin
    assert twin is not None
    open_wallet(twin)
    record_top_up(twin, reference="play", amount_micro_usd=1_000_000, effective_at=engine.clock.now(), recorded_by=None)
    assert ProviderAccount.objects.filter(kind=OrganisationKind.TEST).exists()
    made = Tenant(organisation=twin, api_key=tenant.api_key, key_text="")
    batch = engine.finish(engine.accept(questions(2), made))
    assert engine.job(batch).account.kind == OrganisationKind.TEST
    assert measured(engine) == PRIOR_HEALTH


def test_two_measurements_at_the_same_instant_are_one(engine: Engine) -> None:
    engine.finish(engine.accept(questions(2)))
    assert [measure_lanes(), measure_lanes()] == [1, 0]


@pytest.mark.parametrize("times", [1, 2])
def test_partitions_are_made_as_often_as_one_likes(engine: Engine, times: int) -> None:
    engine.clock.advance(days=40)
    for _ in range(times):
        ensure_partitions()
    engine.finish(engine.accept(questions(1)))
