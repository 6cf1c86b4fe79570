"""Submitting: an intent first, and never twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from django.core.files.storage import default_storage

from ground import clock
from ground.errors import ProviderError
from ground.leases import LeaseLost
from routing.domain.row_lists import unpack_rows
from routing.models import Batch, BatchStatus, JobState, ProviderAccount, ProviderJob, SubLaneState
from routing.payloads import open_payload, payload_name, store_payload
from routing.providers.base import Fault, Submission, SubmittedJob
from routing.services import dispatch
from routing.services.provider_accounts import longest_submit_seconds
from tests.harness.laws import result_lines
from tests.harness.world import use_simulator
from tests.routing.engine.kit import STEPS, Engine, claim_job, questions

CALLS = ("files.create", "batches.create", "batches.retrieve", "files.content")


class Killed(BaseException):
    """The process is killed here."""


class StubbornProvider:
    """Stands where an adapter stands, for what no simulator can do."""

    def __init__(self, *, kills_after_sending: bool = False, refused_rows: tuple[int, ...] = ()) -> None:
        self._kills = kills_after_sending
        self._refused = refused_rows
        self.submissions: list[list[bytes]] = []

    def encode_row(self, *, row_key: str, **_: Any) -> bytes:
        if any(row_key.endswith(f"r{row}") for row in self._refused):
            raise ProviderError("This provider has no such thing.", code=Fault.REFUSED, permanent=True)
        return f"{row_key}\n".encode()

    def splice_rows(self, *, lines: Sequence[bytes], **_: Any) -> Sequence[bytes | None]:
        return [None] * len(lines)

    def submit(self, submission: Submission) -> SubmittedJob:
        lines = b"".join(submission.lines()).splitlines(keepends=True)
        self.submissions.append(lines)
        if self._kills:
            raise Killed
        return SubmittedJob(batch_ref="never", input_ref=None)


def submit_by(provider: Any) -> None:
    """Do the submitting step with another provider than the account's."""
    lease = claim_job()
    job = ProviderJob.objects.select_related("batch", "sub_lane__batch", "account").get(pk=lease.row_id)
    assert dispatch._take_room(lease, job)
    with open_payload(job.batch.quote_id) as payload:
        dispatch._submit(lease, job, payload, provider)


def send_again(batch: Batch, state: JobState) -> None:
    """Put a running job back, as no step of ours does."""
    ProviderJob.objects.filter(batch=batch).update(state=state, batch_ref="", submitted_at=None, due_at=clock.now())


def test_an_intent_is_recorded_before_anything_is_sent(engine: Engine) -> None:
    batch = engine.accept(questions(3))
    dispatch.start_next_sub_lane()
    job = engine.job(batch)
    assert (job.state, job.row_count, job.batch_ref) == (JobState.INTENDED, 3, "")
    assert engine.standing(batch) == (SubLaneState.SUBMITTING, "")
    assert engine.calls("files.create") == 0
    engine.finish(batch)


def test_a_sub_lane_shows_how_far_its_job_is(engine: Engine) -> None:
    engine.simulator.control.change_settings(rows_per_second=1, validation_seconds=10)
    batch = engine.accept(questions(120))
    seen = []
    for name in ("start", "submit", "poll", "poll"):
        STEPS[name]()
        seen.append(engine.standing(batch)[0])
        engine.pass_time(30)
    assert seen == ["submitting", "submitted", "running", "running"]
    assert engine.sub_lane(batch).reported_count == 50
    engine.finish(batch)


@pytest.mark.parametrize("kind", ["cut_after", "html_page"])
def test_an_unclear_answer_is_cleared_by_the_list_and_nothing_is_sent_twice(engine: Engine, kind: str) -> None:
    engine.fault("batches.create", kind)
    batch = engine.accept(questions(4))
    dispatch.start_next_sub_lane()
    dispatch.submit_next_job()
    assert engine.job(batch).state == JobState.UNKNOWN
    engine.finish(batch)
    made = engine.calls("batches.create")
    # The page came before the call had any effect, so the list stayed empty and the job went once more.
    assert made == (1 if kind == "cut_after" else 2)


def test_a_job_cut_before_it_arrived_goes_again_only_when_no_call_can_be_under_way(engine: Engine) -> None:
    engine.fault("batches.create", "cut_before")
    batch = engine.accept(questions(4))
    dispatch.start_next_sub_lane()
    dispatch.submit_next_job()
    settles_at = engine.job(batch).submitting_at
    assert settles_at is not None
    waited = 0
    while engine.job(batch).state == JobState.UNKNOWN:
        assert engine.calls("batches.create") == 1
        engine.pass_time(5)
        waited += 5
        dispatch.submit_next_job()
    assert waited >= longest_submit_seconds(0)
    assert engine.job(batch).state == JobState.INTENDED
    engine.finish(batch)
    assert engine.calls("batches.create") == 2


def test_an_incomplete_list_is_no_absence(engine: Engine) -> None:
    engine.fault("batches.create", "cut_before")
    engine.fault("batches.list", "http_error", status_code=500, times=8)
    batch = engine.accept(questions(2))
    engine.go_on(minutes=4)
    assert engine.job(batch).state == JobState.UNKNOWN
    assert engine.calls("batches.create") == 1
    engine.finish(batch)


def test_a_worker_killed_after_sending_is_found_out_by_the_list(engine: Engine) -> None:
    batch = engine.accept(questions(3))
    dispatch.start_next_sub_lane()
    with pytest.raises(Killed):
        submit_by(StubbornProvider(kills_after_sending=True))
    job = engine.job(batch)
    assert (job.state, job.try_count) == (JobState.SUBMITTING, 1)
    assert not dispatch.submit_next_job()
    # It was another provider that was killed with it: this one has no trace of the job.
    engine.finish(batch)
    assert engine.calls("batches.create") == 1


def test_a_job_that_arrived_before_its_worker_was_killed_is_taken_up(engine: Engine) -> None:
    batch = engine.accept(questions(3))
    dispatch.start_next_sub_lane()
    dispatch.submit_next_job()
    ProviderJob.objects.filter(batch=batch).update(
        state=JobState.SUBMITTING, batch_ref="", submitted_at=None, lease_until=engine.clock.now()
    )
    engine.finish(batch)
    assert engine.calls("batches.create") == 1


def test_a_token_that_stands_twice_in_the_list_runs_once_for_us(engine: Engine) -> None:
    engine.simulator.control.change_settings(rows_per_second=1)
    batch = engine.accept(questions(3))
    dispatch.start_next_sub_lane()
    dispatch.submit_next_job()
    sent_first = engine.job(batch).batch_ref
    send_again(batch, JobState.INTENDED)
    engine.pass_time(1)
    dispatch.submit_next_job()
    send_again(batch, JobState.UNKNOWN)
    dispatch.submit_next_job()
    assert engine.job(batch).batch_ref == sent_first
    assert engine.calls("batches.create") == 2
    assert engine.calls("batches.cancel") == 1
    engine.finish(batch)


@pytest.mark.parametrize("operation", CALLS)
@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "http_error", "status_code": 429, "retry_after_seconds": 7},
        {"kind": "http_error", "status_code": 500},
        {"kind": "html_page"},
        {"kind": "cut_before"},
        {"kind": "cut_after"},
    ],
    ids=lambda fault: f"{fault['kind']}-{fault.get('status_code', '')}",
)
def test_a_call_that_fails_twice_costs_only_time(engine: Engine, operation: str, fault: dict[str, Any]) -> None:
    engine.fault(operation, times=2, **fault)
    batch = engine.finish(engine.accept(questions(5)))
    assert batch.status == BatchStatus.COMPLETED
    assert batch.completed_count == 5


def test_the_wait_a_provider_asks_for_is_kept(engine: Engine) -> None:
    engine.fault("batches.create", "http_error", status_code=429, retry_after_seconds=600)
    batch = engine.accept(questions(2))
    engine.go_on(minutes=9)
    assert engine.calls("batches.create") == 1
    assert engine.standing(batch) == (SubLaneState.WAITING, "provider_rate_limited")
    engine.finish(batch)
    assert engine.calls("batches.create") == 2


def test_an_hour_without_the_provider_ends_in_the_same_results(engine: Engine) -> None:
    undisturbed = engine.finish(engine.accept(questions(6)))
    engine.simulator.control.add_fault("cut_before")
    batch = engine.accept(questions(6))
    engine.go_on(minutes=60)
    engine.simulator.control.clear_faults()
    engine.finish(batch)
    contents = [[line["response"]["body"]["choices"] for line in result_lines(each)] for each in (undisturbed, batch)]
    assert contents[0] == contents[1]
    assert batch.charge_micro_usd == undisturbed.charge_micro_usd


def test_a_submit_that_is_refused_for_good_fails_the_batch_and_charges_nothing(engine: Engine) -> None:
    engine.fault("batches.create", "http_error", status_code=400)
    batch = engine.finish(engine.accept(questions(3)))
    assert (batch.status, batch.charge_micro_usd, batch.failed_count) == (BatchStatus.FAILED, 0, 3)
    assert batch.failed_at is not None
    assert batch.completed_at is None
    assert engine.standing(batch) == (SubLaneState.FAILED, "")
    assert {line["error"]["code"] for line in result_lines(batch)} == {"provider_error"}


def test_a_row_that_cannot_be_sent_is_set_apart_and_the_others_go(engine: Engine) -> None:
    batch = engine.accept(questions(5))
    dispatch.start_next_sub_lane()
    provider = StubbornProvider(refused_rows=(1, 3))
    submit_by(provider)
    assert provider.submissions == []
    jobs = engine.jobs(batch)
    assert [unpack_rows(job.rows).tolist() for job in jobs] == [[0, 2, 4], [1, 3]]
    assert [job.state for job in jobs] == [JobState.INTENDED, JobState.ENDED]
    engine.finish(batch)
    assert (batch.status, batch.completed_count, batch.failed_count) == (BatchStatus.COMPLETED, 3, 2)


def test_a_file_of_which_no_row_can_be_sent_ends_failed(engine: Engine) -> None:
    batch = engine.accept(questions(2))
    dispatch.start_next_sub_lane()
    submit_by(StubbornProvider(refused_rows=(0, 1)))
    assert engine.finish(batch).status == BatchStatus.FAILED


def test_a_worker_that_lost_its_lease_while_encoding_sends_nothing(engine: Engine) -> None:
    batch = engine.accept(questions(3))
    dispatch.start_next_sub_lane()

    class Paused(StubbornProvider):
        def submit(self, submission: Submission) -> SubmittedJob:
            lines: Iterator[bytes] = submission.lines()
            next(lines)
            engine.pass_time(61)
            assert dispatch.submit_next_job()
            self.submissions.append(list(lines))
            raise AssertionError("not reached")

    paused = Paused()
    with pytest.raises(LeaseLost):
        submit_by(paused)
    assert paused.submissions == []
    engine.finish(batch)
    assert engine.calls("batches.create") == 1


def test_a_missing_payload_is_waited_for_and_said(engine: Engine) -> None:
    batch = engine.accept(questions(2))
    name = payload_name(batch.quote_id)
    with default_storage.open(name) as blob:
        body = blob.read()
    default_storage.delete(name)
    dispatch.start_next_sub_lane()
    assert engine.standing(batch) == (SubLaneState.WAITING, "payload_missing")
    store_payload(batch.quote_id, body)
    engine.finish(batch)


def test_a_provider_without_an_account_is_waited_for_and_said(engine: Engine) -> None:
    ProviderAccount.objects.all().delete()
    batch = engine.accept(questions(2))
    dispatch.start_next_sub_lane()
    assert engine.standing(batch) == (SubLaneState.WAITING, "no_provider_account")
    use_simulator(engine.simulator.base_url)
    engine.finish(batch)
