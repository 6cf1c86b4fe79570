"""Everything that can be made to go wrong at the stand-in Bedrock and its S3."""

from typing import Any

import pytest
from botocore.exceptions import (  # type: ignore[import-untyped]  # it comes without types
    ClientError,
    ConnectionClosedError,
    IncompleteReadError,
    ResponseStreamingError,
)

from tests.simulators.claude import BEDROCK_MODEL, BedrockDriver, record, records

CREATE = "create_model_invocation_job"


def jobs(bedrock: BedrockDriver) -> list[Any]:
    found: list[Any] = bedrock.bedrock.list_model_invocation_jobs()["invocationJobSummaries"]
    return found


@pytest.mark.parametrize(
    ("fields", "code", "status_code"),
    [
        ({}, "InternalServerException", 500),
        ({"status_code": 429}, "ThrottlingException", 429),
        ({"status_code": 403}, "AccessDeniedException", 403),
        ({"status_code": 400, "code": "ServiceQuotaExceededException"}, "ServiceQuotaExceededException", 400),
        ({"status_code": 503, "retry_after_seconds": 3}, "ServiceUnavailableException", 503),
    ],
)
def test_a_call_can_be_refused(bedrock: BedrockDriver, fields: dict[str, Any], code: str, status_code: int) -> None:
    bedrock.control.add_fault("http_error", operation=CREATE, times=1, message="No.", **fields)
    with pytest.raises(ClientError) as refused:
        bedrock.create(records(2))
    response = refused.value.response
    assert response["Error"] == {"Code": code, "Message": "No."}
    assert response["ResponseMetadata"]["HTTPStatusCode"] == status_code
    assert jobs(bedrock) == []


def test_a_proxy_page_comes_instead_of_an_answer(bedrock: BedrockDriver) -> None:
    bedrock.control.add_fault("html_page", operation=CREATE)
    with pytest.raises(ClientError) as page:
        bedrock.create(records(2))
    assert page.value.response["ResponseMetadata"]["HTTPStatusCode"] == 502


def test_a_connection_cut_after_the_create_is_healed_by_the_token(bedrock: BedrockDriver) -> None:
    bedrock.control.add_fault("cut_after", operation=CREATE, times=1)
    uri = bedrock.upload(records(2))
    with pytest.raises(ConnectionClosedError):
        bedrock.submit(uri, clientRequestToken="token-1")
    (orphan,) = jobs(bedrock)
    assert orphan["clientRequestToken"] == "token-1"
    assert bedrock.submit(uri, clientRequestToken="token-1") == orphan["jobArn"]
    assert len(jobs(bedrock)) == 1


def test_a_connection_cut_before_the_create_leaves_nothing(bedrock: BedrockDriver) -> None:
    bedrock.control.add_fault("cut_before", operation=CREATE, times=1)
    with pytest.raises(ConnectionClosedError):
        bedrock.create(records(2))
    assert jobs(bedrock) == []


def test_a_fault_can_be_meant_for_one_key_and_one_model(bedrock: BedrockDriver) -> None:
    bedrock.control.add_fault("http_error", operation=CREATE, key="AKIADRIVER", model=BEDROCK_MODEL)
    bedrock.control.add_fault("http_error", operation=CREATE, key="AKIAOTHER")
    bedrock.create(records(2), modelId="anthropic.claude-opus-5-v1:0")
    with pytest.raises(ClientError):
        bedrock.create(records(2))


def test_a_fault_can_be_meant_for_the_model_of_a_job(bedrock: BedrockDriver) -> None:
    arn = bedrock.create(records(2))
    bedrock.control.add_fault("http_error", operation="get_model_invocation_job", model=BEDROCK_MODEL, times=1)
    with pytest.raises(ClientError):
        bedrock.get(arn)
    assert bedrock.get(arn)["status"] == "Submitted"


def test_a_job_can_be_made_to_fail(bedrock: BedrockDriver) -> None:
    bedrock.control.add_fault("fail_batch", message="Internal failure.", times=1)
    job = bedrock.run(records(2))
    assert (job["status"], job["message"]) == ("Failed", "Internal failure.")
    assert bedrock.run(records(2))["status"] == "Completed"


def test_a_job_can_be_made_to_expire(bedrock: BedrockDriver) -> None:
    bedrock.control.add_fault("expire_batch", times=1)
    assert bedrock.run(records(3), seconds=30)["status"] == "Expired"
    bedrock.control.add_fault("expire_batch", after_rows=2, times=1)
    job = bedrock.run(records(3), seconds=30)
    assert (job["status"], len(bedrock.lines(job))) == ("PartiallyCompleted", 2)


def test_a_record_can_be_made_to_fail_or_to_time_out(bedrock: BedrockDriver) -> None:
    bedrock.control.add_fault("row_error", custom_id="ROW1", status_code=529, message="Overloaded")
    bedrock.control.add_fault("row_unrun", custom_id="ROW2")
    job = bedrock.run(records(4))
    assert (job["status"], job["successRecordCount"], job["errorRecordCount"]) == ("Completed", 2, 2)
    results = bedrock.results(job)
    assert results["ROW1"]["error"] == {"errorCode": 529, "errorMessage": "Overloaded"}
    assert results["ROW2"]["error"]["errorCode"] == 408


def test_a_record_can_be_missing_come_twice_or_be_foreign(bedrock: BedrockDriver) -> None:
    bedrock.control.add_fault("row_missing", custom_id="ROW0")
    bedrock.control.add_fault("row_duplicated", custom_id="ROW1")
    bedrock.control.add_fault("row_foreign", custom_id="ROW2", message="FOREIGN")
    names = sorted(line["recordId"] for line in bedrock.lines(bedrock.run(records(4))))
    assert names == ["FOREIGN", "ROW1", "ROW1", "ROW2", "ROW3"]


def test_markers_and_usage_faults_work_as_everywhere(bedrock: BedrockDriver) -> None:
    bedrock.control.add_fault("row_usage", custom_id="ROW0", cached_tokens=5)
    lines = [*records(1), record("FAIL", "[[sim:fail]]"), record("ONCE", "[[sim:fail_once]]")]
    results = bedrock.results(bedrock.run(lines))
    assert results["ROW0"]["modelOutput"]["usage"]["cache_read_input_tokens"] == 5
    assert (results["FAIL"]["error"]["errorCode"], results["ONCE"]["error"]["errorCode"]) == (500, 500)
    assert "modelOutput" in bedrock.results(bedrock.run(lines))["ONCE"]


def test_s3_can_refuse_and_give_pages(bedrock: BedrockDriver) -> None:
    bedrock.control.add_fault("http_error", operation="s3.put_object", times=1, retry_after_seconds=2)
    with pytest.raises(ClientError) as refused:
        bedrock.upload(records(2))
    assert refused.value.response["Error"]["Code"] == "SlowDown"
    bedrock.control.add_fault("html_page", operation="s3.list_objects", times=1)
    with pytest.raises(ClientError) as page:
        bedrock.object_keys()
    assert page.value.response["ResponseMetadata"]["HTTPStatusCode"] == 502
    bedrock.upload(records(2))
    assert bedrock.object_keys() == ["in/rows.jsonl"]


@pytest.mark.parametrize(("kind", "kept"), [("cut_before", []), ("cut_after", ["in/rows.jsonl"])])
def test_an_upload_to_s3_can_be_cut(bedrock: BedrockDriver, kind: str, kept: list[str]) -> None:
    bedrock.control.add_fault(kind, operation="s3.put_object", times=1)
    with pytest.raises(ConnectionClosedError):
        bedrock.upload(records(2))
    assert bedrock.object_keys() == kept
    calls: Any = bedrock.control.state()["calls"]
    assert calls["by_status"]["s3.put_object"] == {kind: 1}


def test_a_download_from_s3_can_be_cut_in_the_middle(bedrock: BedrockDriver) -> None:
    job = bedrock.run(records(20))
    whole = bedrock.read(job, "rows.jsonl.out")
    bedrock.control.add_fault("cut_midway", operation="s3.get_object", times=1)
    with pytest.raises((IncompleteReadError, ResponseStreamingError)):
        bedrock.read(job, "rows.jsonl.out")
    assert bedrock.read(job, "rows.jsonl.out") == whole


def test_s3_can_be_slow_while_the_service_itself_reads_undisturbed(bedrock: BedrockDriver) -> None:
    uri = bedrock.upload(records(2))
    bedrock.control.add_fault("slow", operation="s3.get_object", delay_seconds=0.1, times=1)
    arn = bedrock.submit(uri)
    bedrock.control.advance(60)
    assert bedrock.get(arn)["status"] == "Completed"
    (fault,) = bedrock.control.faults()
    assert fault["fired_count"] == 0
    assert bedrock.read(bedrock.get(arn), "rows.jsonl.out")
    (fault,) = bedrock.control.faults()
    assert fault["fired_count"] == 1
