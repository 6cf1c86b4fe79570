"""A provider with every answer ready: OpenAI's Files and Batches, as little of them as the adapter asks for.

``python -m bench.answer_server FOLDER`` prints its base URL. Result files are written when a batch is first polled,
their lines in any order; while they are written the batch is in progress. So serving costs next to nothing while the
engine is measured.
"""

from __future__ import annotations

import http.server
import itertools
import json
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

_ROW_START = b'{"custom_id":"'
_ANSWER_WORDS = "The courier left the parcel with a neighbour and the refund was booked to the account. "
_CHUNK_BYTES = 1 << 20


def answer_line(number: int, custom_id: str) -> bytes:
    """Give one line of a result file as OpenAI writes it, about 1,350 bytes."""
    body = {
        "id": f"chatcmpl-{number:029d}",
        "object": "chat.completion",
        "created": 1_764_400_000,
        "model": "gpt-4o-mini-2024-07-18",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": f'{number}. {_ANSWER_WORDS * 5}\nYours, "the desk"',
                    "refusal": None,
                    "annotations": [],
                },
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 130 + number % 50,
            "completion_tokens": 110 + number % 90,
            "total_tokens": 240 + number % 50 + number % 90,
            "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
            "completion_tokens_details": {
                "reasoning_tokens": 0,
                "audio_tokens": 0,
                "accepted_prediction_tokens": 0,
                "rejected_prediction_tokens": 0,
            },
        },
        "service_tier": "default",
        "system_fingerprint": "fp_560af6e559",
    }
    response = {"status_code": 200, "request_id": f"{number:032x}", "body": body}
    line = {"id": f"batch_req_{number:024x}", "custom_id": custom_id, "response": response, "error": None}
    return json.dumps(line).encode() + b"\n"


class _Provider(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    folder: Path
    numbers = itertools.count(1)
    batches: dict[str, dict[str, Any]]

    def do_POST(self) -> None:
        """Take an upload, or make a batch over one."""
        if self.path == "/v1/files":
            file_id = f"file-{next(self.numbers)}"
            self._store(self.folder / file_id)
            self._answer({"id": file_id, "object": "file"})
            return
        wanted = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        batch_id = f"batch_{next(self.numbers)}"
        self.batches[batch_id] = {
            "id": batch_id,
            "object": "batch",
            "status": "validating",
            "created_at": int(time.time()),
            "input_file_id": wanted["input_file_id"],
            "metadata": wanted["metadata"],
        }
        self._answer(self.batches[batch_id])

    def do_GET(self) -> None:
        """Give a batch's state or a result file."""
        name = self.path.split("/")[3]
        if self.path.startswith("/v1/files/"):
            self._send(self.folder / name)
            return
        batch = self.batches[name]
        if batch["status"] == "validating":
            batch["status"] = "in_progress"
            threading.Thread(target=self._run, args=(batch,)).start()
        self._answer(batch)

    def _run(self, batch: dict[str, Any]) -> None:
        output_id = f"{batch['input_file_id']}-output"
        with (self.folder / batch["input_file_id"]).open("rb") as rows:
            starts = (line[len(_ROW_START) : 100] for line in rows if line.startswith(_ROW_START))
            custom_ids = [start.partition(b'"')[0].decode() for start in starts]
        random.Random(0).shuffle(custom_ids)
        with (self.folder / output_id).open("wb") as output:
            output.writelines(answer_line(number, custom_id) for number, custom_id in enumerate(custom_ids))
        row_count = len(custom_ids)
        batch |= {
            "output_file_id": output_id,
            "completed_at": int(time.time()),
            "request_counts": {"total": row_count, "completed": row_count, "failed": 0},
            "status": "completed",
        }

    def _store(self, path: Path) -> None:
        left_bytes = int(self.headers["Content-Length"])
        with path.open("wb") as file:
            while left_bytes:
                chunk = self.rfile.read(min(left_bytes, _CHUNK_BYTES))
                left_bytes -= len(chunk)
                file.write(chunk)

    def _answer(self, document: dict[str, Any]) -> None:
        content = json.dumps(document).encode()
        self._start(len(content))
        self.wfile.write(content)

    def _send(self, path: Path) -> None:
        self._start(path.stat().st_size)
        with path.open("rb") as file:
            self.connection.sendfile(file)

    def _start(self, size_bytes: int) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(size_bytes))
        self.end_headers()
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def main(folder: str) -> None:
    """Serve until the process is ended."""
    _Provider.folder, _Provider.batches = Path(folder), {}
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Provider) as server:
        print(f"http://127.0.0.1:{server.server_address[1]}/v1", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1])
