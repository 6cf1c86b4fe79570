"""Operators decide about jobs of which nobody can tell whether they were sent."""

from __future__ import annotations

import pytest
from django.test import Client

from accounts.models import StaffRole
from routing.models import JobState, ProviderJob, UnclearDecision
from simulators.running import RunningSimulator
from tests.harness.world import Tenant
from tests.routing.pages import scenes
from tests.routing.pages.conftest import html_of, signed_in, words_of

DIALOG = {"HX-Request": "true", "HX-Target": "dialog"}
CANDIDATE = "msgbatch_01candidate"


@pytest.fixture
def operator(db: None) -> Client:
    return signed_in(scenes.staff())


@pytest.fixture
def job(tenant: Tenant, simulator: RunningSimulator) -> ProviderJob:
    return scenes.unclear(scenes.accepted(tenant), CANDIDATE)


def url(job: ProviderJob) -> str:
    return f"/ops/jobs/{job.token}/decide/"


def test_the_list_and_the_batch_lead_to_it(operator: Client, job: ProviderJob) -> None:
    page = operator.get("/ops/batches/")
    assert "1 job waits for a decision" in words_of(page)
    assert url(job) in html_of(page)
    assert url(job) in html_of(operator.get(f"/ops/batches/{job.batch.public_id}/"))


def test_it_says_what_is_known(operator: Client, job: ProviderJob) -> None:
    words = words_of(operator.get(url(job), headers=DIALOG))
    assert f"{CANDIDATE} 10 rows, made" in words
    assert f"It is {CANDIDATE}: take that one" in words


def test_a_decision_is_taken_and_said(operator: Client, job: ProviderJob) -> None:
    answer = operator.post(url(job), {"choice": f"adopt:{CANDIDATE}", "reason": "Its first row is ours"})
    assert answer["Location"] == f"/ops/batches/{job.batch.public_id}/"
    job.refresh_from_db()
    assert (job.state, job.batch_ref, job.unclear_since) == (JobState.RUNNING, CANDIDATE, None)
    assert "The provider&#x27;s job is taken for ours" in words_of(operator.get(answer["Location"]))
    page = words_of(operator.get(url(job)))
    assert "There is nothing to decide: Running" in page
    assert "Its first row is ours" in page


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ({"choice": "send_again", "reason": ""}, "Reason: This field is required."),
        ({"reason": "It never came"}, "What is true: This field is required."),
        ({"choice": "adopt:msgbatch_another", "reason": "Guessed"}, "Select a valid choice."),
    ],
)
def test_a_decision_without_its_parts_is_refused(
    operator: Client, job: ProviderJob, sent: dict[str, str], told: str
) -> None:
    answer = operator.post(url(job), sent, headers=DIALOG)
    assert answer.status_code == 422
    assert told in words_of(answer)
    assert not UnclearDecision.objects.exists()


def test_who_comes_second_is_told(operator: Client, job: ProviderJob) -> None:
    sent = {"choice": "give_up", "reason": "Nobody knows"}
    operator.post(url(job), sent)
    back = operator.post(url(job), sent)["Location"]
    assert "Nothing is to be decided about this job (any more)" in words_of(operator.get(back))
    assert UnclearDecision.objects.count() == 1


def test_only_operators_decide(job: ProviderJob, tenant: Tenant) -> None:
    support = signed_in(scenes.staff(StaffRole.SUPPORT, "Sam Support"))
    assert support.get(url(job)).status_code == 403
    assert "Decide" not in words_of(support.get(f"/ops/batches/{job.batch.public_id}/"))
    assert signed_in(scenes.member(tenant.organisation)).get(url(job)).status_code == 404
    assert signed_in(scenes.staff(name="Ola Operator")).get("/ops/jobs/lh_none/decide/").status_code == 404
