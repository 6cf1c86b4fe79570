"""The stand-in Bedrock as boto3 sees it."""

import json
from datetime import UTC, datetime
from typing import Any

import httpx2 as httpx
import pytest
from botocore.exceptions import ClientError  # type: ignore[import-untyped]  # it comes without types

from tests.simulators.claude import BEDROCK_MODEL, BedrockDriver, record, records
from tests.simulators.conftest import driving_bedrock
from tests.simulators.driver import FROZEN_AT


def code_of(refused: pytest.ExceptionInfo[Any]) -> tuple[str, int]:
    response = refused.value.response
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]


def test_a_new_job_has_what_was_asked(bedrock: BedrockDriver) -> None:
    arn = bedrock.create(records(2), timeoutDurationInHours=48, clientRequestToken="token-1")
    job = bedrock.get(arn)
    del job["ResponseMetadata"]
    submitted = datetime.fromtimestamp(FROZEN_AT, UTC)
    assert job == {
        "jobArn": arn,
        "jobName": "job-1",
        "modelId": BEDROCK_MODEL,
        "clientRequestToken": "token-1",
        "roleArn": "arn:aws:iam::123456789012:role/batch",
        "status": "Submitted",
        "submitTime": submitted,
        "lastModifiedTime": submitted,
        "inputDataConfig": {"s3InputDataConfig": {"s3Uri": "s3://lane/in/rows.jsonl", "s3InputFormat": "JSONL"}},
        "outputDataConfig": {"s3OutputDataConfig": {"s3Uri": "s3://lane/out/"}},
        "timeoutDurationInHours": 48,
        "jobExpirationTime": datetime.fromtimestamp(FROZEN_AT + 48 * 3_600, UTC),
        "modelInvocationType": "InvokeModel",
    }
    assert bedrock.get(arn.rsplit("/", maxsplit=1)[-1])["jobArn"] == arn


def test_a_record_comes_back_with_its_input_and_a_message(bedrock: BedrockDriver) -> None:
    asked = record("ROW1", max_tokens=12)
    job = bedrock.run([asked, record("ROW2", max_tokens=0)])
    results = bedrock.results(job)
    message = results["ROW1"]["modelOutput"]
    assert results["ROW1"] == {**asked, "modelOutput": message}
    assert (message["model"], message["stop_reason"]) == ("claude-haiku-4-5-20251001", "max_tokens")
    assert message["usage"] == {
        "input_tokens": 3 + 4 + 6,
        "output_tokens": 12,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
    }
    assert results["ROW2"]["error"]["errorCode"] == 400
    assert "modelOutput" not in results["ROW2"]


def test_the_manifest_counts_records_and_tokens(bedrock: BedrockDriver) -> None:
    job = bedrock.run([*records(5), record("BAD", max_tokens=0)])
    usages = [line["modelOutput"]["usage"] for line in bedrock.lines(job) if "modelOutput" in line]
    assert json.loads(bedrock.read(job, "manifest.json.out")) == {
        "totalRecordCount": 6,
        "processedRecordCount": 6,
        "successRecordCount": 5,
        "errorRecordCount": 1,
        "inputTokenCount": sum(usage["input_tokens"] for usage in usages),
        "outputTokenCount": sum(usage["output_tokens"] for usage in usages),
    }


def test_a_record_without_an_id_gets_one(bedrock: BedrockDriver) -> None:
    bare = {"modelInput": record("x")["modelInput"]}
    names = list(bedrock.results(bedrock.run([bare, record("ROW1")])))
    (given,) = set(names) - {"ROW1"}
    assert len(given) == 11


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"anthropic_version": "2023-06-01"}, "anthropic_version: Input should be 'bedrock-2023-05-31'"),
        ({"model": "claude-haiku-4-5"}, "model: Extra inputs are not permitted"),
        ({"messages": []}, "messages: at least one message is required"),
    ],
)
def test_a_record_that_does_not_fit_the_model_is_an_error_of_its_own(
    bedrock: BedrockDriver, changes: dict[str, Any], message: str
) -> None:
    results = bedrock.results(bedrock.run([record("BAD", **changes), record("GOOD")]))
    assert results["BAD"]["error"] == {"errorCode": 400, "errorMessage": message}
    assert "modelOutput" in results["GOOD"]


def test_the_same_token_gives_the_same_job_and_another_body_is_a_conflict(bedrock: BedrockDriver) -> None:
    uri = bedrock.upload(records(2))
    first = bedrock.submit(uri, clientRequestToken="token-1")
    assert bedrock.submit(uri, clientRequestToken="token-1") == first
    assert bedrock.submit(uri, clientRequestToken="token-2") != first
    with pytest.raises(ClientError) as refused:
        bedrock.submit(uri, clientRequestToken="token-1", jobName="job-2")
    assert code_of(refused) == ("ConflictException", 400)
    assert len(bedrock.bedrock.list_model_invocation_jobs()["invocationJobSummaries"]) == 2


def test_too_many_open_jobs_are_a_400(bedrock: BedrockDriver) -> None:
    bedrock.control.change_settings(max_open_jobs=1)
    bedrock.create(records(2))
    with pytest.raises(ClientError) as refused:
        bedrock.create(records(2))
    assert code_of(refused) == ("ServiceQuotaExceededException", 400)
    bedrock.create(records(2), modelId="us.anthropic.claude-opus-5-v1:0")
    bedrock.control.advance(60)
    bedrock.create(records(2))


@pytest.mark.parametrize(
    "fields",
    [
        {"jobName": "a job"},
        {"roleArn": "role"},
        {"modelId": "amazon.titan-embed-text-v2:0"},
        {"modelId": "anthropic.claude-gone"},
        {"clientRequestToken": "a b"},
        {"timeoutDurationInHours": 169},
        {"modelInvocationType": "Converse"},
        {"inputDataConfig": {"s3InputDataConfig": {"s3Uri": "s3://lane/in/rows.txt"}}},
        {"inputDataConfig": {"s3InputDataConfig": {"s3Uri": "https://lane/in/rows.jsonl"}}},
        {"outputDataConfig": {"s3OutputDataConfig": {"s3Uri": "s3:/lane"}}},
    ],
)
def test_a_create_of_a_wrong_shape_is_refused(bedrock: BedrockDriver, fields: dict[str, Any]) -> None:
    bedrock.control.change_settings(unknown_models=["anthropic.claude-gone"])
    uri = bedrock.upload(records(2))
    with pytest.raises(ClientError) as refused:
        bedrock.submit(uri, **fields)
    assert code_of(refused) == ("ValidationException", 400)


@pytest.mark.parametrize(
    ("body", "message"),
    [(b"nonsense", "not valid JSON"), (b"[]", "not an object"), (b'{"jobNam":"x"}', "Unexpected"), (b"{}", "jobName")],
)
def test_a_body_of_a_wrong_shape_is_refused(bedrock: BedrockDriver, body: bytes, message: str) -> None:
    with httpx.Client() as client:
        answer = client.post(
            f"{bedrock.simulator.url}/model-invocation-job", content=body, headers={"authorization": "Bearer token"}
        )
    assert (answer.status_code, answer.headers["x-amzn-errortype"].split(":")[0]) == (400, "ValidationException")
    assert message in answer.json()["message"]


SIGNED = (
    "AWS4-HMAC-SHA256 Credential=AKIA/20261129/us-east-1/{service}/aws4_request, SignedHeaders=host;x-amz-date, "
    "Signature=" + "0" * 64
)


@pytest.mark.parametrize(
    ("headers", "status_code", "error_type"),
    [
        ({}, 403, "MissingAuthenticationTokenException"),
        ({"authorization": "Basic abc"}, 403, "AccessDeniedException"),
        ({"authorization": SIGNED.format(service="bedrock")}, 403, "AccessDeniedException"),
        ({"authorization": SIGNED.format(service="s3"), "x-amz-date": "x"}, 403, "UnrecognizedClientException"),
        ({"authorization": "Bearer AKIABAD"}, 403, "UnrecognizedClientException"),
        ({"authorization": SIGNED.format(service="bedrock"), "x-amz-date": "x"}, 200, ""),
        ({"authorization": "Bearer token"}, 200, ""),
    ],
)
def test_a_signature_is_taken_by_its_shape(
    bedrock: BedrockDriver, headers: dict[str, str], status_code: int, error_type: str
) -> None:
    bedrock.control.change_settings(bad_keys=["AKIABAD"])
    with httpx.Client() as client:
        answer = client.get(f"{bedrock.simulator.url}/model-invocation-jobs", headers=headers)
    assert (answer.status_code, answer.headers.get("x-amzn-errortype", "").split(":")[0]) == (status_code, error_type)


def test_an_unknown_operation_is_a_404(bedrock: BedrockDriver) -> None:
    with pytest.raises(ClientError) as refused:
        bedrock.bedrock.list_foundation_models()
    assert code_of(refused) == ("UnknownOperationException", 404)


def test_another_account_and_a_made_up_job_are_not_found(bedrock: BedrockDriver) -> None:
    arn = bedrock.create(records(2))
    for other in driving_bedrock(bedrock.simulator, "AKIAOTHER"):
        assert other.bedrock.list_model_invocation_jobs()["invocationJobSummaries"] == []
        with pytest.raises(ClientError) as refused:
            other.get(arn)
        assert code_of(refused) == ("ResourceNotFoundException", 404)
    for wrong in (arn.replace("us-east-1", "us-west-2"), "aaaaaaaaaaaa"):
        with pytest.raises(ClientError) as refused:
            bedrock.get(wrong)
        assert code_of(refused) == ("ResourceNotFoundException", 404)


def test_lists_are_paged_ordered_and_filtered(bedrock: BedrockDriver) -> None:
    made = []
    for number in range(5):
        made.append(bedrock.create(records(2), jobName=f"job-{number}"))
        bedrock.control.advance(100)
    listed = bedrock.bedrock.list_model_invocation_jobs

    def arns(**query: Any) -> list[str]:
        return [job["jobArn"] for job in listed(**query)["invocationJobSummaries"]]

    assert arns() == made[::-1]
    assert arns(sortBy="CreationTime", sortOrder="Ascending") == made
    paginator = bedrock.bedrock.get_paginator("list_model_invocation_jobs")
    pages = [page["invocationJobSummaries"] for page in paginator.paginate(PaginationConfig={"PageSize": 2})]
    assert [[job["jobArn"] for job in page] for page in pages] == [made[4:2:-1], made[2:0:-1], made[:1]]
    assert arns(nameContains="b-3") == [made[3]]
    assert arns(statusEquals="Completed") == made[::-1]
    assert arns(statusEquals="Failed") == []
    moment = datetime.fromtimestamp(FROZEN_AT + 200, UTC)
    assert arns(submitTimeAfter=moment) == [made[4], made[3]]
    assert arns(submitTimeBefore=moment) == [made[1], made[0]]
    with pytest.raises(ClientError, match="nextToken"):
        listed(nextToken="made-up")
