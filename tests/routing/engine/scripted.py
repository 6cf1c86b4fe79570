"""A provider that follows a script: it takes any job and answers with the lines and the statuses it was given."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from simulators.serving import serving_on_thread

Row = dict[str, Any]
ROW_OF_KEY = re.compile(r"r(\d+)$")
ENDED = ("completed", "failed", "expired", "cancelled")


@dataclass(slots=True, kw_only=True)
class Script:
    """What comes back of one job: lines whose custom ids are the customer's, and how the job stands at each look."""

    output: list[Row] = field(default_factory=list)
    error: list[Row] = field(default_factory=list)
    # Each is a status word, or the whole answer; the last one stays.
    looks: list[str | Response] = field(default_factory=lambda: ["completed"])
    # HTTP statuses of reading results; 200 when there are no more.
    reads: list[int] = field(default_factory=list)


@dataclass(slots=True)
class ScriptedProvider:
    """OpenAI's wire format over a script a job, in the order the jobs are made."""

    custom_ids: list[str]
    scripts: list[Script]
    # Counts that the provider tells, whatever is true.
    told_counts: Row | None = None
    base_url: str = ""
    sent: list[list[Row]] = field(default_factory=list)
    read_count: int = 0

    def sent_ids(self, number: int) -> list[str]:
        """The customer's ids of the rows of a job."""
        return [self.custom_ids[self._row(row["custom_id"])] for row in self.sent[number]]

    async def take_file(self, request: Request) -> Response:
        async with request.form() as form:
            upload = form["file"]
            assert not isinstance(upload, str)
            self.sent.append([json.loads(line) for line in (await upload.read()).splitlines()])
        number = len(self.sent) - 1
        return JSONResponse({"id": f"file-in-{number}", "object": "file", "purpose": "batch", "created_at": 1})

    async def take_job(self, request: Request) -> Response:
        wanted = await request.json()
        return JSONResponse(self._job(int(wanted["input_file_id"].rpartition("-")[2]), "validating"))

    async def look(self, request: Request) -> Response:
        number = int(request.path_params["ref"].rpartition("-")[2])
        looks = self.scripts[number].looks
        found = looks.pop(0) if len(looks) > 1 else looks[0]
        return JSONResponse(self._job(number, found)) if isinstance(found, str) else found

    async def read(self, request: Request) -> Response:
        kind, number = request.path_params["name"].split("-")[1:]
        self.read_count += 1
        script = self.scripts[int(number)]
        status = script.reads.pop(0) if script.reads else 200
        keys = {self.custom_ids[self._row(row["custom_id"])]: row["custom_id"] for row in self.sent[int(number)]}
        lines = script.output if kind == "out" else script.error
        named = ({**line, "custom_id": keys[line["custom_id"]]} for line in lines)
        return Response("".join(json.dumps(line) + "\n" for line in named), status)

    def _job(self, number: int, status: str) -> Row:
        script = self.scripts[number]
        is_ended = status in ENDED
        return {
            "id": f"batch-{number}",
            "object": "batch",
            "status": status,
            "created_at": int(time.time()),
            "request_counts": self.told_counts,
            "output_file_id": f"file-out-{number}" if is_ended and script.output else None,
            "error_file_id": f"file-err-{number}" if is_ended and script.error else None,
        }

    @staticmethod
    def _row(row_key: str) -> int:
        match = ROW_OF_KEY.search(row_key)
        assert match is not None
        return int(match[1])


@contextmanager
def scripted(custom_ids: list[str], *scripts: Script) -> Iterator[ScriptedProvider]:
    """Serve a script a job."""
    provider = ScriptedProvider(custom_ids, list(scripts))
    routes: list[tuple[str, str, Callable[[Request], Any]]] = [
        ("POST", "/v1/files", provider.take_file),
        ("POST", "/v1/batches", provider.take_job),
        ("GET", "/v1/batches/{ref}", provider.look),
        ("GET", "/v1/files/{name}/content", provider.read),
    ]
    app = Starlette(routes=[Route(path, endpoint, methods=[method]) for method, path, endpoint in routes])
    with serving_on_thread(app) as url:
        provider.base_url = f"{url}/v1"
        yield provider
