"""The Files calls."""

import secrets
import string

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from simulators.clock import SimClock
from simulators.openai.records import FileRecord
from simulators.openai.store import Store
from simulators.openai.uploads import Upload, receive_upload
from simulators.openai.wire import ApiError, file_object, json_response, list_page

_PURPOSES = frozenset({"assistants", "batch", "fine-tune", "vision", "user_data", "evals"})
_LASTING_SECONDS = {"batch": 30 * 86_400}
_ALPHABET = string.ascii_letters + string.digits
_MAX_PAGE_FILES = 10_000
EXPIRY_RANGE_SECONDS = range(3_600, 2_592_001)


class FilesApi:
    """Upload, list, get, read and delete files of one account."""

    def __init__(self, store: Store, clock: SimClock) -> None:
        """Keep files in `store`, dated by `clock`."""
        self._store = store
        self._clock = clock

    async def create(self, request: Request, account: str) -> Response:
        """``POST /v1/files``."""
        upload = await receive_upload(request, self._store.files_path)
        try:
            record = await run_in_threadpool(self._keep, upload, account)
        finally:
            upload.path.unlink(missing_ok=True)
        return json_response(file_object(record))

    async def list(self, request: Request, account: str) -> Response:
        """``GET /v1/files``."""
        query = request.query_params
        limit = page_limit(query.get("limit"), _MAX_PAGE_FILES, _MAX_PAGE_FILES)
        order = query.get("order", "desc")
        if order not in {"asc", "desc"}:
            raise ApiError(400, f"Invalid value: '{order}'. Supported values are: 'asc' and 'desc'.", param="order")
        records = await run_in_threadpool(
            lambda: self._store.file_page(
                account,
                purpose=query.get("purpose"),
                after=query.get("after"),
                ascending=order == "asc",
                limit=limit + 1,
                now=self._clock.now(),
            )
        )
        page = [file_object(record) for record in records[:limit]]
        return json_response(list_page(page, has_more=len(records) > limit))

    async def retrieve(self, request: Request, account: str) -> Response:
        """``GET /v1/files/{file_id}``."""
        return json_response(file_object(await self._found(request, account)))

    async def content(self, request: Request, account: str) -> Response:
        """``GET /v1/files/{file_id}/content``."""
        record = await self._found(request, account)
        return FileResponse(
            self._store.content_path(record.id), media_type="application/octet-stream", filename=record.filename
        )

    async def delete(self, request: Request, account: str) -> Response:
        """``DELETE /v1/files/{file_id}``."""
        record = await self._found(request, account)
        await run_in_threadpool(self._store.delete_file, record.id)
        return json_response({"id": record.id, "object": "file", "deleted": True})

    async def _found(self, request: Request, account: str) -> FileRecord:
        file_id = request.path_params["file_id"]
        record = await run_in_threadpool(self._store.file, account, file_id, self._clock.now())
        if record is None:
            raise ApiError(404, f"No such File object: {file_id}", param="id")
        return record

    def _keep(self, upload: Upload, account: str) -> FileRecord:
        purpose = upload.form_fields.get("purpose")
        if upload.filename is None:
            raise ApiError(400, "'file' is a required property", param="file")
        if purpose is None:
            raise ApiError(400, "'purpose' is a required property", param="purpose")
        if purpose not in _PURPOSES:
            allowed = ", ".join(f"'{each}'" for each in sorted(_PURPOSES))
            raise ApiError(400, f"'{purpose}' is not one of [{allowed}] - 'purpose'", param="purpose")
        if purpose == "batch" and not upload.filename.endswith(".jsonl"):
            raise ApiError(400, "Invalid file format for Batch API. Must be .jsonl", detail=True)
        now = self._clock.now()
        lasts_seconds = _asked_lasting_seconds(upload.form_fields) or _LASTING_SECONDS.get(purpose)
        record = FileRecord(
            id=new_file_id(),
            account=account,
            filename=upload.filename,
            purpose=purpose,
            size_bytes=upload.size_bytes,
            content_seed=upload.content_seed,
            created_at=now,
            expires_at=None if lasts_seconds is None else now + lasts_seconds,
        )
        upload.path.rename(self._store.content_path(record.id))
        self._store.save_file(record)
        return record


def new_file_id() -> str:
    """A fresh file id of letters and digits."""
    return "file-" + "".join(secrets.choice(_ALPHABET) for _ in range(22))


def page_limit(given: str | None, default: int, maximum: int) -> int:
    """The page size that a query asks for.

    Raises:
        ApiError: it is not a number from 1 to `maximum`.
    """
    if given is None:
        return default
    if not given.isdecimal() or not 1 <= int(given) <= maximum:
        message = f"Invalid 'limit': expected an integer between 1 and {maximum}, but got '{given}' instead."
        raise ApiError(400, message, param="limit", code="invalid_value")
    return int(given)


def _asked_lasting_seconds(form_fields: dict[str, str]) -> int | None:
    seconds, anchor = form_fields.get("expires_after[seconds]"), form_fields.get("expires_after[anchor]")
    if seconds is None and anchor is None:
        return None
    if anchor != "created_at":
        raise ApiError(400, "Invalid 'expires_after.anchor': expected 'created_at'.", param="expires_after.anchor")
    if seconds is None or not seconds.isdecimal() or int(seconds) not in EXPIRY_RANGE_SECONDS:
        message = "Invalid 'expires_after.seconds': expected a value between 3600 and 2592000."
        raise ApiError(400, message, param="expires_after.seconds")
    return int(seconds)
