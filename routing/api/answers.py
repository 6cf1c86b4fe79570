"""What routing's endpoints share: who calls, JSON, streamed files."""

from __future__ import annotations

from typing import Any, cast

import orjson
from django.http import FileResponse, HttpRequest, HttpResponse

from accounts.selectors import Caller
from ground.connections import give_back
from routing.blobs import open_blob
from routing.models import StoredFile
from routing.schemas import ErrorOut

# OpenAPI's content of what is not one JSON document.
JSON_LINES: dict[str, Any] = {"application/jsonl": {"schema": {"type": "string", "format": "binary"}}}


def caller_of(request: HttpRequest) -> Caller:
    """Give who makes this call; authentication has put it there."""
    return cast(Caller, request.auth)  # type: ignore[attr-defined]  # django-ninja adds it


def errors_of(*statuses: int) -> dict[Any, Any]:
    """Give OpenAPI's error answers of an operation, beside those that every operation has."""
    return dict.fromkeys(statuses, ErrorOut)


def json_answer(content: dict[str, Any], *, status: int = 200) -> HttpResponse:
    """Give a JSON answer."""
    return HttpResponse(orjson.dumps(content), content_type="application/json", status=status)


def stream_of(stored: StoredFile) -> FileResponse:
    """Give a stored file's bytes, streamed, with its length and its hash as entity tag."""
    response = FileResponse(
        open_blob(stored.blob_name), as_attachment=True, filename=stored.filename, content_type="application/jsonl"
    )
    # The rest needs the disk and the reader only.
    give_back()
    response["Content-Length"] = str(stored.size_bytes)
    response["ETag"] = f'"{bytes(stored.sha256).hex()}"'
    return response
