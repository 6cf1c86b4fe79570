"""What no simulator of Bedrock would answer, and what is sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import msgspec
import pytest

from catalog.domain.records import Endpoint
from ground.errors import ProviderError
from routing.providers.base import (
    Deadlines,
    Fault,
    JobEnding,
    JobReport,
    JobState,
    Provider,
    ProviderAccount,
    RowResult,
    Submission,
    make_row_key,
)
from routing.providers.registry import open_provider
from tests.routing.providers.chat_rows import row
from tests.routing.providers.claude_by_hand import KEY, MESSAGE, TOKEN
from tests.routing.providers.odd_server import Answer, OddServer, answering, drip, plain

SINCE = datetime(2026, 1, 1, tzinfo=UTC)
MODEL_ID = "anthropic.claude-3-5-sonnet-20241022-v2:0"
ARN = "arn:aws:bedrock:us-east-1:123456789012:model-invocation-job/a1b2c3d4e5f6"
CREATED = plain(b'{"jobArn":"' + ARN.encode() + b'"}')
STORED = plain(b"")
RECORD = msgspec.json.encode({"recordId": KEY, "modelInput": {}, "modelOutput": MESSAGE}) + b"\n"
REPORT = JobReport(
    batch_ref=ARN,
    state=JobState.ENDED,
    ending=JobEnding.COMPLETED,
    provider_status="Completed",
    done_count=1,
    failed_count=0,
    completed_at=SINCE,
    result_refs=("s3://ours/out/a.jsonl.out",),
)


@contextmanager
def opened(*answers: Answer, **deadlines: float) -> Iterator[tuple[OddServer, Provider]]:
    """The adapter on a server that plays both the control plane and S3."""
    with answering(*answers) as server:
        base = server.base_url.removesuffix("/v1")
        query = f"region=us-east-1&bucket=ours&role=arn:aws:iam::123456789012:role/lane&storage={base}"
        account = ProviderAccount(
            provider="bedrock", name="a", base_url=f"{base}/?{query}", api_key="AKIDODD:a-secret-of-ours"
        )
        with open_provider(account, Deadlines(**deadlines)) as provider:
            yield server, provider


def submission(provider: Provider) -> Submission:
    line = provider.encode_row(
        row_key=make_row_key(TOKEN, 0),
        endpoint=Endpoint.CHAT_COMPLETIONS,
        model_id=MODEL_ID,
        body=row(max_tokens=9),
    )
    return Submission(
        token=TOKEN, endpoint=Endpoint.CHAT_COMPLETIONS, model_id=MODEL_ID, row_count=1, lines=lambda: iter([line])
    )


def test_a_submit_stores_the_input_and_names_the_job_by_its_token() -> None:
    with opened(STORED, CREATED) as (server, provider):
        submitted = provider.submit(submission(provider))
    put, create = server.requests
    made = msgspec.json.decode(create.partition(b"\r\n\r\n")[2])
    assert (submitted.batch_ref, submitted.input_ref) == (ARN, f"s3://ours/{TOKEN}/input.jsonl")
    assert put.startswith(f"PUT /ours/{TOKEN}/input.jsonl ".encode())
    assert (made["jobName"], made["clientRequestToken"]) == (f"lanehouse-{TOKEN}", TOKEN)
    assert (made["modelId"], made["timeoutDurationInHours"]) == (MODEL_ID, 24)
    assert made["outputDataConfig"]["s3OutputDataConfig"]["s3Uri"] == f"s3://ours/{TOKEN}/output/"


def test_requests_are_signed_and_hold_no_secret() -> None:
    with opened(STORED, CREATED) as (server, provider):
        provider.submit(submission(provider))
    assert all(
        b"authorization: AWS4-HMAC-SHA256 Credential=AKIDODD/".lower() in each.lower() for each in server.requests
    )
    assert all(b"a-secret-of-ours" not in each for each in server.requests)


def test_an_arn_stays_one_part_of_the_path() -> None:
    with opened(plain(b"{}")) as (server, provider), pytest.raises(ProviderError):
        provider.poll(ARN)
    assert server.requests[0].startswith(b"GET /model-invocation-job/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3A")
    assert b"model-invocation-job%2Fa1b2c3d4e5f6 " in server.requests[0]


def test_the_input_of_a_refused_job_is_deleted() -> None:
    refused = plain(b'{"message":"no"}', "400 No", "x-amzn-errortype: ValidationException")
    with opened(STORED, refused, STORED) as (server, provider), pytest.raises(ProviderError) as caught:
        provider.submit(submission(provider))
    assert (caught.value.code, caught.value.ambiguous) == (Fault.REFUSED, False)
    assert server.requests[-1].startswith(f"DELETE /ours/{TOKEN}/input.jsonl ".encode())


def test_a_conflict_means_that_a_job_may_be_there() -> None:
    conflict = plain(b'{"message":"no"}', "400 No", "x-amzn-errortype: ConflictException")
    with opened(STORED, conflict) as (server, provider), pytest.raises(ProviderError) as caught:
        provider.submit(submission(provider))
    assert (caught.value.ambiguous, caught.value.permanent) == (True, False)
    assert len(server.requests) == 2


def test_an_input_that_could_not_be_stored_is_not_ambiguous() -> None:
    with opened(plain(b"", "500 No")) as (_, provider), pytest.raises(ProviderError) as caught:
        provider.submit(submission(provider))
    assert (caught.value.code, caught.value.ambiguous, caught.value.permanent) == (Fault.UNAVAILABLE, False, False)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"<html></html>", b"{}", b'{"jobArn":"x"}', b"\xff"], ids=str)
def test_only_the_job_s_own_object_decides(body: bytes) -> None:
    with opened(plain(body)) as (_, provider), pytest.raises(ProviderError) as caught:
        provider.poll(ARN)
    assert (caught.value.code, caught.value.permanent) == (Fault.BROKEN_ANSWER, False)


@pytest.mark.parametrize(
    ("head", "drop"),
    [(b"", b"H"), (b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n{", b" ")],
    ids=["status", "body"],
)
def test_a_drip_ends_at_the_deadline(head: bytes, drop: bytes) -> None:
    with opened(drip(head, drop), call_seconds=0.3) as (_, provider), pytest.raises(ProviderError) as caught:
        provider.poll(ARN)
    assert (caught.value.code, caught.value.permanent) == (Fault.TIMED_OUT, False)


def test_a_drip_of_results_ends_at_the_deadline() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n"
    with (
        opened(drip(head, b"\n"), download_seconds=0.3) as (_, provider),
        pytest.raises(ProviderError) as caught,
    ):
        list(provider.results(REPORT, token=TOKEN, answer_prefix=""))
    assert caught.value.code == Fault.TIMED_OUT


def test_an_answer_over_its_bound_is_not_read_to_the_end() -> None:
    with opened(plain(b" " * (17 * 2**20))) as (_, provider), pytest.raises(ProviderError) as caught:
        provider.poll(ARN)
    assert caught.value.code == Fault.BROKEN_ANSWER


def test_results_are_read_from_where_the_report_says() -> None:
    with opened(plain(RECORD)) as (server, provider):
        (item,) = provider.results(REPORT, token=TOKEN, answer_prefix="")
    assert isinstance(item, RowResult)
    assert server.requests[0].startswith(b"GET /ours/out/a.jsonl.out ")


def test_an_output_that_storage_does_not_know_yet_is_tried_again() -> None:
    missing = plain(b"<Error><Code>NoSuchKey</Code><Message>x</Message></Error>", "404 Not Found")
    with opened(missing) as (_, provider), pytest.raises(ProviderError) as caught:
        list(provider.results(REPORT, token=TOKEN, answer_prefix=""))
    assert (caught.value.code, caught.value.permanent) == (Fault.NOT_FOUND, False)


def test_a_reader_that_stops_early_lets_go_of_the_connection() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n" + RECORD
    with opened(drip(head, b"\n"), plain(RECORD)) as (_, provider):
        stream = provider.results(REPORT, token=TOKEN, answer_prefix="")
        assert isinstance(next(stream), RowResult)
        stream.close()  # type: ignore[attr-defined]  # a generator, as every adapter's stream
        assert len(list(provider.results(REPORT, token=TOKEN, answer_prefix=""))) == 1


def test_the_environment_adds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDOFSOMEBODY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of-somebody")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-somebody")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "of-somebody")
    with opened(plain(b"{}")) as (server, provider), pytest.raises(ProviderError):
        provider.poll(ARN)
    assert b"somebody" not in server.requests[0].lower()


def test_an_incomplete_account_is_an_error_of_the_first_call() -> None:
    account = ProviderAccount(provider="bedrock", name="a", base_url="http://127.0.0.1:9", api_key="x")
    with open_provider(account) as provider, pytest.raises(ProviderError) as caught:
        provider.poll(ARN)
    assert (caught.value.code, caught.value.permanent) == (Fault.ACCOUNT_REFUSED, True)
