"""``/v1/files``: what batches put out."""

from __future__ import annotations

from typing import Any

from django.http import FileResponse, HttpRequest, HttpResponse
from ninja import Router

from routing.api.answers import JSON_LINES, caller_of, errors_of, json_answer, stream_of
from routing.models import StoredFile
from routing.schemas import FileOut
from routing.selectors import file_by_id

router = Router(tags=["files"])


@router.get("/{file_id}", response={200: FileOut, **errors_of(404)})
def get_file(request: HttpRequest, file_id: str) -> HttpResponse:
    """Give one file's facts."""
    return json_answer(file_object(file_by_id(organisation=caller_of(request).organisation, public_id=file_id)))


@router.get(
    "/{file_id}/content",
    response={200: None, **errors_of(404)},
    openapi_extra={"responses": {200: {"content": JSON_LINES}}},
)
def get_content(request: HttpRequest, file_id: str) -> FileResponse:
    """Stream one file's bytes."""
    return stream_of(file_by_id(organisation=caller_of(request).organisation, public_id=file_id))


def file_object(stored: StoredFile) -> dict[str, Any]:
    """Give OpenAI's file object."""
    return {
        "id": stored.public_id,
        "object": "file",
        "bytes": stored.size_bytes,
        "created_at": int(stored.created_at.timestamp()),
        "expires_at": int(stored.expires_at.timestamp()) if stored.expires_at else None,
        "filename": stored.filename,
        "purpose": stored.purpose,
        "status": "processed",
    }
