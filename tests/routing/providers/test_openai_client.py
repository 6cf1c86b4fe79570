"""What no simulator would answer: drips, bombs, endless lists, redirects."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from catalog.domain.records import Endpoint
from ground.errors import ProviderError
from routing.providers.answered import AnsweredRows
from routing.providers.base import (
    Deadlines,
    Fault,
    JobEnding,
    JobReport,
    JobState,
    Provider,
    ProviderAccount,
    ResultItem,
    RowResult,
    Submission,
)
from routing.providers.registry import has_adapter, open_provider
from tests.harness.answers import one_by_one
from tests.routing.providers.lines_by_hand import COMPLETION, TOKEN, answered, never_ran
from tests.routing.providers.odd_server import Answer, OddServer, answering, drip, plain, raw

CASES = Path(__file__).parents[2] / "cases" / "providers"
SINCE = datetime(2026, 1, 1, tzinfo=UTC)
CREATED_AT = int((SINCE + timedelta(days=1)).timestamp())
REPORT = JobReport(
    batch_ref="batch_1",
    state=JobState.ENDED,
    ending=JobEnding.COMPLETED,
    provider_status="completed",
    done_count=1,
    failed_count=0,
    completed_at=None,
    result_refs=("file-out", "file-err"),
)


def opened(server: OddServer, **deadlines: float) -> Provider:
    account = ProviderAccount(
        provider="openai", name="a", base_url=server.base_url, api_key="sk-odd", project="proj_ours"
    )
    return open_provider(account, Deadlines(**deadlines))


def results_of(provider: Provider, report: JobReport) -> list[ResultItem]:
    return list(one_by_one(provider.results(report, token=TOKEN, answer_prefix=""), token=TOKEN))


def job(status: str = "completed", batch_ref: str = "batch_1", **members: object) -> bytes:
    return msgspec.json.encode({"id": batch_ref, "status": status, "created_at": CREATED_AT, **members})


def poll_error(answer: Answer, **deadlines: float) -> ProviderError:
    with answering(answer) as server, opened(server, **deadlines) as provider, pytest.raises(ProviderError) as caught:
        provider.poll("batch_1")
    return caught.value


def submission() -> Submission:
    return Submission(
        token=TOKEN,
        endpoint=Endpoint.CHAT_COMPLETIONS,
        model_id="m",
        row_count=1,
        lines=lambda: iter([b'{"custom_id":"x"}\n']),
    )


@pytest.mark.parametrize(
    ("head", "drop"),
    [
        (b"", b"H"),
        (b"HTTP/1.1 200 OK\r\n", b"X-Drip: 1\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n{", b" "),
        (b"HTTP/1.1 500 No\r\nContent-Length: 9000000\r\n\r\n{", b" "),
        (b"HTTP/1.1 200 OK\r\n\r\n{", b" "),
    ],
    ids=["status-line", "headers", "body", "error-body", "unframed-body"],
)
def test_a_drip_ends_at_the_deadline(head: bytes, drop: bytes) -> None:
    started = time.monotonic()
    error = poll_error(drip(head, drop), call_seconds=0.3)
    assert (error.permanent, time.monotonic() - started < 3) == (False, True)


def test_a_drip_of_results_ends_at_the_deadline() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n"
    with (
        answering(drip(head, b"\n")) as server,
        opened(server, download_seconds=0.3) as provider,
        pytest.raises(ProviderError) as caught,
    ):
        results_of(provider, REPORT)
    assert caught.value.code == Fault.TIMED_OUT


def test_an_answer_over_its_bound_is_not_read_to_the_end() -> None:
    error = poll_error(plain(b" " * (17 * 2**20)))
    assert error.code == Fault.BROKEN_ANSWER


def test_a_compressed_answer_is_refused() -> None:
    error = poll_error(plain(b"\x1f\x8b", "200 OK", "Content-Encoding: gzip"))
    assert error.code == Fault.BROKEN_ANSWER


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'"completed"', b"<html></html>", b'{"id":"batch_1"}', job(batch_ref="batch_2"), job(), b"\xff"],
    ids=["empty", "cut", "array", "word", "page", "partial", "other", "good", "utf8"],
)
def test_only_the_job_s_own_object_decides(body: bytes) -> None:
    with answering(plain(body)) as server, opened(server) as provider:
        if body == job():
            assert provider.poll("batch_1").ending is JobEnding.COMPLETED
            return
        with pytest.raises(ProviderError) as caught:
            provider.poll("batch_1")
    assert (caught.value.code, caught.value.permanent) == (Fault.BROKEN_ANSWER, False)


def test_a_redirect_is_not_followed() -> None:
    error = poll_error(plain(b"", "307 Elsewhere", "Location: http://127.0.0.1:9/v1/batches/batch_1"))
    assert (error.code, error.permanent) == (Fault.UNAVAILABLE, False)


def test_the_account_is_only_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-somebody")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-of-somebody")
    with answering(plain(job())) as server, opened(server) as provider:
        provider.poll("batch_1")
    (request,) = server.requests
    assert b"of-somebody" not in request
    assert b"openai-project: proj_ours" in request.lower()


def test_a_submit_names_its_token_in_the_file_the_header_and_the_metadata() -> None:
    with answering(plain(b'{"id":"file-1"}'), plain(job())) as server, opened(server) as provider:
        submitted = provider.submit(submission())
    upload, create = server.requests
    assert (submitted.batch_ref, submitted.input_ref) == ("batch_1", "file-1")
    assert f'filename="{TOKEN}.jsonl"'.encode() in upload
    assert f"idempotency-key: {TOKEN}".encode() in create.lower()
    assert msgspec.json.decode(create.partition(b"\r\n\r\n")[2])["metadata"] == {"lanehouse_token": TOKEN}


def test_the_input_of_a_refused_job_is_deleted() -> None:
    refusal = plain(b'{"error":{"message":"no","type":"invalid_request_error","param":null,"code":null}}', "400 No")
    with (
        answering(plain(b'{"id":"file-1"}'), refusal, plain(b"{}")) as server,
        opened(server) as provider,
        pytest.raises(ProviderError) as caught,
    ):
        provider.submit(submission())
    assert (caught.value.code, caught.value.ambiguous) == (Fault.REFUSED, False)
    assert server.requests[-1].startswith(b"DELETE /v1/files/file-1 ")


def test_the_input_of_a_doubtful_job_is_kept() -> None:
    with (
        answering(plain(b'{"id":"file-1"}'), raw(b"")) as server,
        opened(server) as provider,
        pytest.raises(ProviderError) as caught,
    ):
        provider.submit(submission())
    assert caught.value.ambiguous
    assert len(server.requests) == 2


def test_a_file_that_storage_does_not_know_yet_is_tried_again() -> None:
    missing = b'{"error":{"message":"No such File object: file-1","type":"invalid_request_error","code":null}}'
    answers = (plain(b'{"id":"file-1"}'), plain(missing, "404 Not Found"), plain(b"{}"))
    with answering(*answers) as server, opened(server) as provider, pytest.raises(ProviderError) as caught:
        provider.submit(submission())
    assert (caught.value.permanent, caught.value.ambiguous) == (False, False)


def test_a_list_without_an_end_is_an_error() -> None:
    page = b'{"data":[' + job() + b'],"has_more":true}'
    with answering(plain(page)) as server, opened(server) as provider, pytest.raises(ProviderError) as caught:
        provider.find_since(SINCE)
    assert caught.value.code == Fault.BROKEN_ANSWER


def test_an_empty_page_with_more_behind_it_is_an_error() -> None:
    with (
        answering(plain(b'{"data":[],"has_more":true}')) as server,
        opened(server) as provider,
        pytest.raises(ProviderError),
    ):
        provider.find_since(SINCE)


def test_a_list_that_does_not_say_whether_it_ends_is_read_until_it_is_empty() -> None:
    pages = (plain(b'{"data":[' + job() + b"]}"), plain(b'{"data":[]}'))
    with answering(*pages) as server, opened(server) as provider:
        assert [found.batch_ref for found in provider.find_since(SINCE)] == ["batch_1"]
    assert b"after=batch_1" in server.requests[1]


def test_results_come_from_both_files_without_blank_lines() -> None:
    out = answered(200, COMPLETION) + b"\n\n  \n"
    with answering(plain(out), plain(never_ran("batch_expired"))) as server, opened(server) as provider:
        items = results_of(provider, REPORT)
    assert [item.outcome for item in items if isinstance(item, RowResult)] == ["succeeded", "expired"]
    assert len(items) == 2


def test_a_result_file_cut_without_a_frame_is_an_error() -> None:
    cut = raw(b"HTTP/1.1 200 OK\r\n\r\n" + answered(200, COMPLETION)[:-30])
    with answering(cut) as server, opened(server) as provider, pytest.raises(ProviderError) as caught:
        results_of(provider, REPORT)
    assert (caught.value.code, caught.value.permanent) == (Fault.UNREACHABLE, False)


def test_a_result_file_that_storage_does_not_know_yet_is_tried_again() -> None:
    missing = plain(b'{"error":{"message":"No such File","type":"invalid_request_error","code":null}}', "404 No")
    with answering(missing) as server, opened(server) as provider, pytest.raises(ProviderError) as caught:
        results_of(provider, REPORT)
    assert (caught.value.code, caught.value.permanent) == (Fault.NOT_FOUND, False)


def test_a_reader_that_stops_early_lets_go_of_the_connection() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n" + answered(200, COMPLETION) + b"\n"
    with answering(drip(head, b"\n"), plain(job())) as server, opened(server) as provider:
        stream = provider.results(REPORT, token=TOKEN, answer_prefix="")
        assert isinstance(next(stream), AnsweredRows)
        stream.close()  # type: ignore[attr-defined]  # a generator, as every adapter's stream
        assert provider.poll("batch_1").state is JobState.ENDED


def test_only_known_providers_have_an_adapter() -> None:
    assert has_adapter("openai")
    assert not has_adapter("nobody")


def test_a_gateway_page_between_two_states_decides_nothing() -> None:
    replies = msgspec.json.decode((CASES / "159-html-502.json").read_bytes())["lane_replies"]
    answers = [
        plain(job(reply["body"])) if reply["status"] == 200 else plain(reply["text"].encode(), "502 Bad Gateway")
        for reply in replies
    ]
    seen: list[str] = []
    with answering(*answers) as server, opened(server) as provider:
        for _ in replies:
            try:
                seen.append(provider.poll("batch_1").provider_status)
            except ProviderError as error:
                seen.append("permanent" if error.permanent else "again")
    assert seen == ["validating", "again", "in_progress", "completed"]


def test_results_are_fetched_again_after_a_failed_fetch() -> None:
    replies = msgspec.json.decode((CASES / "162-results-fetch-fails-once.json").read_bytes())["lane_replies"]
    assert [reply.get("results") for reply in replies] == [None, 500, 200]
    answers = (plain(job(output_file_id="file-out")), plain(b"", "500 No"), plain(answered(200, COMPLETION)))
    with answering(*answers) as server, opened(server) as provider:
        report = provider.poll("batch_1")
        with pytest.raises(ProviderError) as caught:
            results_of(provider, report)
        assert not caught.value.permanent
        assert len(results_of(provider, report)) == 1
