"""``/v1/files``: what customers upload, and what batches put out."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import orjson
from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from ninja import Router

from accounts.once import begin_once, begins_itself
from ground import clock
from ground.blobs import BlobWriter
from ground.errors import InvalidRequest
from ground.ids import new_public_id
from routing.api.answers import caller_of, errors_of, is_sdk_retry, json_answer, may_be_repeated
from routing.api.downloads import METHODS, PUBLISHED, RESPONSES, download
from routing.api.forms import FILE_PART, read_upload
from routing.models import FilePurpose, StoredFile
from routing.schemas import FileDeletedOut, FileListOut, FileOut
from routing.selectors import FILE_PAGE_MAX, file_by_id, file_page
from routing.services.files import check_room, checked_lifetime, delete_file, keep_file, uploaded_blob_name

router = Router(tags=["files"])
_ANCHOR_FIELD, _SECONDS_FIELD = "expires_after[anchor]", "expires_after[seconds]"
_FIELDS = frozenset({"purpose", _ANCHOR_FIELD, _SECONDS_FIELD})
_FORM = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file", "purpose"],
                    "properties": {
                        "file": {"type": "string", "format": "binary"},
                        "purpose": {"type": "string", "enum": [FilePurpose.BATCH]},
                        _ANCHOR_FIELD: {"type": "string", "enum": ["created_at"]},
                        _SECONDS_FIELD: {"type": "integer", "minimum": 3600, "maximum": 2592000},
                    },
                }
            }
        },
    }
}


@router.post("", response={200: FileOut, **errors_of(400, 413, 415)}, openapi_extra=_FORM)
@begins_itself
def create_file(request: HttpRequest) -> HttpResponse:
    """Upload a JSONL file of requests, as a form with `file` and `purpose` (`batch`); it is stored as it comes.

    It is kept for 30 days, or as long as `expires_after[seconds]` says.
    """
    organisation = caller_of(request).organisation
    if not may_be_repeated(request):
        # One that is known already takes no room; whether it is shows when it is there.
        check_room(organisation, 1)
    with BlobWriter() as writer:
        form = read_upload(request, writer, known_names=_FIELDS, maximum_bytes=settings.FILE_MAX_BYTES)
        lifetime = _checked(form.fields, writer.size_bytes)
        # By what the form holds: each try of a client has a boundary of its own. Nothing is stored yet.
        begin_once(request, orjson.dumps([form.filename, sorted(form.fields.items()), writer.digest().hex()]))
        # Named when it is whole, for the sweep takes a name of an hour ago without a row for a killed process's.
        public_id = new_public_id("file-", clock.now())
        written = writer.save(uploaded_blob_name(public_id))
    stored = keep_file(
        organisation=organisation,
        public_id=public_id,
        filename=form.filename,
        written=written,
        lifetime=lifetime,
        is_retry=is_sdk_retry(request),
    )
    response = json_answer(file_object(stored))
    if stored.public_id != public_id:
        response["idempotent-replayed"] = "true"
    return response


@router.get("", response={200: FileListOut, **errors_of(400, 404)})
def list_files(
    request: HttpRequest,
    after: str | None = None,
    limit: int = FILE_PAGE_MAX,
    order: str = "desc",
    purpose: str | None = None,
) -> HttpResponse:
    """Give a page of files by creation time, newest first unless `order` is `asc`."""
    if order not in {"asc", "desc"}:
        raise InvalidRequest("order is 'asc' or 'desc'.", param="order")
    page = file_page(
        organisation=caller_of(request).organisation,
        after=after,
        limit=limit,
        is_newest_first=order == "desc",
        purpose=purpose,
    )
    data = [file_object(stored) for stored in page.files]
    return json_answer(
        {
            "object": "list",
            "data": data,
            "first_id": data[0]["id"] if data else None,
            "last_id": data[-1]["id"] if data else None,
            "has_more": page.has_more,
        }
    )


@router.get("/{file_id}", response={200: FileOut, **errors_of(404)})
def get_file(request: HttpRequest, file_id: str) -> HttpResponse:
    """Give one file's facts."""
    return json_answer(file_object(file_by_id(organisation=caller_of(request).organisation, public_id=file_id)))


@router.delete("/{file_id}", response={200: FileDeletedOut, **errors_of(404)})
def delete(request: HttpRequest, file_id: str) -> HttpResponse:
    """Delete a file. Quotes and batches that were made of it go on."""
    stored = delete_file(organisation=caller_of(request).organisation, public_id=file_id)
    return json_answer({"id": stored.public_id, "object": "file", "deleted": True})


@router.api_operation(METHODS, "/{file_id}/content", response=RESPONSES, openapi_extra=PUBLISHED)
def get_content(request: HttpRequest, file_id: str) -> HttpResponseBase:
    """Stream one file's bytes. `Repr-Digest` has the SHA-256 of the whole file, `ETag` names it."""
    return download(request, file_by_id(organisation=caller_of(request).organisation, public_id=file_id))


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


def _checked(fields: dict[str, str], size_bytes: int) -> timedelta | None:
    """Check what a form said, and give the lifetime it asks for."""
    purpose = fields.get("purpose")
    if purpose is None:
        raise InvalidRequest("The form has no purpose.", code="missing_required_parameter", param="purpose")
    if purpose != FilePurpose.BATCH:
        raise InvalidRequest(f"The only purpose of an upload is {FilePurpose.BATCH.value!r}.", param="purpose")
    # Some SDKs send a stream again after a failure when nothing is left in it.
    if not size_bytes:
        raise InvalidRequest("The file holds no request.", code="empty_file", param=FILE_PART)
    if _ANCHOR_FIELD not in fields and _SECONDS_FIELD not in fields:
        return None
    return checked_lifetime(anchor=fields.get(_ANCHOR_FIELD), seconds=fields.get(_SECONDS_FIELD), param="expires_after")
