"""What a customer's program says to the API by the official ``openai`` SDK, in calls that 1.x, 2.x and 3.x all have.

Only the SDK and the standard library are imported: older ones run this file in a process of their own, which writes
``run`` where the engine has to work and reads a line when it has, and at the end what it saw, as one JSON object.
"""

from __future__ import annotations

import importlib
import io
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai

# What the SDK reaches servers by; 3.x has another one than those before it.
http: Any = importlib.import_module("httpx2" if openai.__version__.split(".", 1)[0] == "3" else "httpx")
CHAT: Any = "/v1/chat/completions"
SPLITTERS = "first\u2028second\u2029third\u0085fourth"


def row(custom_id: str, content: str = SPLITTERS) -> bytes:
    body = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": content}], "max_tokens": 20}
    line = {"custom_id": custom_id, "method": "POST", "url": CHAT, "body": body}
    return json.dumps(line, ensure_ascii=False).encode() + b"\n"


GOOD = row("a") + row("b", "[[sim:fail]]") + row("c")


class LosesAnswers(http.HTTPTransport):  # type: ignore[misc]  # whichever it is
    """A way to the server on which the first two answers to each create are lost after the server has given them."""

    def __init__(self) -> None:
        super().__init__()
        self.retry_counts: list[str] = []

    def handle_request(self, request: Any) -> Any:
        response = super().handle_request(request)
        if request.method != "POST":
            return response
        response.read()
        self.retry_counts.append(request.headers["x-stainless-retry-count"])
        return response if len(self.retry_counts) % 3 == 0 else http.Response(503, headers={"retry-after-ms": "1"})


def talk(base_url: str, api_key: str, run: Callable[[], None]) -> dict[str, Any]:
    """Make the calls, and give what was seen."""
    with openai.OpenAI(api_key=api_key, base_url=base_url, max_retries=0, _strict_response_validation=True) as client:
        said = {
            "files": files(client, run),
            "refusals": refusals(client, base_url),
            "retries": retries(base_url, api_key),
            "models": [client.models.retrieve("gpt-4o-mini").id, "gpt-4o-mini" in {m.id for m in client.models.list()}],
        }
        said["batches"] = batches(client, run)
        return said


def files(client: openai.OpenAI, run: Callable[[], None]) -> dict[str, Any]:
    nameless = client.files.create(file=GOOD, purpose="batch")
    streamed = client.files.create(
        file=("rows.jsonl", io.BytesIO(GOOD)),
        purpose="batch",
        expires_after={"anchor": "created_at", "seconds": 3_600},
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "from disk.jsonl"
        path.write_bytes(GOOD)
        with path.open("rb") as file:
            opened = client.files.create(file=file, purpose="batch")
    ids = [opened.id, streamed.id, nameless.id]
    run()
    quote: Any = client.files.retrieve(nameless.id).quote  # type: ignore[attr-defined]  # what we add
    content = client.files.content(nameless.id)
    deleted = client.files.delete(streamed.id)
    return {
        "names": [nameless.filename, streamed.filename, opened.filename],
        "seconds_kept": (streamed.expires_at or 0) - streamed.created_at,
        "facts": [nameless.object, nameless.purpose, nameless.status, nameless.bytes == len(GOOD)],
        "listed": [file.id for file in client.files.list(purpose="batch", limit=1)] == [ids[0], ids[2]],
        "content": [content.content == GOOD, content.text == GOOD.decode()],
        "waited_for": client.files.wait_for_processing(opened.id).id == opened.id,
        "deleted": [deleted.id == streamed.id, deleted.object, deleted.deleted],
        "quote": [quote["status"], quote["total_micro_usd"] > 0],
        "second_deletion": refused(lambda: client.files.delete(streamed.id)),
    }


def batches(client: openai.OpenAI, run: Callable[[], None]) -> dict[str, Any]:
    by_file = _batch_of_a_quoted_file(client, run)
    quoted = [quote_of(client, GOOD) for _ in range(3)]
    wanted: dict[str, Any] = {"endpoint": CHAT, "completion_window": "24h"}
    by_body = client.batches.create(input_file_id=quoted[0], **wanted, extra_body={"quote_id": quoted[0]})
    by_metadata = client.batches.create(
        input_file_id=quoted[1],
        **wanted,
        metadata={"quote_id": quoted[1], "run": "7"},
        output_expires_after={"anchor": "created_at", "seconds": 7_200},
    )
    stopped = client.batches.create(input_file_id=quoted[2], **wanted, extra_body={"quote_id": quoted[2]})
    wrong_file = client.files.create(file=GOOD + row("a"), purpose="batch")
    wrong = client.batches.create(input_file_id=wrong_file.id, **wanted)
    cancelling = client.batches.cancel(stopped.id)
    begun = [by_file, by_body, by_metadata, stopped, wrong]
    run()
    ended = {name: client.batches.retrieve(batch.id) for name, batch in zip(NAMES, begun, strict=True)}
    done = ended["by_file"]
    assert done.output_file_id
    assert done.error_file_id
    # 1.x knows no usage of a batch, and gives it as it comes.
    usage: Any = done.model_dump()["usage"]
    with client.files.with_streaming_response.content(done.output_file_id) as response:
        output = b"".join(response.iter_bytes(100))
    errors = client.files.content(done.error_file_id).text.split("\n")[:-1]
    failed = ended["wrong"].errors
    assert failed
    return {
        "begun": [batch.status for batch in begun],
        "quote_of_the_file": done.quote_id == by_file.quote_id,  # type: ignore[attr-defined]  # what we add
        "cancelling": cancelling.status,
        "ended": {name: batch.status for name, batch in ended.items()},
        "counts": [done.request_counts and done.request_counts.model_dump()],
        "usage_adds_up": usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"] > 0,
        "output": [json.loads(line)["custom_id"] for line in output.decode().split("\n")[:-1]],
        "errors": [json.loads(line)["custom_id"] for line in errors],
        "purpose": client.files.retrieve(done.output_file_id).purpose,
        "output_days": _seconds_kept(client, done.output_file_id) // 86_400,
        "output_seconds": _seconds_kept(client, ended["by_metadata"].output_file_id),
        "why": [[error.code, error.line, error.param] for error in failed.data or []],
        "metadata": [done.metadata, ended["by_metadata"].metadata == {"quote_id": quoted[1], "run": "7"}],
        "times": [done.expires_at == done.created_at + 86_400, None not in {done.in_progress_at, done.completed_at}],
        "listed": [batch.id for batch in client.batches.list(limit=2)][:5] == [batch.id for batch in begun[::-1]],
    }


NAMES = ("by_file", "by_body", "by_metadata", "stopped", "wrong")


def _seconds_kept(client: openai.OpenAI, file_id: str | None) -> int:
    file = client.files.retrieve(str(file_id))
    return (file.expires_at or 0) - file.created_at


def _batch_of_a_quoted_file(client: openai.OpenAI, run: Callable[[], None]) -> Any:
    file: Any = client.files.create(file=GOOD, purpose="batch")
    run()
    batch: Any = client.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h")
    assert batch.quote_id == file.quote["id"], "a batch of a file runs under the file's quote"
    return batch


def quote_of(client: openai.OpenAI, content: bytes) -> str:
    """Price rows at once, by the SDK's way to calls that it does not know."""
    headers = {"Content-Type": "application/jsonl"}
    answer: Any = client.post("/quotes/model", cast_to=object, options={"headers": headers}, **_body(content))
    return str(answer["id"])


def _body(content: bytes) -> dict[str, Any]:
    # 1.x and 2.x take bytes as the body of a call, 3.x by another name.
    return {"content": content} if openai.__version__.split(".", 1)[0] != "1" else {"body": content}


def refusals(client: openai.OpenAI, base_url: str) -> dict[str, Any]:
    file_id = client.files.create(file=GOOD, purpose="batch").id
    wanted: dict[str, Any] = {"input_file_id": file_id, "endpoint": CHAT, "completion_window": "24h"}
    stranger = openai.OpenAI(api_key="sk-wrong", base_url=base_url, max_retries=0)
    raw = client.models.with_raw_response.list()
    names = ("limit-requests", "limit-tokens", "remaining-requests", "remaining-tokens")
    limits = [raw.headers[f"x-ratelimit-{name}"] for name in names]
    listed: Any = client.batches.retrieve
    return {
        "window": refused(lambda: client.batches.create(**{**wanted, "completion_window": "1h"})),
        "pairs": refused(lambda: client.batches.create(**wanted, metadata={str(n): "" for n in range(17)})),
        "long_value": refused(lambda: client.batches.create(**wanted, metadata={"k": "v" * 513})),
        "no_file": refused(lambda: client.batches.create(**{**wanted, "input_file_id": "file-nope"})),
        "no_batch": refused(lambda: listed("batch_nope")),
        "no_cancel": refused(lambda: client.batches.cancel("batch_nope")),
        "no_content": refused(lambda: client.files.content("file-nope")),
        "empty": refused(lambda: client.files.create(file=b"", purpose="batch")),
        "purpose": refused(lambda: client.files.create(file=GOOD, purpose="vision")),
        "key": refused(stranger.models.list),
        "limits_are_numbers": [int(each) >= 0 for each in limits] == [True] * 4,
        "request_ids": [
            str(client.files.retrieve(file_id)._request_id).startswith("req_"),
            raw.headers["x-request-id"].startswith("req_"),
        ],
    }


def refused(call: Callable[[], object]) -> list[Any]:
    """Give class, status, code and parameter of a refusal, and whether it names its request, and says and leads on."""
    try:
        call()
    except openai.APIStatusError as error:
        return [
            type(error).__name__,
            error.status_code,
            error.code,
            error.param,
            bool(error.request_id) and bool(error.message) and _leads_to_documentation(error),
        ]
    return ["no refusal"]


def _leads_to_documentation(error: openai.APIStatusError) -> bool:
    body: Any = error.body
    return bool(body["doc_url"] == f"/docs/errors#{error.code}")


def retries(base_url: str, api_key: str) -> dict[str, Any]:
    """Send each create three times, as the SDK does by itself when answers are lost."""
    transport = LosesAnswers()
    with openai.OpenAI(
        api_key=api_key, base_url=base_url, http_client=openai.DefaultHttpxClient(transport=transport)
    ) as client:
        before = len(list(client.files.list())), len(list(client.batches.list()))
        file_id = client.files.create(file=GOOD, purpose="batch").id
        client.batches.create(input_file_id=file_id, endpoint=CHAT, completion_window="24h")
        after = len(list(client.files.list())), len(list(client.batches.list()))
    return {"sent": transport.retry_counts, "made": [after[0] - before[0], after[1] - before[1]]}


def _ask_to_run() -> None:
    print("run", flush=True)  # noqa: T201 -- how this process speaks
    sys.stdin.readline()


if __name__ == "__main__":
    print(json.dumps(talk(sys.argv[1], sys.argv[2], _ask_to_run)), flush=True)  # noqa: T201 -- the same
