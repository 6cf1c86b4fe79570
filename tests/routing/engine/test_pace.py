"""Polls follow what a provider's jobs took before, and what it asks for."""

from __future__ import annotations

from datetime import timedelta

from ground import clock
from routing.models import ProviderJob
from routing.services import collect, dispatch
from routing.services.pace import forget
from tests.routing.engine.kit import STEPS, Engine, questions


def test_a_job_is_asked_about_rarely_until_its_like_were_done(engine: Engine) -> None:
    # Five jobs like it, of which we say that they took 400 to 440 s.
    for _ in range(5):
        engine.finish(engine.accept(questions(4)), step_seconds=1)
    for number, job in enumerate(ProviderJob.objects.order_by("pk")):
        assert job.completed_at is not None
        submitted_at = job.completed_at - timedelta(seconds=400 + 10 * number)
        ProviderJob.objects.filter(pk=job.pk).update(submitted_at=submitted_at)
    engine.simulator.control.change_settings(rows_per_second=0.001)
    batch = engine.accept(questions(5))
    for name in ("start", "submit"):
        STEPS[name]()
    ProviderJob.objects.filter(batch=batch).update(due_at=clock.now())
    forget()
    waits = []
    for _ in range(15):
        assert collect.poll_next_job()
        due_at = engine.job(batch).due_at
        assert due_at is not None
        waits.append((due_at - clock.now()).total_seconds())
        engine.clock.freeze(due_at)
    # A minute is the most, half a second the least; 404 s is the early end, half the way each time; then 32 s / 20.
    assert waits == [60, 60, 60, 60, 60, 52, 26, 13, 6.5, 3.25, 1.625, 0.8125, 0.5, 0.5, 1.6]


def test_who_is_told_to_wait_waits_with_all_its_jobs(engine: Engine) -> None:
    engine.simulator.control.change_settings(rows_per_second=0.01)
    batches = [engine.accept(questions(2)) for _ in range(2)]
    for step in (dispatch.start_next_sub_lane, dispatch.submit_next_job):
        while step():
            pass
    engine.fault("batches.retrieve", "http_error", status_code=429, retry_after_seconds=90)
    engine.pass_time(1)
    assert collect.poll_next_job()
    assert not collect.poll_next_job()
    assert {engine.job(batch).due_at for batch in batches} == {clock.now() + timedelta(seconds=90)}
