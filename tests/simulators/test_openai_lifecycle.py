"""A batch's states follow from the clock."""

import openai
import pytest

from tests.simulators.driver import FROZEN_AT, Driver, chat_row, chat_rows


def test_a_batch_goes_through_its_states_in_time(driver: Driver) -> None:
    batch = driver.create(chat_rows(100))
    seen = []
    for seconds in (0, 1, 4.55, 5.4, 0.04, 0.01, 1):
        driver.control.advance(seconds)
        batch = driver.client.batches.retrieve(batch.id)
        counts = batch.request_counts
        assert counts is not None
        seen.append((batch.status, counts.completed, counts.total))
    assert seen == [
        ("validating", 0, 0),
        ("in_progress", 0, 100),
        ("in_progress", 45, 100),
        ("in_progress", 99, 100),
        ("in_progress", 99, 100),
        ("finalizing", 100, 100),
        ("completed", 100, 100),
    ]
    assert (batch.in_progress_at, batch.finalizing_at, batch.completed_at) == (
        FROZEN_AT + 1,
        FROZEN_AT + 11,
        FROZEN_AT + 12,
    )
    assert batch.model == "gpt-4o-mini"


def test_asking_once_late_or_often_gives_the_same_results(driver: Driver) -> None:
    often, late = driver.create(chat_rows(30)), driver.create(chat_rows(30))
    for _ in range(12):
        driver.control.advance(0.5)
        driver.client.batches.retrieve(often.id)
    often, late = driver.client.batches.retrieve(often.id), driver.client.batches.retrieve(late.id)
    assert often.completed_at == late.completed_at
    assert often.usage == late.usage
    assert list(driver.outputs(often)) == list(driver.outputs(late))


def test_results_stand_in_another_order_than_the_rows_but_always_the_same(driver: Driver) -> None:
    first, second = driver.run(chat_rows(50)), driver.run(chat_rows(50))
    order = list(driver.outputs(first))
    assert order != [f"row-{number}" for number in range(50)]
    assert sorted(order) == sorted(f"row-{number}" for number in range(50))
    assert order == list(driver.outputs(second))
    driver.control.change_settings(shuffle_results=False)
    assert list(driver.outputs(driver.run(chat_rows(50)))) == [f"row-{number}" for number in range(50)]


def test_no_output_file_when_nothing_succeeded_and_no_error_file_when_nothing_failed(driver: Driver) -> None:
    good = driver.run(chat_rows(2))
    bad = driver.run([chat_row("a", "[[sim:fail]]"), chat_row("b", "[[sim:fail]] too")])
    assert (good.status, good.error_file_id) == ("completed", None)
    assert (bad.status, bad.output_file_id) == ("completed", None)
    assert (bad.request_counts and bad.request_counts.failed) == 2
    assert len(driver.errors(bad)) == 2


def test_usage_of_the_batch_is_the_sum_of_its_rows(driver: Driver) -> None:
    batch = driver.run([*chat_rows(9), chat_row("bad", "[[sim:fail]]")])
    usages = [line["response"]["body"]["usage"] for line in driver.outputs(batch).values()]
    assert batch.usage is not None
    assert batch.usage.input_tokens == sum(usage["prompt_tokens"] for usage in usages)
    assert batch.usage.output_tokens == sum(usage["completion_tokens"] for usage in usages)
    assert batch.usage.total_tokens == batch.usage.input_tokens + batch.usage.output_tokens


def test_a_cancelled_batch_keeps_what_was_done(driver: Driver) -> None:
    batch = driver.create(chat_rows(20))
    driver.control.advance(1.5)
    batch = driver.client.batches.cancel(batch.id)
    assert (batch.status, batch.cancelling_at, batch.output_file_id) == ("cancelling", FROZEN_AT + 1, None)
    assert driver.client.batches.cancel(batch.id).status == "cancelling"
    driver.control.advance(1)
    batch = driver.client.batches.retrieve(batch.id)
    assert (batch.status, batch.cancelled_at) == ("cancelled", FROZEN_AT + 2)
    assert (batch.request_counts and batch.request_counts.completed) == 5
    assert len(driver.outputs(batch)) == 5
    codes = {line["error"]["code"] for line in driver.errors(batch).values()}
    assert (len(driver.errors(batch)), codes) == (15, {"batch_cancelled"})


def test_a_batch_can_be_cancelled_before_it_was_read(driver: Driver) -> None:
    batch = driver.create(chat_rows(3))
    driver.client.batches.cancel(batch.id)
    driver.control.advance(1)
    batch = driver.client.batches.retrieve(batch.id)
    assert (batch.status, batch.output_file_id, batch.error_file_id) == ("cancelled", None, None)


def test_an_ended_batch_cannot_be_cancelled(driver: Driver) -> None:
    batch = driver.run(chat_rows(1))
    with pytest.raises(openai.ConflictError, match="completed"):
        driver.client.batches.cancel(batch.id)


def test_a_batch_expires_after_its_window_with_what_was_done(driver: Driver) -> None:
    driver.control.change_settings(rows_per_second=2 / 86_400)
    batch = driver.run(chat_rows(5), seconds=90_000)
    assert (batch.status, batch.expired_at, batch.completed_at) == ("expired", FROZEN_AT + 86_400, None)
    assert (batch.request_counts and batch.request_counts.to_dict()) == {"total": 5, "completed": 1, "failed": 0}
    assert len(driver.outputs(batch)) == 1
    unrun = list(driver.errors(batch).values())
    assert {(line["response"], line["error"]["code"]) for line in unrun} == {(None, "batch_expired")}


def test_the_speed_can_be_turned_while_a_batch_runs(driver: Driver) -> None:
    batch = driver.create(chat_rows(100))
    driver.control.advance(2)
    driver.control.change_settings(rows_per_second=1)
    driver.control.advance(5)
    batch = driver.client.batches.retrieve(batch.id)
    assert (batch.request_counts and batch.request_counts.completed) == 15
    driver.control.change_settings(rows_per_second=0)
    driver.control.advance(5_000)
    assert driver.client.batches.retrieve(batch.id).status == "in_progress"
    driver.control.change_settings(rows_per_second=None)
    driver.control.advance(1)
    batch = driver.client.batches.retrieve(batch.id)
    assert (batch.status, batch.completed_at) == ("completed", FROZEN_AT + 2 + 5 + 5_000 + 1)


def test_the_clock_runs_on_its_own_unless_it_is_frozen(driver: Driver) -> None:
    frozen = driver.control.freeze()
    assert driver.control.advance(0) == frozen
    assert driver.control.resume() >= frozen
    assert driver.control.advance(0) > frozen


def test_the_state_brings_every_batch_to_the_present(driver: Driver) -> None:
    driver.create(chat_rows(5))
    driver.control.advance(60)
    assert driver.control.state()["batches_by_status"] == {"completed": 1}


def test_calls_are_counted_by_operation_and_account(driver: Driver) -> None:
    driver.create(chat_rows(1))
    Driver(driver.simulator, driver.client.with_options(api_key="sk-other")).create(chat_rows(1))
    assert driver.control.call_count("batches.create") == 2
    assert driver.control.call_count("files.create", "sk-other") == 1
    assert driver.control.call_count("batches.create", "sk-stranger") == 0
