"""A job's states at the stand-in Bedrock follow from the clock."""

import re

import pytest
from botocore.exceptions import ClientError  # type: ignore[import-untyped]  # it comes without types

from tests.simulators.claude import BedrockDriver, record, records


def test_a_job_goes_through_its_states_in_time(bedrock: BedrockDriver) -> None:
    arn = bedrock.create(records(100))
    seen = []
    for seconds in (0, 0.5, 1, 0.5, 4.55, 5.45, 1):
        bedrock.control.advance(seconds)
        job = bedrock.get(arn)
        seen.append((job["status"], job.get("processedRecordCount")))
    assert seen == [
        ("Submitted", None),
        ("Validating", None),
        ("Scheduled", None),
        ("InProgress", 0),
        ("InProgress", 45),
        ("InProgress", 100),
        ("Completed", 100),
    ]
    assert (job["endTime"] - job["submitTime"]).total_seconds() == 13


def test_asking_once_late_or_often_gives_the_same_results(bedrock: BedrockDriver) -> None:
    often, late = bedrock.create(records(30)), bedrock.create(records(30))
    for _ in range(16):
        bedrock.control.advance(0.5)
        bedrock.get(often)
    first, second = bedrock.get(often), bedrock.get(late)
    assert first["endTime"] == second["endTime"]
    assert bedrock.lines(first) == bedrock.lines(second)
    assert list(bedrock.results(first)) != [f"ROW{number}" for number in range(30)]


def test_the_output_is_there_once_the_ended_job_was_asked_for(bedrock: BedrockDriver) -> None:
    bedrock.create(records(3))
    bedrock.control.advance(60)
    assert bedrock.object_keys() == ["in/rows.jsonl"]
    assert bedrock.control.state()["batches_by_status"] == {"Completed": 1}
    assert [key.rsplit("/", maxsplit=1)[-1] for key in bedrock.object_keys()] == [
        "rows.jsonl",
        "manifest.json.out",
        "rows.jsonl.out",
    ]


def test_the_input_is_what_it_was_when_the_job_was_made(bedrock: BedrockDriver) -> None:
    arn = bedrock.create(records(3))
    bedrock.s3.delete_object(Bucket="lane", Key="in/rows.jsonl")
    bedrock.control.advance(60)
    assert bedrock.get(arn)["successRecordCount"] == 3


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([record("ONE")], r"fewer records \(1\) than the required minimum of: 2"),
        ([record("ONE"), "{"], "Line 2 .* malformed JSON"),
        ([record("ONE"), "[]"], "Line 2 .* not an object"),
        ([record("ONE"), '{"recordId":"TWO"}'], "Line 2 .* modelInput is missing"),
        ([record("ONE"), '{"recordId":2,"modelInput":{}}'], "Line 2 .* recordId is not a string"),
        (records(6), r"more records \(6\) than the allowed maximum of: 5"),
    ],
)
def test_a_bad_input_fails_the_job_in_validation(bedrock: BedrockDriver, lines: list[object], message: str) -> None:
    bedrock.control.change_settings(max_record_count=5)
    arn = bedrock.create(lines)
    bedrock.control.advance(1)
    assert bedrock.get(arn)["status"] == "Validating"
    bedrock.control.advance(60)
    job = bedrock.get(arn)
    assert job["status"] == "Failed"
    assert re.search(message, job["message"])


def test_a_hundred_records_are_the_least_by_default(bedrock: BedrockDriver) -> None:
    bedrock.control.change_settings(min_record_count=100)
    assert bedrock.run(records(99))["status"] == "Failed"
    assert bedrock.run(records(100))["status"] == "Completed"


def test_blank_lines_are_no_records(bedrock: BedrockDriver) -> None:
    job = bedrock.run(["", *records(2), "", ""])
    assert sorted(bedrock.results(job)) == ["ROW0", "ROW1"]


def test_an_input_that_is_missing_or_too_large_fails_the_job(bedrock: BedrockDriver) -> None:
    missing = bedrock.submit("s3://lane/in/none.jsonl")
    bedrock.control.change_settings(max_input_bytes=100)
    large = bedrock.create(records(3))
    bedrock.control.advance(60)
    assert "cannot be read" in bedrock.get(missing)["message"]
    assert "larger than" in bedrock.get(large)["message"]
    assert {bedrock.get(arn)["status"] for arn in (missing, large)} == {"Failed"}


def test_an_output_that_cannot_be_written_fails_the_job(bedrock: BedrockDriver) -> None:
    job = bedrock.run(records(2), outputDataConfig={"s3OutputDataConfig": {"s3Uri": "s3://nowhere/out/"}})
    assert job["status"] == "Failed"
    assert "cannot be written" in job["message"]


def test_a_stopped_job_keeps_what_was_done(bedrock: BedrockDriver) -> None:
    arn = bedrock.create(records(20))
    bedrock.control.advance(2.5)
    bedrock.bedrock.stop_model_invocation_job(jobIdentifier=arn)
    bedrock.bedrock.stop_model_invocation_job(jobIdentifier=arn)
    assert bedrock.get(arn)["status"] == "Stopping"
    bedrock.control.advance(1)
    job = bedrock.get(arn)
    assert (job["status"], job["processedRecordCount"], len(bedrock.lines(job))) == ("Stopped", 5, 5)
    with pytest.raises(ClientError) as refused:
        bedrock.bedrock.stop_model_invocation_job(jobIdentifier=arn)
    assert refused.value.response["Error"]["Code"] == "ConflictException"


@pytest.mark.parametrize(("seconds", "keeps"), [(0.2, True), (2.5, False)])
def test_a_stopped_job_may_leave_nothing(bedrock: BedrockDriver, seconds: float, *, keeps: bool) -> None:
    bedrock.control.change_settings(stop_keeps_output=keeps)
    arn = bedrock.create(records(20))
    bedrock.control.advance(seconds)
    bedrock.bedrock.stop_model_invocation_job(jobIdentifier=arn)
    bedrock.control.advance(1)
    assert bedrock.get(arn)["status"] == "Stopped"
    assert bedrock.object_keys() == ["in/rows.jsonl"]


def test_a_job_that_never_started_in_time_has_expired(bedrock: BedrockDriver) -> None:
    bedrock.control.change_settings(scheduled_seconds=100_000)
    job = bedrock.run(records(3), seconds=86_399)
    assert job["status"] == "Scheduled"
    bedrock.control.advance(1)
    job = bedrock.get(job["jobArn"])
    assert (job["status"], job["endTime"]) == ("Expired", job["jobExpirationTime"])
    assert bedrock.object_keys() == ["in/rows.jsonl"]


def test_a_job_that_was_not_done_in_time_is_partial(bedrock: BedrockDriver) -> None:
    bedrock.control.change_settings(rows_per_second=2 / 86_400)
    job = bedrock.run(records(5), seconds=90_000)
    assert (job["status"], job["endTime"]) == ("PartiallyCompleted", job["jobExpirationTime"])
    assert (job["totalRecordCount"], job["processedRecordCount"], len(bedrock.lines(job))) == (5, 1, 1)


def test_the_speed_can_be_turned_while_a_job_runs(bedrock: BedrockDriver) -> None:
    arn = bedrock.create(records(100))
    bedrock.control.advance(3)
    bedrock.control.change_settings(rows_per_second=1)
    bedrock.control.advance(5)
    assert bedrock.get(arn)["processedRecordCount"] == 15
