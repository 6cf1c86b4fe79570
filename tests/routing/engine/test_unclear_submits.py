"""A submit without a clear answer at a provider that keeps no token: taken by its count, proven by its rows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anthropic
import psycopg
import pytest
from anthropic.types.messages.batch_create_params import Request
from django.db import connections

from accounts.models import StaffRole, User
from catalog.domain.records import Rotation
from catalog.models import Provider
from ground import clock
from ground.errors import InvalidRequest, NotFound
from ground.leases import LeaseLost
from routing.models import (
    Batch,
    BatchStatus,
    JobState,
    ProviderJob,
    SubLane,
    SubLaneState,
    UnclearChoice,
    UnclearDecision,
)
from routing.services import collect, dispatch
from routing.services.closing import cancel_batch
from routing.services.deciding import decide_unclear_job
from routing.services.provider_accounts import set_provider_account
from simulators.anthropic.running import running_simulator
from simulators.running import RunningSimulator
from tests.harness.laws import lines_of, result_lines
from tests.harness.world import do_due_steps
from tests.routing.engine.kit import STEPS, Engine, chat_file, claim_job
from tests.routing.engine.lanes import rotate

CLAUDE = "anthropic.claude-3-5-sonnet"
LANE = "anthropic-direct"


@pytest.fixture
def claude(engine: Engine, tmp_path: Path) -> Iterator[RunningSimulator]:
    """The stand-in Anthropic, which lists no token and no model, only how many rows a job has."""
    Provider.objects.filter(slug="anthropic").update(has_adapter=True)
    rotate("anthropic-bedrock-us-east-1", Rotation.OUT, model=CLAUDE)
    rotate(LANE, Rotation.IN, model=CLAUDE)
    speeds = {"rows_per_second": None, "starting_seconds": 0, "ending_seconds": 0, "canceling_seconds": 0}
    with running_simulator(tmp_path / "anthropic", **speeds) as simulator:
        simulator.control.freeze(engine.clock.now().timestamp())
        engine.others = (simulator,)
        use_anthropic(simulator)
        yield simulator


def use_anthropic(simulator: RunningSimulator) -> None:
    for kind in ("customer", "test"):
        set_provider_account(
            provider="anthropic",
            kind=kind,
            name=f"anthropic-{kind}",
            base_url=simulator.base_url,
            api_key=f"sk-ant-{kind}",
            at=clock.now(),
        )


def asked(*contents: str) -> bytes:
    return chat_file(*contents, model=CLAUDE)


def sent_without_an_answer(engine: Engine, claude: RunningSimulator, *contents: str, kind: str = "cut_after") -> Batch:
    """A batch whose job was sent, and nobody knows whether it arrived."""
    claude.control.add_fault(kind, operation="batches.create", times=1)
    batch = engine.accept(asked(*contents))
    while dispatch.start_next_sub_lane():
        pass
    while engine.job(batch).state == JobState.INTENDED:
        assert STEPS["submit"]()
    assert engine.job(batch).state == JobState.UNKNOWN
    return batch


def send_as_a_stranger(claude: RunningSimulator, count: int) -> str:
    """Let somebody else who has our key make a job; give its reference."""
    rows: list[Request] = [
        {
            "custom_id": f"theirs-{number}",
            "params": {
                "model": "claude-3-5-sonnet-20241022",
                "max_tokens": 5,
                "messages": [{"role": "user", "content": "Hello"}],
            },
        }
        for number in range(count)
    ]
    with anthropic.Anthropic(base_url=claude.base_url, api_key="sk-ant-customer", max_retries=0) as client:
        return client.messages.batches.create(requests=rows).id


def test_the_only_job_of_the_same_count_is_taken_and_proves_to_be_ours(
    engine: Engine, claude: RunningSimulator
) -> None:
    batch = engine.finish(sent_without_an_answer(engine, claude, "a", "b", "c"))
    assert (batch.status, batch.completed_count) == (BatchStatus.COMPLETED, 3)
    assert claude.control.call_count("batches.create") == 1


def test_a_job_whose_worker_died_before_sending_it_is_sent_without_asking_anybody(
    engine: Engine, claude: RunningSimulator
) -> None:
    batch = engine.accept(asked("a", "b"))
    while dispatch.start_next_sub_lane():
        pass
    job = engine.job(batch)
    # What a worker leaves that is killed while it encodes the rows.
    lease = claim_job()
    assert dispatch._take_room(lease, job)
    engine.pass_time(61)
    batch = engine.finish(batch)
    assert (batch.status, batch.completed_count) == (BatchStatus.COMPLETED, 2)
    assert claude.control.call_count("batches.create") == 1


def test_a_job_that_never_arrived_is_not_sent_twice_and_people_are_asked(
    engine: Engine, claude: RunningSimulator
) -> None:
    batch = sent_without_an_answer(engine, claude, "a", "b", kind="cut_before")
    engine.go_on(minutes=9)
    assert engine.standing(batch) == (SubLaneState.SUBMITTING, "")
    engine.go_on(minutes=3)
    assert engine.standing(batch) == (SubLaneState.SUBMITTING, "submit_is_unclear")
    job = engine.job(batch)
    assert job.state == JobState.UNKNOWN
    assert "0 jobs at the provider may be this one" in job.last_error
    assert claude.control.call_count("batches.create") == 1
    engine.pass_time((batch.expires_at - clock.now()).total_seconds())
    engine.finish(batch, minutes=20)
    assert (batch.status, batch.charge_micro_usd) == (BatchStatus.EXPIRED, 0)


def test_a_job_of_another_count_is_not_taken(engine: Engine, claude: RunningSimulator) -> None:
    claude.control.change_settings(rows_per_second=0)
    batch = sent_without_an_answer(engine, claude, "a", "b", kind="cut_before")
    send_as_a_stranger(claude, 3)
    engine.go_on(minutes=12)
    assert engine.job(batch).state == JobState.UNKNOWN


def test_a_job_that_another_of_ours_has_claimed_is_not_taken(engine: Engine, claude: RunningSimulator) -> None:
    claimed = engine.accept(asked("x", "y"))
    do_due_steps()
    batch = sent_without_an_answer(engine, claude, "a", "b", kind="cut_before")
    engine.go_on(minutes=12)
    claimed.refresh_from_db()
    assert claimed.completed_count == 2
    assert "0 jobs at the provider" in engine.job(batch).last_error


def test_two_that_may_be_ours_are_left_to_people(engine: Engine, claude: RunningSimulator) -> None:
    claude.control.change_settings(rows_per_second=0)
    batch = sent_without_an_answer(engine, claude, "a", "b")
    send_as_a_stranger(claude, 2)
    engine.go_on(minutes=12)
    job = engine.job(batch)
    assert (job.state, job.batch_ref) == (JobState.UNKNOWN, "")
    assert "2 jobs at the provider may be this one" in job.last_error


def test_two_of_ours_that_look_alike_are_not_exchanged(engine: Engine, claude: RunningSimulator) -> None:
    claude.control.add_fault("cut_after", operation="batches.create", times=2)
    batches = [engine.accept(asked("a", "b")), engine.accept(asked("c", "d"))]
    for _ in range(2):
        STEPS["start"]()
        STEPS["submit"]()
    engine.go_on(minutes=12)
    assert {engine.job(batch).batch_ref for batch in batches} == {""}
    assert {engine.standing(batch)[1] for batch in batches} == {"submit_is_unclear"}


def unclear(engine: Engine, claude: RunningSimulator, *contents: str, kind: str = "cut_before") -> ProviderJob:
    """The job of a batch of which people are asked whether it was sent."""
    batch = sent_without_an_answer(engine, claude, *contents, kind=kind)
    engine.go_on(minutes=12)
    job = engine.job(batch)
    assert job.unclear_since is not None
    return job


def test_one_of_long_ago_that_nobody_decided_hinders_no_new_one(engine: Engine, claude: RunningSimulator) -> None:
    old = unclear(engine, claude, "a", "b")
    engine.pass_time(3_600)
    batch = engine.finish(sent_without_an_answer(engine, claude, "c", "d"))
    assert (batch.status, batch.completed_count) == (BatchStatus.COMPLETED, 2)
    old.refresh_from_db()
    assert (old.state, old.candidates) == (JobState.UNKNOWN, [])


def test_what_people_send_again_is_sent_once_more(engine: Engine, claude: RunningSimulator) -> None:
    job = unclear(engine, claude, "a", "b")
    decide(job, UnclearChoice.SEND_AGAIN)
    batch = engine.finish(job.batch)
    assert (batch.status, batch.completed_count) == (BatchStatus.COMPLETED, 2)
    assert claude.control.call_count("batches.create") == 2


def test_what_people_adopt_is_proven_by_its_rows(engine: Engine, claude: RunningSimulator) -> None:
    claude.control.change_settings(rows_per_second=0)
    # A stranger's job of as many rows: two may be ours.
    batch = sent_without_an_answer(engine, claude, "a", "b")
    strange = send_as_a_stranger(claude, 2)
    engine.go_on(minutes=12)
    job = engine.job(batch)
    (ours,) = {candidate["batch_ref"] for candidate in job.candidates} - {strange}
    with pytest.raises(InvalidRequest, match="that may be this one"):
        decide(job, UnclearChoice.ADOPT, "msgbatch_of_nobody")
    decide(job, UnclearChoice.ADOPT, ours)
    claude.control.change_settings(rows_per_second=None)
    engine.finish(batch)
    assert (batch.completed_count, engine.job(batch).batch_ref) == (2, ours)
    assert claude.control.call_count("batches.create") == 2


def test_one_candidate_adopted_for_two_jobs_at_once_is_one_jobs_alone(engine: Engine, claude: RunningSimulator) -> None:
    claude.control.change_settings(rows_per_second=0)
    claude.control.add_fault("cut_after", operation="batches.create", times=2)
    batches = [engine.accept(asked("a", "b")), engine.accept(asked("c", "d"))]
    for _ in range(2):
        STEPS["start"]()
        STEPS["submit"]()
    engine.go_on(minutes=12)
    jobs = [engine.job(batch) for batch in batches]
    wanted = jobs[0].candidates[0]["batch_ref"]
    person()
    begun = threading.Barrier(2, timeout=30)

    def adopt(job: ProviderJob) -> str:
        try:
            begun.wait()
            decide(job, UnclearChoice.ADOPT, wanted)
        except InvalidRequest as error:
            return error.message
        finally:
            connections.close_all()
        return ""

    with ThreadPoolExecutor(2) as pool:
        said = sorted(pool.map(adopt, jobs))
    assert said == ["", "Another job of ours has been found to be this one."]
    assert ProviderJob.objects.filter(batch_ref=wanted).count() == 1


def test_rows_of_what_people_give_up_fail_where_no_other_lane_has_the_pin(
    engine: Engine, claude: RunningSimulator
) -> None:
    job = unclear(engine, claude, "a", "b")
    decide(job, UnclearChoice.GIVE_UP)
    batch = engine.finish(job.batch)
    # No other lane with this pin is in rotation, and nothing else of the batch was ever sent.
    assert (batch.status, batch.failed_count, batch.charge_micro_usd) == (BatchStatus.FAILED, 2, 0)
    assert {line["error"]["code"] for line in result_lines(batch)} == {"provider_error"}


def test_a_decision_is_made_once_with_a_reason(engine: Engine, claude: RunningSimulator) -> None:
    job = unclear(engine, claude, "a", "b")
    with pytest.raises(InvalidRequest, match="3 to 200 characters"):
        decide(job, UnclearChoice.GIVE_UP, reason=" x ")
    lease = claim_job()
    decide(job, UnclearChoice.SEND_AGAIN)
    with pytest.raises(InvalidRequest, match="any more"):
        decide(job, UnclearChoice.GIVE_UP)
    with pytest.raises(NotFound):
        decide_unclear_job(token="lh_none", choice=UnclearChoice.GIVE_UP, reason="Gone", user=person())
    # Who looked for it meanwhile has lost it.
    with pytest.raises(LeaseLost):
        lease.renew()
    (decision,) = UnclearDecision.objects.all()
    assert (decision.choice, decision.reason, decision.decided_by.name) == ("send_again", "Seen there", "Olu Operator")


@pytest.mark.parametrize(
    "change", ["UPDATE routing_uncleardecision SET reason = 'x'", "DELETE FROM routing_uncleardecision"]
)
def test_decisions_are_only_added_to(
    engine: Engine, claude: RunningSimulator, owner_cursor: psycopg.Cursor, app_cursor: psycopg.Cursor, change: str
) -> None:
    decide(unclear(engine, claude, "a"), UnclearChoice.SEND_AGAIN)
    with pytest.raises(psycopg.errors.RestrictViolation):
        owner_cursor.execute(change)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        app_cursor.execute(change)


def test_a_cancelled_batch_asks_nobody_for_long(engine: Engine, claude: RunningSimulator) -> None:
    job = unclear(engine, claude, "a", "b")
    cancel_batch(organisation=job.batch.organisation, public_id=job.batch.public_id)
    engine.go_on(minutes=14)
    assert engine.job(job.batch).state == JobState.UNKNOWN
    batch = engine.finish(job.batch, minutes=5)
    assert (batch.status, batch.charge_micro_usd) == (BatchStatus.CANCELLED, 0)


def person() -> User:
    return User.objects.filter(name="Olu Operator").first() or User.objects.create_user(
        email="olu@lanehouse.example", name="Olu Operator", staff_role=StaffRole.OPERATOR, created_at=clock.now()
    )


def decide(job: ProviderJob, choice: UnclearChoice, batch_ref: str = "", reason: str = "Seen there") -> None:
    decide_unclear_job(token=job.token, choice=choice, reason=reason, user=person(), batch_ref=batch_ref)


def test_results_of_another_job_are_never_ours_and_the_right_one_is_looked_for(
    engine: Engine, claude: RunningSimulator
) -> None:
    claude.control.change_settings(rows_per_second=0)
    batch = sent_without_an_answer(engine, claude, "a", "b", kind="cut_before")
    strange = send_as_a_stranger(claude, 2)
    engine.go_on(minutes=2)
    assert (engine.job(batch).state, engine.job(batch).batch_ref) == (JobState.RUNNING, strange)
    claude.control.change_settings(rows_per_second=None)
    engine.go_on(minutes=12)
    job = engine.job(batch)
    assert (job.state, job.batch_ref, job.disproved_batch_refs) == (JobState.UNKNOWN, "", [strange])
    assert engine.standing(batch) == (SubLaneState.SUBMITTING, "submit_is_unclear")
    batch.refresh_from_db()
    assert (batch.completed_count, batch.failed_count) == (0, 0)
    engine.pass_time((batch.expires_at - clock.now()).total_seconds())
    engine.finish(batch, minutes=20)
    assert {line["response"] for line in result_lines(batch)} == {None}
    assert lines_of(batch.output_file) == []


def test_a_wrong_one_gives_way_to_the_right_one(engine: Engine, claude: RunningSimulator) -> None:
    claude.control.change_settings(rows_per_second=0)
    batch = sent_without_an_answer(engine, claude, "a", "b")
    right = send_as_a_stranger(claude, 2)
    job = engine.job(batch)
    ProviderJob.objects.filter(pk=job.pk).update(
        state=JobState.RUNNING, batch_ref=right, submitted_at=clock.now(), due_at=clock.now()
    )
    claude.control.change_settings(rows_per_second=None)
    engine.finish(batch)
    assert (batch.completed_count, engine.job(batch).disproved_batch_refs) == (2, [right])
    assert claude.control.call_count("batches.create") == 2


def test_one_foreign_line_among_ours_proves_nothing(engine: Engine, claude: RunningSimulator) -> None:
    claude.control.add_fault("row_foreign", custom_id="*r0")
    batch = engine.accept(asked("a", "b"))
    engine.finish(batch)
    assert (batch.completed_count, engine.job(batch).foreign_count) == (2, 1)
    assert collect.collect_next_job() is False
    assert SubLane.objects.get(batch=batch).state == SubLaneState.COMPLETED
