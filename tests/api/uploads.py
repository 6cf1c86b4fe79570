"""Uploads as clients send them, and their answers."""

from __future__ import annotations

from typing import Any

from tests.api.world import Api, lines_of, row

BOUNDARY = "b0undary"
FILE = lines_of(row("a"), row("b"))


def part(name: str, content: bytes | str, filename: str | None = None) -> bytes:
    body = content if isinstance(content, bytes) else content.encode()
    named = f'; filename="{filename}"' if filename is not None else ""
    return f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{named}\r\n\r\n'.encode() + body + b"\r\n"


def form(*parts: bytes) -> bytes:
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


def upload(api: Api, *parts: bytes) -> Any:
    body = form(*(parts or (part("purpose", "batch"), part("file", FILE, "requests.jsonl"))))
    return api.post("/v1/files", body, f"multipart/form-data; boundary={BOUNDARY}")


def uploaded(api: Api, *parts: bytes) -> dict[str, Any]:
    response = upload(api, *parts)
    assert response.status_code == 200, response.content
    answer: dict[str, Any] = response.json()
    return answer


def content_of(api: Api, file_id: str) -> bytes:
    response = api.get(f"/v1/files/{file_id}/content")
    assert response.status_code == 200
    return b"".join(response.streaming_content)
