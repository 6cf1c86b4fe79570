"""What every provider adapter does, against its simulator over HTTP."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from ground.errors import ProviderError
from routing.providers.base import (
    Deadlines,
    Fault,
    ForeignLine,
    JobEnding,
    JobReport,
    JobState,
    Outcome,
    Provider,
    RowCode,
    RowResult,
    Submission,
    TokenUsage,
)
from tests.contracts.kits import ANSWER_PREFIX, TOKEN, Kind, Kit, running_own_process
from tests.harness.answers import one_by_one

BEFORE_ALL = datetime.now(UTC) - timedelta(minutes=5)
SAID_BY_CODE_ALONE = {"context_length_exceeded", "content_filter", "model_not_found"}
IMPATIENT = Deadlines(call_seconds=0.4, upload_seconds=0.8)


def rows_of(items: list[object]) -> dict[int, RowResult]:
    return {item.row: item for item in items if isinstance(item, RowResult)}


def act(provider: Provider, call: str, report: JobReport) -> None:
    if call == "find":
        provider.find_since(BEFORE_ALL)
    elif call == "poll":
        provider.poll(report.batch_ref)
    else:
        list(provider.results(report, token=TOKEN, answer_prefix=ANSWER_PREFIX))


def failure(provider: Provider, submission: Submission) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        provider.submit(submission)
    return caught.value


def test_a_job_gives_every_row_back_once(kit: Kit) -> None:
    items = kit.run(["one", "two", "three", "four", "five"])
    assert len(items) == 5
    assert {row: item.outcome for row, item in rows_of([*items]).items()} == dict.fromkeys(range(5), Outcome.SUCCEEDED)


def test_a_success_has_a_body_in_the_chat_shape_and_its_usage(kit: Kit) -> None:
    result = rows_of([*kit.run(["Name a river in Spain."])])[0]
    body = msgspec.json.decode(result.body or b"")
    assert body["object"] == "chat.completion"
    assert body["choices"][0]["message"]["role"] == "assistant"
    assert result.status_code == 200
    assert result.code is None
    assert result.usage_problem is None
    assert result.usage.input_tokens > 0
    assert result.usage.output_tokens == body["usage"]["completion_tokens"]


def test_no_id_of_the_provider_is_left_in_a_body(kit: Kit) -> None:
    body = msgspec.json.decode(rows_of([*kit.run(["x"])])[0].body or b"")
    assert body["id"] == "chatcmpl-ours-0"


def test_a_job_that_is_still_running_has_no_ending_and_no_results(kit: Kit) -> None:
    kit.simulator.control.freeze()
    kit.simulator.control.change_settings(rows_per_second=0)
    report = kit.provider.poll(kit.submit(["x"]).batch_ref)
    assert (report.state, report.ending, report.completed_at) == (JobState.RUNNING, None, None)
    assert report.result_refs == ()


def test_an_ended_job_tells_when_and_how_it_ended(kit: Kit) -> None:
    at = kit.simulator.control.freeze()
    report = kit.ended(kit.submit(["x", "y"]).batch_ref)
    assert report.ending is JobEnding.COMPLETED
    assert (report.done_count, report.failed_count) == (2, 0)
    assert report.completed_at is not None
    assert abs(report.completed_at.timestamp() - at) < 1


def test_a_job_is_found_by_its_token(kit: Kit) -> None:
    job = kit.submit(["x"])
    (found,) = kit.provider.find_since(BEFORE_ALL)
    assert found.batch_ref == job.batch_ref
    assert found.token == (TOKEN if kit.kind.keeps_tokens else None)


def test_jobs_before_the_instant_are_not_found(kit: Kit) -> None:
    kit.simulator.control.freeze()
    kit.submit(["old"], token="an-older-token")
    kit.simulator.control.advance(3_600)
    job = kit.submit(["new"])
    since = datetime.fromtimestamp(kit.simulator.control.advance(0), UTC) - timedelta(minutes=1)
    assert [found.batch_ref for found in kit.provider.find_since(since)] == [job.batch_ref]


def test_the_list_of_jobs_is_read_to_its_end(kit: Kit) -> None:
    provider = kit.provider
    refs = {provider.submit(kit.submission(["x"], f"token-{number:04}")).batch_ref for number in range(105)}
    assert {found.batch_ref for found in provider.find_since(BEFORE_ALL)} == refs


def test_a_list_that_breaks_off_is_not_given_in_part(kit: Kit) -> None:
    kit.submit(["x"])
    kit.fault("find", "cut_midway")
    with pytest.raises(ProviderError):
        kit.provider.find_since(BEFORE_ALL)


def test_another_account_does_not_see_the_job(kit: Kit) -> None:
    kit.submit(["x"])
    other = kit.with_deadlines(Deadlines(), api_key=kit.kind.other_key)
    assert list(other.find_since(BEFORE_ALL)) == []


@pytest.mark.parametrize("kind_of_cut", ["cut_after", "cut_midway"])
def test_a_cut_after_the_provider_accepted_is_ambiguous_and_the_job_is_found(kit: Kit, kind_of_cut: str) -> None:
    kit.fault("submit", kind_of_cut)
    error = failure(kit.provider, kit.submission(["x"]))
    assert (error.ambiguous, error.permanent) == (True, False)
    assert len(kit.provider.find_since(BEFORE_ALL)) == 1


def test_an_orphan_is_told_apart_by_its_token_or_by_its_count_and_its_rows(kit: Kit) -> None:
    kit.submit(["another", "job"], token="another-token")
    kit.fault("submit", "cut_after")
    failure(kit.provider, kit.submission(["x", "y", "z"]))
    listed = kit.provider.find_since(BEFORE_ALL)
    (orphan,) = [job for job in listed if (job.token == TOKEN if kit.kind.keeps_tokens else job.row_count == 3)]
    report = kit.ended(orphan.batch_ref)
    assert sorted(rows_of([*kit.results(report)])) == [0, 1, 2]
    assert {type(item) for item in kit.results(report, token="another-token")} == {ForeignLine}


@pytest.mark.parametrize(
    ("fault", "status_code"),
    [("cut_before", None), ("http_error", 500), ("http_error", 503), ("html_page", 502), ("html_page", 200)],
)
def test_a_doubtful_answer_to_a_submit_is_ambiguous_and_no_job_is_found(
    kit: Kit, fault: str, status_code: int | None
) -> None:
    kit.fault("submit", fault, status_code=status_code)
    error = failure(kit.provider, kit.submission(["x"]))
    assert (error.ambiguous, error.permanent) == (True, False)
    assert list(kit.provider.find_since(BEFORE_ALL)) == []


def test_a_submit_slower_than_its_deadline_is_ambiguous(kit: Kit) -> None:
    kit.fault("submit", "slow", delay_seconds=1.5)
    error = failure(kit.with_deadlines(IMPATIENT), kit.submission(["x"]))
    assert (error.code, error.ambiguous) == (Fault.TIMED_OUT, True)


def test_no_connection_is_not_ambiguous(kit: Kit) -> None:
    error = failure(kit.with_deadlines(Deadlines(), base_url=kit.unreachable_url), kit.submission(["x"]))
    assert (error.code, error.ambiguous, error.permanent) == (Fault.UNREACHABLE, False, False)


def test_a_rate_limit_says_when_to_come_back(kit: Kit) -> None:
    kit.fault("submit", "http_error", status_code=429, retry_after_seconds=7)
    error = failure(kit.provider, kit.submission(["x"]))
    assert (error.code, error.retry_after_seconds) == (Fault.RATE_LIMITED, 7)
    assert (error.ambiguous, error.permanent) == (False, False)


def test_an_exhausted_quota_is_permanent(kit: Kit) -> None:
    if kit.kind.quota_fault is None:
        pytest.skip("this provider does not tell an exhausted quota from other refusals")
    kit.fault("submit", "http_error", **kit.kind.quota_fault)
    error = failure(kit.provider, kit.submission(["x"]))
    assert (error.code, error.ambiguous, error.permanent) == (Fault.QUOTA_EXHAUSTED, False, True)


def test_a_refused_key_is_permanent_and_not_told(kit: Kit) -> None:
    kit.simulator.control.change_settings(bad_keys=[kit.key_name])
    error = failure(kit.provider, kit.submission(["x"]))
    assert (error.code, error.permanent, error.ambiguous) == (Fault.ACCOUNT_REFUSED, True, False)
    assert kit.key_name not in error.message
    assert "sk-" not in error.message


def test_an_unknown_job_is_permanent(kit: Kit) -> None:
    with pytest.raises(ProviderError) as caught:
        kit.provider.poll("batch_of_nobody")
    assert (caught.value.code, caught.value.permanent) == (Fault.NOT_FOUND, True)


@pytest.mark.parametrize("call", ["find", "poll", "results"])
@pytest.mark.parametrize(
    ("fault", "status_code"),
    [("http_error", 500), ("html_page", 502), ("html_page", 404), ("cut_before", None), ("slow", None)],
)
def test_trouble_never_decides_and_the_next_call_goes_on(
    kit: Kit, call: str, fault: str, status_code: int | None
) -> None:
    report = kit.ended(kit.submit(["x"]).batch_ref)
    provider = kit.with_deadlines(Deadlines(call_seconds=0.4, download_seconds=0.4))
    kit.fault(call, fault, status_code=status_code, delay_seconds=1.5)
    with pytest.raises(ProviderError) as caught:
        act(provider, call, report)
    assert caught.value.permanent is False
    act(provider, call, report)


@pytest.mark.parametrize(("fault", "status_code"), [("http_error", 500), ("html_page", 502), ("cut_before", None)])
def test_a_cancel_that_was_not_delivered_is_an_error(kit: Kit, fault: str, status_code: int | None) -> None:
    kit.simulator.control.freeze()
    kit.simulator.control.change_settings(rows_per_second=0)
    job = kit.submit(["x"])
    kit.fault("cancel", fault, status_code=status_code)
    with pytest.raises(ProviderError) as caught:
        kit.provider.cancel(job.batch_ref)
    assert caught.value.permanent is False


def test_a_download_cut_midway_is_an_error_and_reading_again_gives_everything(kit: Kit) -> None:
    report = kit.ended(kit.submit([f"row {number}" for number in range(20)]).batch_ref)
    kit.fault("results", "cut_midway")
    stream = kit.provider.results(report, token=TOKEN, answer_prefix=ANSWER_PREFIX)
    with pytest.raises(ProviderError) as caught:
        list(stream)
    assert caught.value.permanent is False
    assert sorted(rows_of([*kit.results(report)])) == list(range(20))


def test_a_cancelled_job_keeps_what_it_finished(kit: Kit) -> None:
    kit.simulator.control.freeze()
    kit.simulator.control.change_settings(rows_per_second=1)
    job = kit.submit(["x", "y", "z"])
    kit.simulator.control.advance(1)
    kit.provider.poll(job.batch_ref)
    kit.provider.cancel(job.batch_ref)
    kit.simulator.control.advance(60)
    report = kit.ended(job.batch_ref)
    outcomes = sorted(row.outcome for row in rows_of([*kit.results(report)]).values())
    unreached = [Outcome.CANCELLED] * 2 if kit.kind.lists_unreached_rows else []
    assert report.ending is JobEnding.CANCELLED
    assert outcomes == [*unreached, Outcome.SUCCEEDED]


def test_a_job_cancelled_before_its_first_answer_has_nothing_that_succeeded(kit: Kit) -> None:
    kit.simulator.control.freeze()
    kit.simulator.control.change_settings(rows_per_second=0)
    job = kit.submit(["x", "y"])
    kit.provider.cancel(job.batch_ref)
    kit.simulator.control.advance(60)
    rows = rows_of([*kit.results(kit.ended(job.batch_ref))])
    assert [row.outcome for row in rows.values()] == ([Outcome.CANCELLED] * 2 if kit.kind.lists_unreached_rows else [])


def test_cancelling_twice_and_after_the_end_is_no_error(kit: Kit) -> None:
    kit.simulator.control.freeze()
    kit.simulator.control.change_settings(rows_per_second=0, **kit.kind.slow_stop)
    job = kit.submit(["x"])
    kit.provider.cancel(job.batch_ref)
    kit.provider.cancel(job.batch_ref)
    kit.simulator.control.advance(60)
    kit.provider.cancel(job.batch_ref)
    assert kit.ended(job.batch_ref).ending is JobEnding.CANCELLED


def test_a_job_that_expired_has_expired_rows_that_another_lane_can_heal(kit: Kit) -> None:
    kit.simulator.control.freeze()
    kit.simulator.control.change_settings(rows_per_second=0)
    job = kit.submit(["x"])
    kit.simulator.control.advance(25 * 3_600)
    report = kit.ended(job.batch_ref)
    rows = rows_of([*kit.results(report)])
    assert report.ending is JobEnding.EXPIRED
    assert [(row.outcome, row.code, row.healable) for row in rows.values()] == (
        [(Outcome.EXPIRED, RowCode.BATCH_EXPIRED, True)] if kit.kind.lists_unreached_rows else []
    )


def test_a_full_lane_fails_the_job_as_a_wait(kit: Kit) -> None:
    if not kit.kind.reports_lane_full:
        pytest.skip("this provider has no ceiling of enqueued tokens")
    kit.simulator.control.change_settings(enqueued_tokens_limits={"*": 1})
    report = kit.ended(kit.submit(["x"]).batch_ref)
    assert (report.ending, report.fault) == (JobEnding.FAILED, Fault.LANE_FULL)
    assert report.result_refs == ()


@pytest.mark.parametrize(
    ("status_code", "word", "expected"),
    [
        (500, None, (RowCode.PROVIDER_ERROR, True)),
        (429, "rate_limit_exceeded", (RowCode.PROVIDER_ERROR, True)),
        (0, None, (RowCode.PROVIDER_ERROR, True)),
        (400, "invalid_value", (RowCode.PROVIDER_ERROR, False)),
        (400, "context_length_exceeded", (RowCode.CONTEXT_LENGTH_EXCEEDED, False)),
        (400, "content_filter", (RowCode.CONTENT_FILTERED, False)),
        (404, "model_not_found", (RowCode.MODEL_GONE, True)),
    ],
)
def test_a_failed_row_has_its_code_and_the_others_succeed(
    kit: Kit, status_code: int, word: str | None, expected: tuple[RowCode, bool]
) -> None:
    if word in SAID_BY_CODE_ALONE and not kit.kind.knows_row_codes:
        pytest.skip("this provider gives a failed row a status and a sentence only")
    message = "The prompt on account org-a1b2c3d4e5 cannot be read."
    kit.row_fault("row_error", 1, message=message, status_code=status_code, code=word)
    rows = rows_of([*kit.run(["x", "y", "z"])])
    assert rows[1].outcome is Outcome.FAILED
    assert (rows[1].code, rows[1].healable) == expected
    assert rows[1].usage == TokenUsage()
    assert b"org-a1b2c3d4e5" not in (rows[1].body or b"")
    assert {row.outcome for number, row in rows.items() if number != 1} == {Outcome.SUCCEEDED}


def test_a_row_that_never_ran_can_be_healed_and_costs_nothing(kit: Kit) -> None:
    kit.row_fault("row_unrun", 0, code="request_timeout")
    row = rows_of([*kit.run(["x"])])[0]
    assert (row.outcome, row.code, row.healable) == (kit.kind.unrun.outcome, kit.kind.unrun.code, True)
    assert row.provider_code == kit.kind.unrun.provider_code
    assert (row.body is not None) == kit.kind.unrun.has_body


def test_a_missing_row_is_simply_not_there(kit: Kit) -> None:
    kit.row_fault("row_missing", 1)
    assert sorted(rows_of([*kit.run(["x", "y", "z"])])) == [0, 2]


def test_a_duplicated_row_comes_twice(kit: Kit) -> None:
    kit.row_fault("row_duplicated", 1)
    assert sorted(item.row for item in kit.run(["x", "y"]) if isinstance(item, RowResult)) == [0, 1, 1]


def test_a_foreign_row_is_told_apart(kit: Kit) -> None:
    kit.row_fault("row_foreign", 0, message="somebody-elses-r0")
    items = kit.run(["x"])
    assert [item for item in items if isinstance(item, ForeignLine)] == [ForeignLine(row_key="somebody-elses-r0")]
    assert sorted(rows_of([*items])) == [0]


def test_cached_and_reasoning_tokens_are_counted_once(kit: Kit) -> None:
    kit.row_fault("row_usage", 0, cached_tokens=3, reasoning_tokens=2)
    usage = rows_of([*kit.run(["one two three four five six seven eight"])])[0].usage
    assert (usage.cached_input_tokens, usage.reasoning_tokens) == (3, 2)
    assert usage.input_tokens > 0
    assert usage.output_tokens <= 12


def test_separators_inside_strings_do_not_cut_a_row(kit: Kit) -> None:
    contents = ["a\u2028b", "c\u2029d", "e\u0085f", "g\x0ch\x1ci"]
    submission = kit.submission(contents)
    sent = b"".join(submission.lines())
    assert len(sent.decode().splitlines()) == len(contents)
    assert sorted(rows_of([*kit.run(contents)])) == [0, 1, 2, 3]


def test_the_key_is_in_no_representation(kit: Kit) -> None:
    kit.simulator.control.change_settings(bad_keys=[kit.key_name])
    provider = kit.provider
    assert kit.api_key not in f"{provider!r} {vars(provider)!r} {failure(provider, kit.submission(['x']))!r}"


def test_memory_stays_flat_on_the_way_out_and_back(kind: Kind, tmp_path: Path) -> None:
    row_count, padding = 3_000, "word " * 1_200
    with running_own_process(kind, tmp_path) as simulator:
        kit = Kit(kind, simulator)
        provider = kit.provider
        submission = kit.submission([f"{padding}{row}" for row in range(row_count)])
        tracemalloc.start()
        try:
            job = provider.submit(submission)
            sent_peak_bytes = tracemalloc.get_traced_memory()[1]
            report = kit.ended(job.batch_ref)
            tracemalloc.reset_peak()
            before_bytes = tracemalloc.get_traced_memory()[0]
            stream = one_by_one(provider.results(report, token=TOKEN, answer_prefix=ANSWER_PREFIX), token=TOKEN)
            size_bytes = sum(len(item.body or b"") for item in stream if isinstance(item, RowResult))
            read_peak_bytes = tracemalloc.get_traced_memory()[1] - before_bytes
        finally:
            tracemalloc.stop()
            kit.close()
    assert sent_peak_bytes < 4 * 2**20 < row_count * len(padding) / 4
    assert read_peak_bytes < 2**20 < size_bytes
