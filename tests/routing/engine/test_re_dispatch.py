"""Rows that failed on the lane's side go to another lane with the same pin, once a lane, and cost the same."""

from __future__ import annotations

from decimal import Decimal

import pytest

from billing.domain.records import HoldState
from billing.models import AttemptFact, Hold, Receipt
from catalog.models import Model
from routing.models import BatchStatus, SubLaneState
from tests.harness.laws import outcomes_of, result_lines
from tests.routing.engine.kit import MODEL, Engine, chat_file, questions
from tests.routing.engine.lanes import (
    DEARER,
    FIRST,
    SECOND,
    THIRD,
    add_lane,
    counts_of,
    fan_out,
    lanes_of,
    set_health,
)

OTHER = "gpt-4o"
FIRST_MODEL_ID = "gpt-4o-mini-2024-07-18"
SECOND_MODEL_ID = "gpt-4o-mini-elsewhere"


def test_failed_rows_are_healed_by_the_other_lane(engine: Engine) -> None:
    add_lane()
    batch = engine.finish(engine.accept(chat_file("a", "b [[sim:fail_once]]", "c", "d [[sim:fail_once]]")))
    assert (batch.status, batch.completed_count, batch.failed_count) == (BatchStatus.COMPLETED, 4, 0)
    assert counts_of(batch) == {FIRST: (2, 2, 0, 2, 0), SECOND: (2, 2, 0, 0, 2)}
    told = [(line["lanehouse"]["lane_id"], line["lanehouse"]["re_dispatch_count"]) for line in result_lines(batch)]
    assert told == [(FIRST, 0), (SECOND, 1), (FIRST, 0), (SECOND, 1)]
    jobs = engine.jobs(batch)
    assert [(job.attempt_number, job.row_count, job.tried_lane_ids) for job in jobs] == [(1, 4, []), (2, 2, [FIRST])]
    assert jobs[1].moved_from == jobs[0]
    assert jobs[0].token != jobs[1].token


def test_a_healed_row_is_charged_by_the_quoted_rates_and_costs_the_house_the_dearer_ones(engine: Engine) -> None:
    add_lane()
    batch = engine.finish(engine.accept(chat_file("a", "b [[sim:fail_once]]")))
    usages = [line["response"]["body"]["usage"] for line in result_lines(batch)]
    prompts, outputs = ([usage[name] for usage in usages] for name in ("prompt_tokens", "completion_tokens"))
    charges = [75_000 * prompt + 300_000 * output for prompt, output in zip(prompts, outputs, strict=True)]
    assert [line["lanehouse"]["charge_pico_usd"] for line in result_lines(batch)] == charges
    costs = {(fact.row, fact.attempt_number): fact.cost_pico_usd for fact in AttemptFact.objects.all()}
    # Row 1 failed on the first lane without usage and ran on the second one.
    second = DEARER[0] * prompts[1] + DEARER[1] * outputs[1]
    assert costs == {(0, 1): charges[0], (1, 1): 0, (1, 2): second}
    lines = [(sum(prompts), 75_000), (sum(outputs), 300_000)]
    amounts = [int((Decimal(tokens * rate) / 1_000_000).quantize(Decimal(1))) for tokens, rate in lines]
    assert batch.charge_micro_usd == sum(amounts) + 20_000
    receipt = Receipt.objects.get(batch_public_id=batch.public_id)
    assert (receipt.fee_micro_usd, {line.lane_id for line in receipt.lines.all()}) == (20_000, {FIRST})
    assert {lane_id: lane.charge_micro_usd for lane_id, lane in lanes_of(batch).items()} == {
        FIRST: batch.charge_micro_usd,
        SECOND: 0,
    }


def test_a_row_is_on_no_lane_twice_and_ends_with_its_code(engine: Engine) -> None:
    add_lane()
    add_lane(THIRD, p95_minutes=200)
    batch = engine.finish(engine.accept(chat_file("a", "b [[sim:fail]]")))
    assert [fact.lane_id for fact in AttemptFact.objects.filter(row=1).order_by("attempt_number")] == [
        FIRST,
        SECOND,
        THIRD,
    ]
    assert counts_of(batch) == {FIRST: (1, 1, 0, 1, 0), SECOND: (0, 0, 0, 1, 1), THIRD: (1, 0, 1, 0, 1)}
    assert {lane.state for lane in lanes_of(batch).values()} == {SubLaneState.COMPLETED}
    line = result_lines(batch)[1]
    assert (line["error"]["code"], line["lanehouse"]["re_dispatch_count"]) == ("provider_error", 2)
    assert line["lanehouse"]["charge_pico_usd"] == 0


def test_errors_of_the_row_itself_are_not_tried_elsewhere(engine: Engine) -> None:
    add_lane()
    batch = engine.finish(engine.accept(chat_file("a", "[[sim:context_length]]", "[[sim:content_filter]]")))
    assert counts_of(batch) == {FIRST: (3, 1, 2, 0, 0)}
    codes = [outcome.code for outcome in outcomes_of(batch)]
    assert codes == ["", "context_length_exceeded", "content_filtered"]


@pytest.mark.parametrize(("p50_minutes", "lanes"), [(30, {FIRST, SECOND}), (31, {FIRST})])
def test_a_lane_that_needs_longer_than_the_time_left_is_not_asked(
    engine: Engine, p50_minutes: int, lanes: set[str]
) -> None:
    add_lane()
    engine.simulator.control.change_settings(rows_per_second=0)
    batch = engine.accept(chat_file("a", "b [[sim:fail_once]]"))
    set_health(SECOND, p95_minutes=90, p50_minutes=p50_minutes)
    # Half an hour before the window ends the rows come back; what the provider then does takes no time.
    engine.go_on(minutes=3)
    engine.pass_time((batch.expires_at - engine.clock.now()).total_seconds() - 30 * 60 - 40)
    engine.simulator.control.change_settings(rows_per_second=None)
    engine.finish(batch, step_seconds=20)
    assert set(lanes_of(batch)) == lanes


def test_fewer_rows_than_a_lane_takes_stay_where_they_failed(engine: Engine) -> None:
    add_lane(minimum_rows=3)
    fails = [f"{number} [[sim:fail_once]]" for number in range(3)]
    too_few = engine.finish(engine.accept(chat_file("a", *fails[:2])))
    assert counts_of(too_few) == {FIRST: (3, 1, 2, 0, 0)}
    enough = engine.finish(engine.accept(chat_file("b", *(f"again {fail}" for fail in fails))))
    assert counts_of(enough) == {FIRST: (1, 1, 0, 3, 0), SECOND: (3, 3, 0, 0, 3)}


def test_a_job_that_failed_as_a_whole_goes_to_the_other_lane(engine: Engine) -> None:
    add_lane()
    engine.simulator.control.add_fault("fail_batch", times=1)
    batch = engine.finish(engine.accept(questions(4)))
    assert counts_of(batch) == {FIRST: (0, 0, 0, 4, 0), SECOND: (4, 4, 0, 0, 4)}
    assert lanes_of(batch)[FIRST].state == SubLaneState.COMPLETED
    assert AttemptFact.objects.filter(lane_id=FIRST, outcome="failed").count() == 4
    assert (batch.charge_micro_usd or 0) > 20_000


def test_rows_that_expired_in_the_provider_s_own_window_are_healed(engine: Engine) -> None:
    add_lane()
    engine.simulator.control.add_fault("expire_batch", after_rows=2, times=1)
    batch = engine.finish(engine.accept(questions(5)))
    assert (batch.status, batch.completed_count) == (BatchStatus.COMPLETED, 5)
    assert counts_of(batch) == {FIRST: (2, 2, 0, 3, 0), SECOND: (3, 3, 0, 0, 3)}


def test_rows_move_in_jobs_cut_to_the_other_lane_s_limits(engine: Engine) -> None:
    add_lane(maximum_rows_per_job=2)
    engine.simulator.control.add_fault("fail_batch", times=1)
    batch = engine.finish(engine.accept(questions(5)))
    assert [job.row_count for job in engine.jobs(batch)] == [5, 2, 2, 1]
    assert batch.completed_count == 5


def test_rows_move_to_a_quoted_lane_before_its_own_rows_are_cut(engine: Engine) -> None:
    batch = fan_out(engine, *["Hello"] * 8)
    assert counts_of(batch) == {FIRST: (4, 0, 0, 0, 0), SECOND: (4, 0, 0, 0, 0)}
    lanes = lanes_of(batch)
    lanes[SECOND].due_at = engine.clock.now().replace(year=2100)
    lanes[SECOND].save(update_fields=["due_at"])
    engine.simulator.control.add_fault("fail_batch", times=1)
    engine.go_on(minutes=2)
    assert counts_of(batch)[SECOND] == (8, 4, 0, 0, 4)
    lanes[SECOND].due_at = engine.clock.now()
    lanes[SECOND].save(update_fields=["due_at"])
    engine.finish(batch)
    assert counts_of(batch) == {FIRST: (0, 0, 0, 4, 0), SECOND: (8, 8, 0, 0, 4)}


def test_a_model_gone_on_one_lane_is_healed_by_the_other(engine: Engine) -> None:
    add_lane(provider_model_id=SECOND_MODEL_ID)
    engine.simulator.control.change_settings(unknown_models=[FIRST_MODEL_ID])
    batch = engine.finish(engine.accept(questions(3)))
    assert (batch.status, batch.completed_count) == (BatchStatus.COMPLETED, 3)
    assert counts_of(batch) == {FIRST: (0, 0, 0, 3, 0), SECOND: (3, 3, 0, 0, 3)}


def test_a_model_gone_on_every_lane_fails_its_group_alone_and_frees_its_hold(engine: Engine) -> None:
    add_lane(provider_model_id=SECOND_MODEL_ID)
    Model.objects.filter(slug=MODEL).update(successor=Model.objects.get(slug=OTHER))
    engine.simulator.control.change_settings(unknown_models=[FIRST_MODEL_ID, SECOND_MODEL_ID])
    body = questions(3) + chat_file("x", "y", model=OTHER).replace(b"row-", b"other-")
    batch = engine.finish(engine.accept(body))
    assert (batch.status, batch.completed_count, batch.failed_count) == (BatchStatus.COMPLETED, 2, 3)
    holds = {hold.group_key: hold.state for hold in Hold.objects.filter(batch_public_id=batch.public_id)}
    assert holds == {"gpt-4o-mini-2024-07-18": HoldState.VOIDED, "gpt-4o-2024-08-06": HoldState.SETTLED}
    errors = [line["error"] for line in result_lines(batch)]
    assert (
        errors[:3]
        == [
            {
                "code": "model.deprecated_post_quote",
                "message": "The model was retired after the quote. Use gpt-4o instead.",
                "alternative": OTHER,
            }
        ]
        * 3
    )
    assert errors[3:] == [None, None]
    assert Receipt.objects.get(batch_public_id=batch.public_id).fee_micro_usd == 20_000
