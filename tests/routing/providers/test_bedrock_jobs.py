"""Bedrock's job objects as the SDK parses them, and what an account's fields say."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import ProviderError
from routing.providers.base import TOKEN_PATTERN, Fault, JobEnding, JobState, ProviderAccount
from routing.providers.bedrock.account import read_account
from routing.providers.bedrock.jobs import (
    client_token,
    job_name,
    place_of,
    read_page,
    read_reference,
    read_report,
    refusal,
)

AT = datetime(2026, 11, 24, 12, 0, 0, tzinfo=UTC)
ARN = "arn:aws:bedrock:us-east-1:123456789012:model-invocation-job/a1b2c3d4e5f6"
URL = "https://bedrock.us-east-1.amazonaws.com/?region=us-east-1&bucket=ours&role=arn:aws:iam::1:role/batch"


def job(status: str, **members: Any) -> dict[str, Any]:
    return {
        "jobArn": ARN,
        "jobName": job_name("0123456789abcdef"),
        "status": status,
        "submitTime": AT,
        "endTime": AT,
        "inputDataConfig": {"s3InputDataConfig": {"s3Uri": "s3://ours/0123/input.jsonl"}},
        "outputDataConfig": {"s3OutputDataConfig": {"s3Uri": "s3://ours/0123/output/"}},
        **members,
    }


def refused(status_code: int, code: str, sentence: str = "A prompt.", **headers: str) -> ProviderError:
    answer = {
        "Error": {"Code": code, "Message": sentence},
        "ResponseMetadata": {"HTTPStatusCode": status_code, "HTTPHeaders": headers},
    }
    return refusal(answer, at=AT)


def account(base_url: str = URL, api_key: str = "AKID:secret") -> ProviderAccount:
    return ProviderAccount(provider="bedrock", name="a", base_url=base_url, api_key=api_key)


@pytest.mark.parametrize("status", ["Submitted", "Validating", "Scheduled", "InProgress", "Stopping", "ANewWord"])
def test_every_other_word_is_running_and_has_no_results(status: str) -> None:
    found = read_report(job(status), ARN)
    assert (found.state, found.ending, found.completed_at, found.result_refs) == (JobState.RUNNING, None, None, ())


@pytest.mark.parametrize(
    ("status", "ending", "has_output"),
    [
        ("Completed", JobEnding.COMPLETED, True),
        ("PartiallyCompleted", JobEnding.EXPIRED, True),
        ("Stopped", JobEnding.CANCELLED, True),
        ("Expired", JobEnding.EXPIRED, False),
        ("Failed", JobEnding.FAILED, False),
    ],
)
def test_an_ending_names_its_output_where_there_is_one(status: str, ending: JobEnding, has_output: object) -> None:
    found = read_report(job(status, successRecordCount=4, errorRecordCount=1), ARN)
    assert (found.ending, found.completed_at) == (ending, AT)
    assert (found.done_count, found.failed_count) == (4, 1)
    assert found.result_refs == (("s3://ours/0123/output/a1b2c3d4e5f6/input.jsonl.out",) if has_output else ())


def test_an_output_s_name_gives_its_place() -> None:
    assert place_of("s3://ours/a/b.out") == ("ours", "a/b.out")


@pytest.mark.parametrize(
    ("sentence", "fault"),
    [
        ("The input contains fewer records (1) than the required minimum of: 100", Fault.REFUSED),
        ("The provided model identifier is invalid.", Fault.MODEL_GONE),
        (None, Fault.REFUSED),
    ],
)
def test_a_failed_job_says_why_without_the_provider_s_ids(sentence: str | None, fault: Fault) -> None:
    found = read_report(job("Failed", message=sentence and f"{sentence} {ARN}"), ARN)
    assert found.fault is fault
    assert "123456789012" not in (found.message or "")


@pytest.mark.parametrize(
    "described",
    [
        {},
        {**job("Completed"), "jobArn": "arn:other"},
        {**job("Completed"), "status": 5},
        {**job("Completed"), "endTime": "now"},
        {**job("Completed"), "outputDataConfig": {}},
        {**job("Completed"), "inputDataConfig": {"s3InputDataConfig": {"s3Uri": "file:x"}}},
    ],
    ids=["empty", "other", "status", "instant", "output", "input"],
)
def test_what_is_not_the_job_s_own_object_decides_nothing(described: dict[str, Any]) -> None:
    with pytest.raises(ProviderError) as caught:
        read_report(described, ARN)
    assert (caught.value.code, caught.value.permanent) == (Fault.BROKEN_ANSWER, False)


@pytest.mark.parametrize("answer", [{}, {"jobArn": ""}, {"jobArn": 5}], ids=str)
def test_an_answer_without_an_arn_is_broken(answer: dict[str, Any]) -> None:
    with pytest.raises(ProviderError):
        read_reference(answer)


def test_a_listed_job_says_its_token_and_another_s_says_none() -> None:
    other = job("Completed", jobName="somebody-elses", totalRecordCount=7)
    page = read_page({"invocationJobSummaries": [job("InProgress"), other], "nextToken": "n"})
    assert [(each.token, each.row_count) for each in page.jobs] == [("0123456789abcdef", None), (None, 7)]
    assert page.next_token == "n"


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"invocationJobSummaries": {}},
        {"invocationJobSummaries": [5]},
        {"invocationJobSummaries": [{"jobArn": ARN}]},
    ],
    ids=str,
)
def test_what_is_no_list_is_broken(answer: dict[str, Any]) -> None:
    with pytest.raises(ProviderError):
        read_page(answer)


@given(st.from_regex(TOKEN_PATTERN, fullmatch=True))
def test_every_token_comes_back_from_its_name(token: str) -> None:
    name = job_name(token)
    page = read_page({"invocationJobSummaries": [job("Completed", jobName=name)]})
    assert len(name) <= 63
    assert "_" not in name
    assert page.jobs[0].token == token


@given(st.from_regex(TOKEN_PATTERN, fullmatch=True))
def test_a_client_token_has_bedrock_s_alphabet(token: str) -> None:
    assert client_token(token).replace("-", "").isalnum()
    assert client_token("0123456789abcdef") == "0123456789abcdef"


@pytest.mark.parametrize(
    ("status_code", "code", "sentence", "fault", "permanent"),
    [
        (400, "ValidationException", "No.", Fault.REFUSED, True),
        (400, "ValidationException", "The provided model identifier is invalid.", Fault.MODEL_GONE, True),
        (400, "ConflictException", "No.", Fault.UNAVAILABLE, False),
        (400, "ServiceQuotaExceededException", "No.", Fault.LANE_FULL, False),
        (403, "AccessDeniedException", "No.", Fault.ACCOUNT_REFUSED, True),
        (403, "UnrecognizedClientException", "No.", Fault.ACCOUNT_REFUSED, True),
        (404, "ResourceNotFoundException", "No.", Fault.NOT_FOUND, True),
        (404, "NoSuchKey", "No.", Fault.NOT_FOUND, True),
        (404, "NoSuchBucket", "No.", Fault.ACCOUNT_REFUSED, True),
        (429, "ThrottlingException", "No.", Fault.RATE_LIMITED, False),
        (503, "SlowDown", "No.", Fault.RATE_LIMITED, False),
        (500, "InternalServerException", "No.", Fault.UNAVAILABLE, False),
        (404, "404", "Not Found", Fault.UNAVAILABLE, False),
        (403, "", "", Fault.UNAVAILABLE, False),
        (429, "429", "", Fault.RATE_LIMITED, False),
    ],
)
def test_a_refusal_says_what_to_do(status_code: int, code: str, sentence: str, fault: Fault, permanent: object) -> None:
    found = refused(status_code, code, sentence)
    assert (found.code, found.permanent) == (fault, permanent)
    assert sentence not in found.message or not sentence


def test_a_refusal_says_when_to_come_back() -> None:
    assert refused(429, "ThrottlingException", **{"retry-after": "7"}).retry_after_seconds == 7


def test_an_account_is_read_from_its_url_and_key() -> None:
    read = read_account(account(f"{URL}&prefix=/a/b/&storage=http://127.0.0.1:9", "AKID:secret:session:1"))
    assert (read.control_url, read.storage_url) == ("https://bedrock.us-east-1.amazonaws.com", "http://127.0.0.1:9")
    assert (read.region, read.bucket, read.prefix) == ("us-east-1", "ours", "a/b/")
    assert (read.access_key_id, read.secret_access_key, read.session_token) == ("AKID", "secret", "session:1")
    assert "secret" not in repr(read)


def test_storage_is_the_region_s_own_where_nothing_else_is_said() -> None:
    assert read_account(account()).storage_url == "https://s3.us-east-1.amazonaws.com"


@pytest.mark.parametrize(
    ("base_url", "api_key", "named"),
    [
        ("https://bedrock.us-east-1.amazonaws.com", "A:b", "region, bucket, role"),
        (URL.replace("bucket", "basket"), "A:b", "bucket"),
        (URL, "only-an-id", "id:secret"),
        (URL, ":secret", "id:secret"),
    ],
)
def test_an_incomplete_account_says_what_is_missing(base_url: str, api_key: str, named: str) -> None:
    with pytest.raises(ProviderError) as caught:
        read_account(account(base_url, api_key))
    assert (caught.value.code, caught.value.permanent) == (Fault.ACCOUNT_REFUSED, True)
    assert named in caught.value.message
