"""What no repetition heals is seen by people; what fails alone holds nobody else up."""

from __future__ import annotations

import logging

import pytest
from django.test import Client

from routing import tasks
from routing.models import JobState, ProviderAccount, ProviderJob
from routing.services import collect, dispatch
from tests.routing.engine.kit import Engine, questions
from tests.routing.pages import scenes
from tests.routing.pages.conftest import signed_in, words_of


@pytest.mark.parametrize(
    ("operation", "status_code", "code"),
    [
        ("files.content", 401, "invalid_api_key"),
        ("batches.retrieve", 403, ""),
        ("files.content", 429, "insufficient_quota"),
    ],
)
def test_an_account_that_is_refused_rings_until_its_provider_answers(
    engine: Engine, operation: str, status_code: int, code: str
) -> None:
    operators = signed_in(scenes.staff())
    engine.fault(operation, "http_error", status_code=status_code, code=code, times=3)
    batch = engine.accept(questions(2))
    engine.go_on(minutes=1, step_seconds=1)
    account = ProviderAccount.objects.get(kind="customer")
    assert account.refused_since is None, "it answered in the end"
    engine.finish(batch)
    engine.fault(operation, "http_error", status_code=status_code, code=code, times=50)
    batch = engine.accept(questions(2))
    engine.go_on(minutes=3, step_seconds=30)
    account.refresh_from_db()
    assert account.refused_since is not None
    first_heard_at = account.refused_since
    engine.go_on(minutes=3, step_seconds=30)
    account.refresh_from_db()
    assert account.refused_since == first_heard_at
    said = words_of(operators.get("/ops/batches/"))
    assert "openai refuses the account openai-customer" in said
    assert f"status {status_code}" in said
    engine.simulator.control.clear_faults()
    engine.finish(batch)
    assert batch.completed_count == 2
    assert "refuses the account" not in words_of(operators.get("/ops/batches/"))


def test_a_row_that_fails_holds_up_no_other(engine: Engine, caplog: pytest.LogCaptureFixture, client: Client) -> None:
    broken, good = engine.accept(questions(2)), engine.accept(questions(2))
    for step in (dispatch.start_next_sub_lane, dispatch.submit_next_job, collect.poll_next_job):
        while step():
            pass
    whole = engine.job(broken).rows
    ProviderJob.objects.filter(batch=broken).update(rows=b"nonsense")
    with caplog.at_level(logging.ERROR):
        tasks.collect_jobs()
    assert "a row failed in collect_next_job" in caplog.text
    assert engine.job(good).state == JobState.COLLECTED
    ProviderJob.objects.filter(batch=broken).update(rows=whole)
    assert engine.finish(broken).completed_count == 2
    assert engine.finish(good).completed_count == 2
