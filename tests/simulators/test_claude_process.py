"""The two sellers of Claude as processes of their own: killed, started again, asked to stop."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
from anthropic import Anthropic

from simulators.bedrock.running import RunningBedrock
from simulators.running import SimulatorProcess, running_process
from tests.simulators.claude import OLD_VERSION, AnthropicDriver, BedrockDriver, record, records, row, rows
from tests.simulators.conftest import driving_bedrock
from tests.simulators.driver import FROZEN_AT


@pytest.fixture
def anthropic_process(tmp_path: Path) -> Iterator[SimulatorProcess]:
    with running_process("anthropic", tmp_path / "state", ["--rows-per-second=10"]) as started:
        started.simulator.control.freeze(FROZEN_AT)
        yield started


@pytest.fixture
def claude(anthropic_process: SimulatorProcess) -> Iterator[AnthropicDriver]:
    url = anthropic_process.simulator.base_url
    with Anthropic(base_url=url, api_key="sk", max_retries=0, default_headers=OLD_VERSION) as client:
        yield AnthropicDriver(anthropic_process.simulator, client)


@pytest.fixture
def bedrock_process(tmp_path: Path) -> Iterator[SimulatorProcess]:
    with running_process("bedrock", tmp_path / "state", ["--rows-per-second=10", "--s3-port=0"]) as started:
        started.simulator.control.freeze(FROZEN_AT)
        started.simulator.control.change_settings(min_record_count=1)
        yield started


@pytest.fixture
def bedrock(bedrock_process: SimulatorProcess) -> Iterator[BedrockDriver]:
    simulator = bedrock_process.simulator
    s3_url = cast("str", simulator.control.state()["s3_url"])
    yield from driving_bedrock(RunningBedrock(simulator.url, simulator.base_path, s3_url))


def test_a_killed_anthropic_loses_nothing_and_goes_on(
    anthropic_process: SimulatorProcess, claude: AnthropicDriver, tmp_path: Path
) -> None:
    done = claude.run(rows(5))
    lines = claude.lines(done)
    running = claude.create([*rows(30), row("once", "[[sim:fail_once]]")])
    claude.control.add_fault("row_error", custom_id="row-7", times=1)
    claude.control.advance(2)
    claude.batches.retrieve(running.id)
    anthropic_process.kill()
    path = tmp_path / "state" / "results" / running.id
    path.write_bytes(path.read_bytes() + b'{"half a li')
    anthropic_process.restart()
    assert claude.batches.retrieve(done.id) == done
    assert claude.lines(done) == lines
    claude.control.advance(60)
    ended = claude.batches.retrieve(running.id)
    assert (ended.request_counts.succeeded, ended.request_counts.errored) == (29, 2)
    assert sorted(line["custom_id"] for line in claude.lines(ended)) == sorted(
        ["once", *(f"row-{number}" for number in range(30))]
    )
    assert claude.control.call_count("batches.create") == 2


def test_a_killed_bedrock_loses_neither_jobs_nor_objects(
    bedrock_process: SimulatorProcess, bedrock: BedrockDriver, tmp_path: Path
) -> None:
    bedrock.s3.create_bucket(Bucket="other")
    done = bedrock.run(records(5))
    lines = bedrock.lines(done)
    arn = bedrock.create([*records(30), record("ONCE", "[[sim:fail_once]]")])
    bedrock.upload(records(1), "odd name/ü #1.jsonl")
    bedrock.upload(records(1), "gone.jsonl")
    bedrock.s3.delete_object(Bucket="lane", Key="gone.jsonl")
    bedrock.control.advance(4)
    assert bedrock.get(arn)["processedRecordCount"] == 20
    bedrock_process.kill()
    path = tmp_path / "state" / "results" / arn.rsplit("/", maxsplit=1)[-1]
    path.write_bytes(path.read_bytes() + b'{"half a li')
    bedrock_process.restart()
    assert without_metadata(bedrock.get(done["jobArn"])) == without_metadata(done)
    assert bedrock.lines(done) == lines
    assert [each["Name"] for each in bedrock.s3.list_buckets()["Buckets"]] == ["lane", "other"]
    bedrock.control.advance(60)
    job = bedrock.get(arn)
    assert (job["status"], job["successRecordCount"], job["errorRecordCount"]) == ("Completed", 30, 1)
    assert len(bedrock.results(job)) == 31
    assert [key for key in bedrock.object_keys() if not key.startswith("out/")] == [
        "in/rows.jsonl",
        "odd name/ü #1.jsonl",
    ]


def without_metadata(job: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in job.items() if name != "ResponseMetadata"}


def test_objects_sent_in_parts_and_deleted_together_survive(
    bedrock_process: SimulatorProcess, bedrock: BedrockDriver
) -> None:
    started = bedrock.s3.create_multipart_upload(Bucket="lane", Key="large")["UploadId"]
    parts = [
        {
            "PartNumber": number,
            "ETag": bedrock.s3.upload_part(Bucket="lane", Key="large", UploadId=started, PartNumber=number, Body=body)[
                "ETag"
            ],
        }
        for number, body in ((1, b"a" * 5_242_880), (2, b"b"))
    ]
    bedrock.s3.complete_multipart_upload(Bucket="lane", Key="large", UploadId=started, MultipartUpload={"Parts": parts})
    bedrock.s3.put_object(Bucket="lane", Key="one", Body=b"1")
    bedrock.s3.delete_objects(Bucket="lane", Delete={"Objects": [{"Key": "one"}]})
    bedrock.s3.create_bucket(Bucket="brief")
    bedrock.s3.delete_bucket(Bucket="brief")
    bedrock_process.kill()
    bedrock_process.restart()
    assert [each["Name"] for each in bedrock.s3.list_buckets()["Buckets"]] == ["lane"]
    assert bedrock.object_keys() == ["large"]
    assert bedrock.s3.head_object(Bucket="lane", Key="large")["ContentLength"] == 5_242_881


def test_both_end_quickly_when_asked(anthropic_process: SimulatorProcess, bedrock_process: SimulatorProcess) -> None:
    assert (anthropic_process.stop(), bedrock_process.stop()) == (0, 0)


def test_a_taken_port_is_refused(bedrock_process: SimulatorProcess, bedrock: BedrockDriver, tmp_path: Path) -> None:
    taken = urlsplit(bedrock.simulator.s3_url).port
    command = [sys.executable, "-m", "simulators.bedrock", "--port=0", f"--state-dir={tmp_path / 'second'}"]
    ended = subprocess.run([*command, f"--s3-port={taken}"], capture_output=True, text=True, timeout=30, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("S3 cannot listen on 127.0.0.1:")
