"""Operators move a job that was never sent; one that was, or may have been, stays where it is."""

from __future__ import annotations

import pytest
from django.test import Client

from accounts.models import AuditEntry, StaffRole
from billing.models import Receipt
from catalog.domain.records import Rotation
from ground.errors import InvalidRequest
from routing.models import Batch, JobState, ProviderJob
from routing.services.re_routing import move_job
from tests.routing.engine.kit import STEPS, Engine, questions
from tests.routing.engine.lanes import FIRST, SECOND, add_lane, counts_of, rotate
from tests.routing.pages.conftest import signed_in, words_of
from tests.routing.pages.scenes import staff


def moved(batch: Batch, client: Client) -> str:
    job = ProviderJob.objects.get(batch=batch, moved_from=None)
    path = f"/ops/jobs/{job.token}/move/"
    seen = words_of(client.get(path))
    assert client.post(path, {"reason": "no"}).status_code == 422
    assert client.post(path, {"reason": "the lane is full all day"}).status_code == 302
    return seen


def test_a_job_never_sent_moves_and_is_charged_as_quoted(engine: Engine) -> None:
    stayed = engine.finish(engine.accept(questions(3)))
    add_lane()
    batch = engine.accept(questions(3))
    STEPS["start"]()
    seen = moved(batch, signed_in(staff()))
    assert f"3 rows of gpt-4o-mini leave {FIRST} for {SECOND}." in seen
    engine.finish(batch)
    assert counts_of(batch) == {FIRST: (0, 0, 0, 3, 0), SECOND: (3, 3, 0, 0, 3)}
    jobs = ProviderJob.objects.filter(batch=batch).order_by("pk")
    assert [job.state for job in jobs] == [JobState.ABANDONED, JobState.COLLECTED]
    # The rates and the fee of the primary lane hold wherever the rows ran.
    charges = Receipt.objects.filter(batch_public_id__in=[stayed.public_id, batch.public_id])
    assert len({receipt.total_micro_usd for receipt in charges}) == 1
    entry = AuditEntry.objects.get(action="job.moved")
    assert (entry.changes["lane"], entry.reason) == ([FIRST, SECOND], "the lane is full all day")


def test_a_job_that_was_sent_or_has_nowhere_to_go_stays(engine: Engine) -> None:
    add_lane()
    batch = engine.accept(questions(3))
    STEPS["start"]()
    token = ProviderJob.objects.get().token
    rotate(SECOND, Rotation.OUT)
    with pytest.raises(InvalidRequest, match="No other lane"):
        move_job(token=token, reason="try it", user=staff())
    rotate(SECOND, Rotation.IN)
    STEPS["submit"]()
    with pytest.raises(InvalidRequest, match="sent already"):
        move_job(token=token, reason="try it", user=staff(name="Ann Other"))
    engine.finish(batch)
    assert counts_of(batch) == {FIRST: (3, 3, 0, 0, 0)}


def test_support_and_finance_move_nothing(engine: Engine) -> None:
    engine.accept(questions(3))
    STEPS["start"]()
    path = f"/ops/jobs/{ProviderJob.objects.get().token}/move/"
    for role in (StaffRole.SUPPORT, StaffRole.FINANCE):
        assert signed_in(staff(role, name=role.title())).post(path, {"reason": "try it"}).status_code == 403
