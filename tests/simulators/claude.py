"""What the tests of the two sellers of Claude do again and again: rows, batches, jobs, results."""

import json
from collections.abc import Iterable
from typing import Any

import anthropic
from anthropic.types.messages import MessageBatch

from simulators.bedrock.running import RunningBedrock
from simulators.running import RunningSimulator

MODEL = "claude-haiku-4-5"
BEDROCK_MODEL = "anthropic.claude-haiku-4-5-20251001-v1:0"
OLD_VERSION = {"anthropic-version": "2023-06-01"}


def ask(content: Any = "Name a river in Spain.", **params: Any) -> dict[str, Any]:
    return {"model": MODEL, "max_tokens": 256, "messages": [{"role": "user", "content": content}], **params}


def row(custom_id: str, content: Any = "Name a river in Spain.", **params: Any) -> Any:
    return {"custom_id": custom_id, "params": ask(content, **params)}


def rows(count: int, **params: Any) -> list[Any]:
    return [row(f"row-{number}", f"Name river number {number}.", **params) for number in range(count)]


class AnthropicDriver:
    """The official SDK and the control API on one simulated Anthropic whose clock stands still."""

    def __init__(self, simulator: RunningSimulator, client: anthropic.Anthropic) -> None:
        self.simulator = simulator
        self.control = simulator.control
        self.client = client
        self.batches = client.messages.batches

    def create(self, requests: Iterable[Any]) -> MessageBatch:
        return self.batches.create(requests=list(requests))

    def run(self, requests: Iterable[Any], seconds: float = 3_600) -> MessageBatch:
        """The batch after `seconds` of the simulator's clock."""
        batch = self.create(requests)
        self.control.advance(seconds)
        return self.batches.retrieve(batch.id)

    def lines(self, batch: MessageBatch) -> list[dict[str, Any]]:
        return [line.to_dict(mode="json") for line in self.batches.results(batch.id)]

    def results(self, batch: MessageBatch) -> dict[str, dict[str, Any]]:
        return {line["custom_id"]: line["result"] for line in self.lines(batch)}

    def message(self, request: dict[str, Any]) -> dict[str, Any]:
        """The message that a batch of this one row gets."""
        message: dict[str, Any] = self.results(self.run([request]))[request["custom_id"]]["message"]
        return message

    def refusal(self, request: dict[str, Any]) -> dict[str, Any]:
        """The inner error that a batch of this one row gets."""
        error: dict[str, Any] = self.results(self.run([request]))[request["custom_id"]]["error"]["error"]
        return error


def record(record_id: str, content: Any = "Name a river in Spain.", **params: Any) -> dict[str, Any]:
    asked = {name: value for name, value in ask(content).items() if name != "model"}
    return {"recordId": record_id, "modelInput": {"anthropic_version": "bedrock-2023-05-31", **asked, **params}}


def records(count: int, **params: Any) -> list[dict[str, Any]]:
    return [record(f"ROW{number}", f"Name river number {number}.", **params) for number in range(count)]


class BedrockDriver:
    """boto3 and the control API on one simulated Bedrock whose clock stands still."""

    def __init__(self, simulator: RunningBedrock, bedrock: Any, s3: Any) -> None:
        self.simulator = simulator
        self.control = simulator.control
        self.bedrock = bedrock
        self.s3 = s3

    def upload(self, lines: Iterable[Any], key: str = "in/rows.jsonl") -> str:
        body = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
        self.s3.put_object(Bucket="lane", Key=key, Body=body.encode())
        return f"s3://lane/{key}"

    def create(self, lines: Iterable[Any], **fields: Any) -> str:
        """The ARN of a new job."""
        return self.submit(self.upload(lines), **fields)

    def submit(self, uri: str, **fields: Any) -> str:
        wanted: dict[str, Any] = {
            "jobName": "job-1",
            "roleArn": "arn:aws:iam::123456789012:role/batch",
            "modelId": BEDROCK_MODEL,
            "inputDataConfig": {"s3InputDataConfig": {"s3Uri": uri, "s3InputFormat": "JSONL"}},
            "outputDataConfig": {"s3OutputDataConfig": {"s3Uri": "s3://lane/out/"}},
            **fields,
        }
        arn: str = self.bedrock.create_model_invocation_job(**wanted)["jobArn"]
        return arn

    def get(self, arn: str) -> dict[str, Any]:
        job: dict[str, Any] = self.bedrock.get_model_invocation_job(jobIdentifier=arn)
        return job

    def run(self, lines: Iterable[Any], seconds: float = 3_600, **fields: Any) -> dict[str, Any]:
        """The job after `seconds` of the simulator's clock."""
        arn = self.create(lines, **fields)
        self.control.advance(seconds)
        return self.get(arn)

    def read(self, job: dict[str, Any], name: str) -> bytes:
        key = f"out/{job['jobArn'].rsplit('/')[-1]}/{name}"
        content: bytes = self.s3.get_object(Bucket="lane", Key=key)["Body"].read()
        return content

    def lines(self, job: dict[str, Any]) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.read(job, "rows.jsonl.out").split(b"\n") if line]

    def results(self, job: dict[str, Any]) -> dict[str, dict[str, Any]]:
        return {line["recordId"]: line for line in self.lines(job)}

    def object_keys(self) -> list[str]:
        return [each["Key"] for each in self.s3.list_objects_v2(Bucket="lane").get("Contents", ())]
