"""What the simulator tests do again and again: rows, batches, results."""

import json
from collections.abc import Iterable
from typing import Any, Final

from openai import OpenAI
from openai.types import Batch

from simulators.running import RunningSimulator

CHAT: Final = "/v1/chat/completions"
FROZEN_AT = 1_764_000_000


def chat_row(custom_id: str, content: Any = "Name a river in Spain.", url: str = CHAT, **body: Any) -> dict[str, Any]:
    asked = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": content}], **body}
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": asked}


def chat_rows(count: int, **body: Any) -> list[dict[str, Any]]:
    return [chat_row(f"row-{number}", f"Name river number {number}.", **body) for number in range(count)]


def as_jsonl(rows: Iterable[Any]) -> bytes:
    return "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows).encode()


class Driver:
    """The official SDK and the control API on one simulator whose clock stands still."""

    def __init__(self, simulator: RunningSimulator, client: OpenAI) -> None:
        self.simulator = simulator
        self.control = simulator.control
        self.client = client

    def upload(self, rows: Iterable[Any], name: str = "rows.jsonl") -> str:
        return self.client.files.create(file=(name, as_jsonl(rows)), purpose="batch").id

    def create(self, rows: Iterable[Any], endpoint: Any = CHAT, **fields: Any) -> Batch:
        file_id = self.upload(rows)
        return self.client.batches.create(input_file_id=file_id, endpoint=endpoint, completion_window="24h", **fields)

    def run(self, rows: Iterable[Any], endpoint: Any = CHAT, seconds: float = 3_600, **fields: Any) -> Batch:
        """The batch after `seconds` of the simulator's clock."""
        batch = self.create(rows, endpoint, **fields)
        self.control.advance(seconds)
        return self.client.batches.retrieve(batch.id)

    def lines(self, file_id: str | None) -> list[dict[str, Any]]:
        if file_id is None:
            return []
        content = self.client.files.content(file_id).content
        return [json.loads(line) for line in content.split(b"\n") if line]

    def outputs(self, batch: Batch) -> dict[str, dict[str, Any]]:
        return {line["custom_id"]: line for line in self.lines(batch.output_file_id)}

    def errors(self, batch: Batch) -> dict[str, dict[str, Any]]:
        return {line["custom_id"]: line for line in self.lines(batch.error_file_id)}

    def answer(self, row: dict[str, Any]) -> dict[str, Any]:
        """The body that a batch of this one row gets."""
        batch = self.run([row], row["url"])
        body: dict[str, Any] = self.outputs(batch)[row["custom_id"]]["response"]["body"]
        return body
