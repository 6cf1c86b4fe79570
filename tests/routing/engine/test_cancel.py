"""Cancelling: nothing more is sent, what finished is kept, delivered and charged."""

from __future__ import annotations

from decimal import Decimal

import pytest

from billing.domain.records import HoldState
from billing.models import Hold, Receipt
from catalog.domain.records import Rotation
from ground.errors import InvalidRequest, NotFound
from ground.leases import LeaseLost, claim
from routing.models import Batch, BatchStatus, JobState, ProviderAccount, ProviderJob, SubLaneState
from routing.payloads import open_payload
from routing.services import dispatch
from routing.services.closing import cancel_batch
from routing.services.provider_accounts import opened
from tests.harness.laws import outcomes_of, result_lines
from tests.harness.world import do_due_steps, make_tenant
from tests.routing.engine.kit import STEPS, Engine, all_at_once, claim_job, questions
from tests.routing.engine.lanes import FIRST, SECOND, add_lane, counts_of, lanes_of, rotate


def cancel(engine: Engine, batch: Batch) -> Batch:
    return cancel_batch(organisation=engine.tenant.organisation, public_id=batch.public_id)


def do(*names: str) -> None:
    for name in names:
        assert STEPS[name]()


def assert_cancelled_without_a_charge(engine: Engine, batch: Batch) -> None:
    engine.finish(batch)
    assert (batch.status, batch.charge_micro_usd, batch.completed_count) == (BatchStatus.CANCELLED, 0, 0)
    assert {(outcome.outcome, outcome.code) for outcome in outcomes_of(batch)} == {("cancelled", "batch_cancelled")}
    assert {lane.state for lane in lanes_of(batch).values()} == {SubLaneState.CANCELLED}
    assert Hold.objects.get(batch_public_id=batch.public_id).state == HoldState.SETTLED
    assert Receipt.objects.get(batch_public_id=batch.public_id).total_micro_usd == 0
    assert batch.output_file is None
    assert batch.cancelled_at is not None


def test_a_queued_batch_ends_without_anything_being_sent(engine: Engine) -> None:
    batch = engine.accept(questions(3))
    assert cancel(engine, batch).status == BatchStatus.CANCELLING
    assert_cancelled_without_a_charge(engine, batch)
    assert engine.calls("files.create") == 0


def test_an_intended_job_is_not_sent(engine: Engine) -> None:
    batch = engine.accept(questions(3))
    do("start")
    cancel(engine, batch)
    # Whichever comes first, the sending or the ending.
    do("submit")
    assert engine.job(batch).state == JobState.ENDED
    assert_cancelled_without_a_charge(engine, batch)
    assert engine.calls("files.create") == 0


def test_a_batch_that_waits_for_a_lane_ends(engine: Engine) -> None:
    batch = engine.accept(questions(3))
    rotate(FIRST, Rotation.OUT)
    engine.go_on(minutes=3)
    assert engine.standing(batch)[0] == SubLaneState.WAITING
    cancel(engine, batch)
    assert_cancelled_without_a_charge(engine, batch)


def test_a_batch_that_waits_for_an_account_ends(engine: Engine) -> None:
    ProviderAccount.objects.filter(provider="openai").update(provider="anthropic")
    batch = engine.accept(questions(3))
    engine.go_on(minutes=3)
    assert engine.standing(batch) == (SubLaneState.WAITING, "no_provider_account")
    cancel(engine, batch)
    assert_cancelled_without_a_charge(engine, batch)


def test_what_runs_is_cancelled_at_its_provider_and_what_finished_is_charged(engine: Engine) -> None:
    engine.simulator.control.change_settings(rows_per_second=1)
    batch = engine.accept(questions(50))
    do("start", "submit")
    engine.pass_time(20)
    cancel(engine, batch)
    engine.finish(batch, step_seconds=2)
    assert engine.calls("batches.cancel") == 1
    assert batch.status == BatchStatus.CANCELLED
    assert 0 < batch.completed_count < 50
    assert batch.completed_count + batch.failed_count == 50
    codes = [line["error"] and line["error"]["code"] for line in result_lines(batch)]
    assert (codes.count(None), codes.count("batch_cancelled")) == (batch.completed_count, batch.failed_count)
    usages = [line["response"]["body"]["usage"] for line in result_lines(batch) if line["error"] is None]
    totals = [
        (sum(usage["prompt_tokens"] for usage in usages), 75_000),
        (sum(usage["completion_tokens"] for usage in usages), 300_000),
    ]
    amounts = [int((Decimal(tokens * rate) / 1_000_000).quantize(Decimal(1))) for tokens, rate in totals]
    assert batch.charge_micro_usd == sum(amounts) + 20_000
    assert lanes_of(batch)[FIRST].state == SubLaneState.CANCELLED


def test_a_cancel_the_provider_did_not_hear_is_asked_again_and_one_it_heard_is_not(engine: Engine) -> None:
    engine.simulator.control.change_settings(rows_per_second=1, cancelling_seconds=120)
    engine.fault("batches.cancel", "http_error", status_code=500, times=2)
    batch = engine.accept(questions(500))
    do("start", "submit")
    cancel(engine, batch)
    engine.finish(batch, step_seconds=3)
    assert engine.calls("batches.cancel") == 3
    assert batch.status == BatchStatus.CANCELLED


def test_a_job_whose_sending_was_unclear_is_found_and_cancelled(engine: Engine) -> None:
    engine.simulator.control.change_settings(rows_per_second=1)
    engine.fault("batches.create", "cut_after")
    batch = engine.accept(questions(500))
    do("start", "submit")
    assert engine.job(batch).state == JobState.UNKNOWN
    cancel(engine, batch)
    engine.finish(batch, step_seconds=3)
    assert (batch.status, engine.calls("batches.create"), engine.calls("batches.cancel")) == ("cancelled", 1, 1)


def test_a_job_that_never_arrived_is_not_sent_after_all(engine: Engine) -> None:
    engine.fault("batches.create", "cut_before")
    batch = engine.accept(questions(5))
    do("start", "submit")
    cancel(engine, batch)
    assert_cancelled_without_a_charge(engine, batch)
    assert engine.calls("batches.create") == 1


def test_a_worker_about_to_send_finds_that_the_job_was_ended(engine: Engine) -> None:
    batch = engine.accept(questions(5))
    do("start")
    lease = claim_job()
    job = ProviderJob.objects.select_related("batch", "sub_lane__batch", "account").get(pk=lease.row_id)
    cancel(engine, batch)
    do("finish")
    with pytest.raises(LeaseLost):
        dispatch._take_room(lease, job)
    assert_cancelled_without_a_charge(engine, batch)


def test_a_worker_in_the_midst_of_sending_sends_and_the_job_is_cancelled(engine: Engine) -> None:
    engine.simulator.control.change_settings(rows_per_second=1)
    batch = engine.accept(questions(500))
    do("start")
    lease = claim_job()
    job = ProviderJob.objects.select_related("batch", "sub_lane__batch", "account").get(pk=lease.row_id)
    assert dispatch._take_room(lease, job)
    cancel(engine, batch)
    do("finish")
    with open_payload(batch.quote_id) as payload, opened(job.account) as provider:
        dispatch._submit(lease, job, payload, provider)
    assert engine.job(batch).state == JobState.RUNNING
    engine.finish(batch, step_seconds=3)
    assert (batch.status, engine.calls("batches.cancel")) == (BatchStatus.CANCELLED, 1)


def test_results_that_are_there_already_are_collected_and_charged(engine: Engine) -> None:
    batch = engine.accept(questions(4))
    do("start", "submit", "poll")
    assert engine.job(batch).state == JobState.ENDED
    cancel(engine, batch)
    engine.finish(batch)
    assert (batch.status, batch.completed_count) == (BatchStatus.CANCELLED, 4)
    assert lanes_of(batch)[FIRST].state == SubLaneState.COMPLETED
    assert (batch.charge_micro_usd or 0) > 20_000
    assert engine.calls("batches.cancel") == 0


def test_failed_rows_of_a_cancelled_batch_do_not_move(engine: Engine) -> None:
    add_lane()
    engine.simulator.control.add_fault("expire_batch", after_rows=1, times=1)
    batch = engine.accept(questions(3))
    do("start", "submit", "poll")
    cancel(engine, batch)
    engine.finish(batch)
    assert counts_of(batch) == {FIRST: (3, 1, 2, 0, 0)}


def test_rows_that_moved_just_before_the_cancel_are_ended_on_their_new_lane(engine: Engine) -> None:
    add_lane()
    engine.simulator.control.add_fault("expire_batch", after_rows=1, times=1)
    batch = engine.accept(questions(3))
    do("start", "submit", "poll", "collect")
    cancel(engine, batch)
    engine.finish(batch)
    assert counts_of(batch) == {FIRST: (1, 1, 0, 2, 0), SECOND: (2, 0, 2, 0, 2)}
    assert {lane_id: lane.state for lane_id, lane in lanes_of(batch).items()} == {
        FIRST: SubLaneState.COMPLETED,
        SECOND: SubLaneState.CANCELLED,
    }


def test_a_cancel_at_the_same_time_as_a_collect_loses_nothing(engine: Engine) -> None:
    add_lane()
    engine.simulator.control.add_fault("expire_batch", after_rows=1, times=1)
    batch = engine.accept(questions(3))
    do("start", "submit", "poll")
    all_at_once(STEPS["collect"], lambda: cancel(engine, batch), STEPS["finish"])
    engine.finish(batch)
    assert batch.status == BatchStatus.CANCELLED


def test_a_batch_that_is_being_stitched_is_left_to_finish(engine: Engine) -> None:
    batch = engine.accept(questions(2))
    do("start", "submit", "poll", "collect")
    assert cancel(engine, batch).status == BatchStatus.IN_PROGRESS
    Batch.objects.filter(pk=batch.pk).update(status=BatchStatus.FINALIZING)
    assert cancel(engine, batch).status == BatchStatus.FINALIZING
    assert engine.finish(batch).status == BatchStatus.COMPLETED


def test_asking_twice_changes_nothing(engine: Engine) -> None:
    batch = engine.accept(questions(2))
    first = cancel(engine, batch)
    engine.pass_time(1)
    second = cancel(engine, batch)
    assert (second.status, second.cancelling_at) == (BatchStatus.CANCELLING, first.cancelling_at)
    engine.finish(batch)


def test_a_batch_that_has_ended_cannot_be_cancelled(engine: Engine) -> None:
    batch = engine.finish(engine.accept(questions(2)))
    with pytest.raises(InvalidRequest, match="it is completed"):
        cancel(engine, batch)
    cancelled = engine.accept(questions(2))
    cancel(engine, cancelled)
    engine.finish(cancelled)
    with pytest.raises(InvalidRequest, match="it is cancelled"):
        cancel(engine, cancelled)


def test_another_organisation_s_batch_is_not_there(engine: Engine) -> None:
    batch = engine.accept(questions(2))
    with pytest.raises(NotFound):
        cancel_batch(organisation=make_tenant("globex").organisation, public_id=batch.public_id)
    batch.refresh_from_db()
    assert batch.status == BatchStatus.IN_PROGRESS
    assert do_due_steps() > 0
    assert claim(Batch, state_field="status", states=(BatchStatus.CANCELLING,)) is None
