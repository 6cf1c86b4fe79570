"""Reading results: whatever a provider writes, each row ends once and is charged what it used."""

from __future__ import annotations

from decimal import Decimal

import pytest

from billing.models import AttemptFact, Receipt
from ground.blobs import delete_blob
from ground.leases import LeaseLost, claim
from routing.models import BatchStatus, JobState, ProviderJob, SubLaneState
from routing.services import collect
from routing.services.outcomes import conclude_job
from tests.harness.laws import lines_of, outcomes_of, result_lines
from tests.harness.world import do_due_steps
from tests.routing.engine.kit import STEPS, Engine, chat_file, questions


def test_results_that_come_in_any_order_are_given_in_the_order_of_the_input(engine: Engine) -> None:
    assert engine.simulator.control.settings()["shuffle_results"] is True
    batch = engine.finish(engine.accept(questions(40)))
    offsets = [outcome.body_offset for outcome in outcomes_of(batch)]
    # In the blob they lie in the order of the rows already, however they came.
    assert offsets == sorted(offsets)
    assert [line["custom_id"] for line in result_lines(batch)] == [f"row-{number}" for number in range(40)]


def test_odd_lines_are_counted_and_no_row_is_lost_or_doubled(engine: Engine) -> None:
    engine.row_fault(1, "row_duplicated")
    engine.row_fault(2, "row_foreign")
    engine.row_fault(3, "row_missing")
    engine.row_fault(4, "row_foreign", message="")
    batch = engine.finish(engine.accept(questions(6)))
    job = engine.job(batch)
    assert (job.duplicate_count, job.foreign_count, job.missing_count) == (1, 2, 1)
    outcomes = outcomes_of(batch)
    assert [outcome.code for outcome in outcomes] == ["", "", "", "result_missing", "", ""]
    assert result_lines(batch)[3]["error"]["code"] == "result_missing"
    assert result_lines(batch)[3]["response"] is None


def test_a_row_of_the_provider_with_our_token_but_not_of_the_job_is_foreign(engine: Engine) -> None:
    batch = engine.accept(questions(3))
    for name in ("start", "submit"):
        STEPS[name]()
    token = engine.job(batch).token
    engine.row_fault(0, "row_foreign", message=f"{token}r77")
    engine.row_fault(1, "row_foreign", message=f"{token}r0")
    engine.finish(batch)
    job = engine.job(batch)
    # Row 77 is none of the file; row 0 came a second time, or first, and counts once.
    assert (job.foreign_count, job.duplicate_count) == (1, 1)


def test_refused_rows_end_with_a_stable_code_and_cost_nothing(engine: Engine) -> None:
    contents = ["Hello", "[[sim:fail]]", "[[sim:context_length]]", "[[sim:content_filter]]"]
    batch = engine.finish(engine.accept(chat_file(*contents)))
    codes = [outcome.code for outcome in outcomes_of(batch)]
    assert codes == ["", "provider_error", "context_length_exceeded", "content_filtered"]
    assert [outcome.charge_pico_usd > 0 for outcome in outcomes_of(batch)] == [True, False, False, False]
    assert len(lines_of(batch.output_file)) == 1
    assert len(lines_of(batch.error_file)) == 3


def test_a_batch_of_which_every_row_failed_is_completed_and_costs_nothing(engine: Engine) -> None:
    batch = engine.finish(engine.accept(chat_file(*["[[sim:fail]]"] * 4)))
    assert (batch.status, batch.charge_micro_usd) == (BatchStatus.COMPLETED, 0)
    assert (batch.completed_count, batch.failed_count) == (0, 4)
    assert batch.output_file is None
    receipt = Receipt.objects.get(batch_public_id=batch.public_id)
    assert (receipt.fee_micro_usd, receipt.line_count) == (0, 0)


def test_a_row_without_an_answer_is_the_providers_failure(engine: Engine) -> None:
    engine.row_fault(1, "row_unrun")
    batch = engine.finish(engine.accept(questions(3)))
    assert [outcome.code for outcome in outcomes_of(batch)] == ["", "provider_error", ""]


@pytest.mark.parametrize(("cached", "reasoning"), [(3, 2), (10_000, 0), (0, 10_000)])
def test_tokens_are_counted_once_however_they_are_told(engine: Engine, cached: int, reasoning: int) -> None:
    engine.row_fault(0, "row_usage", cached_tokens=cached, reasoning_tokens=reasoning)
    batch = engine.finish(engine.accept(questions(2)))
    usage = result_lines(batch)[0]["response"]["body"]["usage"]
    told_cached = usage["prompt_tokens_details"]["cached_tokens"]
    outcome = outcomes_of(batch)[0]
    assert outcome.cached_input_tokens == min(told_cached, usage["prompt_tokens"])
    assert outcome.input_tokens + outcome.cached_input_tokens == usage["prompt_tokens"]
    assert outcome.output_tokens == usage["completion_tokens"]
    assert outcome.reasoning_tokens <= outcome.output_tokens


def test_the_charge_is_the_tokens_at_the_quoted_rates_worked_out_by_hand(engine: Engine) -> None:
    engine.row_fault(1, "row_usage", cached_tokens=4)
    batch = engine.finish(engine.accept(questions(3)))
    usages = [line["response"]["body"]["usage"] for line in result_lines(batch)]
    prompt = sum(usage["prompt_tokens"] for usage in usages)
    cached = sum(usage["prompt_tokens_details"]["cached_tokens"] for usage in usages)
    output = sum(usage["completion_tokens"] for usage in usages)
    assert cached == 4
    # Micro-USD per Mtok of gpt-4o-mini: 75,000 in, 37,500 cached, 300,000 out; one rounding a line, half to even.
    lines = [(prompt - cached, 75_000), (cached, 37_500), (output, 300_000)]
    amounts = [int((Decimal(tokens * rate) / 1_000_000).quantize(Decimal(1))) for tokens, rate in lines]
    assert batch.charge_micro_usd == sum(amounts) + 20_000
    cost_pico_usd = sum(AttemptFact.objects.values_list("cost_pico_usd", flat=True))
    assert cost_pico_usd == sum(tokens * rate for tokens, rate in lines), "house and customer pay equal rates here"
    assert (batch.input_tokens, batch.cached_input_tokens, batch.output_tokens) == (prompt, cached, output)


@pytest.mark.parametrize(
    "fault",
    [{"kind": "http_error", "status_code": 404}, {"kind": "cut_midway"}, {"kind": "cut_midway", "after_bytes": 1}],
)
def test_results_that_cannot_be_read_to_their_end_are_read_again(engine: Engine, fault: dict[str, object]) -> None:
    kind = str(fault.pop("kind"))
    engine.fault("files.content", kind, **fault)
    batch = engine.finish(engine.accept(questions(30)))
    assert batch.completed_count == 30
    assert engine.calls("files.content") == 2


def test_a_second_file_that_fails_makes_both_be_read_again(engine: Engine) -> None:
    batch = engine.accept(chat_file("Hello", "[[sim:fail]]"))
    for name in ("start", "submit", "poll"):
        STEPS[name]()
    engine.fault("files.content", "slow", delay_seconds=0.0)
    engine.fault("files.content", "http_error", status_code=500)
    collect.collect_next_job()
    assert engine.job(batch).state == JobState.ENDED
    assert not outcomes_of(batch)
    engine.finish(batch)
    assert (batch.completed_count, batch.failed_count) == (1, 1)


def test_a_job_that_expired_at_the_provider_keeps_what_it_did(engine: Engine) -> None:
    engine.simulator.control.add_fault("expire_batch", after_rows=2, times=1)
    batch = engine.finish(engine.accept(questions(5)))
    assert (batch.status, batch.completed_count, batch.failed_count) == (BatchStatus.COMPLETED, 2, 3)
    assert sorted(outcome.code for outcome in outcomes_of(batch)) == ["", "", *["batch_expired"] * 3]
    assert engine.job(batch).ending == "expired"


def test_a_model_that_is_gone_at_the_provider_is_named_as_the_reason(engine: Engine) -> None:
    batch = engine.accept(questions(2))
    engine.simulator.control.change_settings(unknown_models=[engine.sub_lane(batch).model_id])
    engine.finish(batch)
    assert {outcome.code for outcome in outcomes_of(batch)} == {"model.deprecated_post_quote"}
    assert batch.charge_micro_usd == 0


def test_what_a_provider_should_not_have_written_is_said_aloud(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    engine.row_fault(0, "row_duplicated")
    engine.row_fault(1, "row_usage", cached_tokens=10_000)
    engine.finish(engine.accept(questions(3)))
    told = [record.getMessage() for record in caplog.records if "odd lines" in record.getMessage()]
    assert len(told) == 1
    assert "1 duplicate" in told[0]


def test_one_not_found_is_not_believed(engine: Engine) -> None:
    engine.fault("batches.retrieve", "http_error", status_code=404, times=2)
    batch = engine.finish(engine.accept(questions(2)))
    assert batch.completed_count == 2


def test_a_job_that_stays_unknown_to_its_provider_has_ended(engine: Engine) -> None:
    engine.simulator.control.add_fault("http_error", operation="batches.retrieve", status_code=404)
    batch = engine.finish(engine.accept(questions(2)))
    assert (batch.status, batch.failed_count) == (BatchStatus.COMPLETED, 2)
    assert {outcome.code for outcome in outcomes_of(batch)} == {"provider_error"}


def test_progress_never_goes_back_and_never_beyond_the_rows(engine: Engine) -> None:
    engine.limit_lane(maximum_rows_per_job=20)
    engine.simulator.control.change_settings(rows_per_second=1, validation_seconds=3)
    batch = engine.accept(questions(50))
    seen = []
    for _ in range(12):
        do_due_steps()
        engine.pass_time(5)
        seen.append(engine.sub_lane(batch).reported_count)
    assert seen == sorted(seen)
    assert 0 < seen[3] < 50
    assert max(seen) <= 50
    engine.finish(batch)


def test_an_instant_that_cannot_be_is_replaced_by_ours(engine: Engine) -> None:
    engine.simulator.control.advance(-40 * 86_400)
    batch = engine.finish(engine.accept(questions(2)))
    completed_at = engine.job(batch).completed_at
    assert completed_at is not None
    assert completed_at >= batch.created_at


def test_a_reader_that_lost_its_lease_leaves_nothing_behind(engine: Engine) -> None:
    batch = engine.accept(questions(4))
    for name in ("start", "submit", "poll"):
        STEPS[name]()
    stale = claim(ProviderJob, state_field="state", states=(JobState.ENDED,))
    assert stale is not None
    job = ProviderJob.objects.select_related("batch", "sub_lane", "account").get(pk=stale.row_id)
    collected, name = collect._read(stale, job)
    engine.pass_time(61)
    assert collect.collect_next_job()
    with pytest.raises(LeaseLost):
        conclude_job(stale, job, collected, name)
    assert engine.standing(batch) == (SubLaneState.COMPLETED, "")
    delete_blob(name)
    engine.finish(batch)


def test_what_a_killed_reader_left_is_removed_by_the_next(engine: Engine) -> None:
    batch = engine.accept(questions(4))
    for name in ("start", "submit", "poll"):
        STEPS[name]()
    killed = claim(ProviderJob, state_field="state", states=(JobState.ENDED,))
    assert killed is not None
    job = ProviderJob.objects.select_related("batch", "sub_lane", "account").get(pk=killed.row_id)
    collect._read(killed, job)
    engine.pass_time(61)
    engine.finish(batch)
