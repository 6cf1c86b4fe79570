"""``/v1/files``: what customers upload, and what batches put out."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import orjson
from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from ninja import Router

from accounts.models import Organisation
from accounts.once import begin_once, begins_itself
from ground import clock
from ground.blobs import BlobWriter
from ground.errors import InvalidRequest
from ground.ids import new_public_id
from routing.api.answers import caller_of, errors_of, json_answer, may_be_repeated, sdk_try_of
from routing.api.downloads import METHODS, PUBLISHED, RESPONSES, download
from routing.api.forms import FILE_PART, read_upload
from routing.file_schemas import FileDeletedOut, FileListOut, FileOut
from routing.models import FilePurpose, QuoteStatus, StoredFile
from routing.selectors import FILE_PAGE_MAX, FileQuote, file_by_id, file_page, quotes_of_files
from routing.services.deletions import delete_file
from routing.services.files import check_room, checked_lifetime, keep_file, uploaded_blob_name
from routing.workflows import workflow_named

router = Router(tags=["files"])
_ANCHOR_FIELD, _SECONDS_FIELD = "expires_after[anchor]", "expires_after[seconds]"
_WORKFLOW_FIELD = "workflow"
# A form that is not worth a look at the room before it is read.
_SMALL_BYTES = 4 * 1024 * 1024
_FIELDS = frozenset({"purpose", _ANCHOR_FIELD, _SECONDS_FIELD, _WORKFLOW_FIELD})
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
                        _WORKFLOW_FIELD: {"type": "string"},
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

    It is kept for 30 days, or as long as `expires_after[seconds]` says. It is priced at once in the background, under
    `workflow` if that is named: `quote` leads to the offer, and a batch of the file runs under it while it is valid.
    """
    caller = caller_of(request)
    organisation = caller.organisation
    declared = request.META.get("CONTENT_LENGTH") or ""
    if not may_be_repeated(request) and not (declared.isdecimal() and int(declared) <= _SMALL_BYTES):
        # Before much is sent for nothing. One that is known takes no room; whether it is shows when it is there.
        check_room(organisation, 1)
    with BlobWriter() as writer:
        form = read_upload(request, writer, known_names=_FIELDS, maximum_bytes=settings.FILE_MAX_BYTES)
        lifetime = _checked(form.fields, writer.size_bytes)
        workflow = workflow_named(organisation, form.fields.get(_WORKFLOW_FIELD))
        # By what the form holds: each try of a client has a boundary of its own. Nothing is stored yet.
        begin_once(request, orjson.dumps([form.filename, sorted(form.fields.items()), writer.digest().hex()]))
        # Named when it is whole, for the sweep takes a name of an hour ago without a row for a killed process's.
        public_id = new_public_id("file-", clock.now())
        stored = keep_file(
            caller=caller,
            public_id=public_id,
            filename=form.filename,
            saving=writer.begin_save(uploaded_blob_name(public_id)),
            lifetime=lifetime,
            workflow=workflow,
            sdk_try=sdk_try_of(request),
        )
    if stored.public_id == public_id:
        quote = FileQuote(public_id=stored.quote_id, status=QuoteStatus.PENDING) if stored.quote_id else None
        return json_answer(_file(stored, quote))
    response = json_answer(file_object(organisation, stored))
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
    organisation = caller_of(request).organisation
    page = file_page(
        organisation=organisation,
        after=after,
        limit=limit,
        is_newest_first=order == "desc",
        purpose=purpose,
    )
    quotes = quotes_of_files(organisation, page.files)
    data = [_file(stored, quotes.get(stored.quote_id)) for stored in page.files]
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
    organisation = caller_of(request).organisation
    return json_answer(file_object(organisation, file_by_id(organisation=organisation, public_id=file_id)))


@router.delete("/{file_id}", response={200: FileDeletedOut, **errors_of(404)})
def delete(request: HttpRequest, file_id: str) -> HttpResponse:
    """Delete a file. Quotes and batches that were made of it go on."""
    stored = delete_file(organisation=caller_of(request).organisation, public_id=file_id)
    return json_answer({"id": stored.public_id, "object": "file", "deleted": True})


@router.api_operation(METHODS, "/{file_id}/content", response=RESPONSES, openapi_extra=PUBLISHED)
def get_content(request: HttpRequest, file_id: str) -> HttpResponseBase:
    """Stream one file's bytes. `Repr-Digest` has the SHA-256 of the whole file, `ETag` names it."""
    return download(request, file_by_id(organisation=caller_of(request).organisation, public_id=file_id))


def file_object(organisation: Organisation, stored: StoredFile) -> dict[str, Any]:
    """Give OpenAI's file object, with the newest quote of a file that was uploaded."""
    return _file(stored, quotes_of_files(organisation, [stored]).get(stored.quote_id))


def _file(stored: StoredFile, quote: FileQuote | None) -> dict[str, Any]:
    return {
        "id": stored.public_id,
        "object": "file",
        "bytes": stored.size_bytes,
        "created_at": int(stored.created_at.timestamp()),
        "expires_at": int(stored.expires_at.timestamp()) if stored.expires_at else None,
        "filename": stored.filename,
        "purpose": stored.purpose,
        "status": "processed",
        "quote": None if quote is None else _quote(quote),
    }


def _quote(quote: FileQuote) -> dict[str, Any]:
    return {
        "id": quote.public_id,
        "object": "quote",
        "status": quote.status,
        "url": f"/v1/quotes/{quote.public_id}",
        "expires_at": int(quote.expires_at.timestamp()) if quote.expires_at else None,
        "total_micro_usd": quote.total_micro_usd,
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
