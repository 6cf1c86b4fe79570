"""The Message Batches calls."""

import secrets
import string

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from simulators.anthropic.intake import Intake, first_model, read_body, take_in
from simulators.anthropic.lifecycle import Lifecycle
from simulators.anthropic.records import BatchRecord
from simulators.anthropic.settings import Settings
from simulators.anthropic.wire import (
    RESULTS_KEPT_SECONDS,
    ApiError,
    batch_object,
    json_response,
    list_page,
)
from simulators.clock import SimClock
from simulators.faults import FaultBook, FaultKind
from simulators.settings import SettingsBox

_WINDOW_SECONDS = 86_400
_ALPHABET = string.ascii_letters + string.digits
_DEFAULT_PAGE_BATCHES = 20
_MAX_PAGE_BATCHES = 1_000
_MINE = "account = ?"
_OLDER = "account = ? AND number < (SELECT number FROM work WHERE id = ?)"
_NEWER = "account = ? AND number > (SELECT number FROM work WHERE id = ?)"
_Page = tuple[list[BatchRecord], bool]


class BatchesApi:
    """Create, list, get, cancel and delete batches of one account, and read their results."""

    def __init__(
        self, lifecycle: Lifecycle, clock: SimClock, faults: FaultBook, settings: SettingsBox[Settings]
    ) -> None:
        """Let `lifecycle` move the batches of its store."""
        self._lifecycle = lifecycle
        self._store = lifecycle.store
        self._clock = clock
        self._faults = faults
        self._settings = settings

    async def create(self, request: Request, account: str) -> Response:
        """``POST /v1/messages/batches``."""
        body = await self._body(request)
        version = request.headers["anthropic-version"]
        batch = await run_in_threadpool(self._make, body, version, account)
        return self._answer(request, batch)

    async def retrieve(self, request: Request, account: str) -> Response:
        """``GET /v1/messages/batches/{batch_id}``."""
        return self._answer(request, await self._present(request, account))

    async def list(self, request: Request, account: str) -> Response:
        """``GET /v1/messages/batches``."""
        batches, has_more = await run_in_threadpool(self._page, dict(request.query_params), account)
        now, base = self._clock.now(), _base_of(request)
        return json_response(list_page([batch_object(batch, base, now) for batch in batches], has_more=has_more))

    async def cancel(self, request: Request, account: str) -> Response:
        """``POST /v1/messages/batches/{batch_id}/cancel``; the body is ignored."""
        batch = await run_in_threadpool(self._cancel, request.path_params["batch_id"], account)
        return self._answer(request, batch)

    async def delete(self, request: Request, account: str) -> Response:
        """``DELETE /v1/messages/batches/{batch_id}``; only after the end."""
        batch = await self._present(request, account)
        if batch.status != "ended":
            raise _invalid(f"Message Batch {batch.id} cannot be deleted while it is still processing.")
        await run_in_threadpool(self._store.delete, batch.id)
        return json_response({"id": batch.id, "type": "message_batch_deleted"})

    async def results(self, request: Request, account: str) -> Response:
        """``GET /v1/messages/batches/{batch_id}/results``."""
        batch = await self._present(request, account)
        if batch.status != "ended":
            raise ApiError("not_found_error", f"Message Batch {batch.id} has no results yet: it is still processing.")
        if self._clock.now() >= batch.created_at + RESULTS_KEPT_SECONDS:
            raise ApiError("not_found_error", f"The results of Message Batch {batch.id} are no longer available.")
        return FileResponse(self._store.results_path(batch.id), media_type="application/x-jsonl")

    async def model_wanted(self, request: Request, _account: str) -> str | None:
        """The model of the first row of a create, for faults that are meant for a model."""
        return first_model(await self._body(request))

    async def model_known(self, request: Request, _account: str) -> str | None:
        """The model of the first row of the batch in the path."""
        batch = await run_in_threadpool(self._store.find, request.path_params["batch_id"])
        return None if batch is None else batch.first_model

    async def _body(self, request: Request) -> bytes:
        """The body, which can be read from the connection only once."""
        if not hasattr(request.state, "body"):
            request.state.body = await read_body(request, self._settings.current.max_body_bytes)
        body: bytes = request.state.body
        return body

    def _answer(self, request: Request, batch: BatchRecord) -> Response:
        return json_response(batch_object(batch, _base_of(request), self._clock.now()))

    async def _present(self, request: Request, account: str) -> BatchRecord:
        return await run_in_threadpool(self._advanced, request.path_params["batch_id"], account)

    def _advanced(self, batch_id: str, account: str) -> BatchRecord:
        return self._lifecycle.advance(self._found(batch_id, account).id)

    def _found(self, batch_id: str, account: str) -> BatchRecord:
        batch = self._store.find(batch_id)
        if batch is None or batch.account != account:
            raise ApiError("not_found_error", f"Message Batch {batch_id} was not found.")
        return batch

    def _make(self, body: bytes, version: str, account: str) -> BatchRecord:
        settings = self._settings.current
        intake = take_in(body, version, settings)
        self._require_room(intake, settings, account)
        now = self._clock.now()
        early = self._faults.take({FaultKind.EXPIRE_BATCH}, account, intake.first_model, "batches.run")
        batch = BatchRecord(
            id="msgbatch_01" + "".join(secrets.choice(_ALPHABET) for _ in range(22)),
            account=account,
            status="in_progress",
            created_at=now,
            expires_at=now + _WINDOW_SECONDS,
            content_seed=intake.content_seed,
            shuffled=settings.shuffle_results,
            row_count=intake.row_count,
            paced_at=now + settings.starting_seconds,
            rows_per_second=settings.rows_per_second,
            stop_after_rows=None if early is None else early.after_rows or 0,
            api_version=version,
            first_model=intake.first_model,
        )
        self._store.rows_path(batch.id).write_bytes(intake.content)
        self._store.offsets_path(batch.id).write_bytes(intake.offsets.tobytes())
        self._store.save(batch)
        return batch

    def _require_room(self, intake: Intake, settings: Settings, account: str) -> None:
        """Refuse a create that would bring too many rows into processing."""
        limit = settings.max_processing_rows
        if limit is None:
            return
        mine = [self._lifecycle.advance(batch.id) for batch in self._store.open() if batch.account == account]
        processing_rows = sum(batch.row_count for batch in mine if batch.status != "ended")
        if processing_rows + intake.row_count > limit:
            message = f"Number of requests in batches would exceed your organization's rate limit of {limit:,}."
            raise ApiError("rate_limit_error", message, retry_after_seconds=60)

    def _page(self, query: dict[str, str], account: str) -> _Page:
        """A page, newest first, and whether there is more in the direction of paging."""
        limit = _page_limit(query.get("limit"))
        after_id, before_id = query.get("after_id"), query.get("before_id")
        if after_id and before_id:
            raise _invalid("Only one of before_id and after_id can be given.")
        border = after_id or before_id
        if border is None:
            batches = self._store.select(_MINE, (account,), ascending=False, limit=limit + 1)
        else:
            border = self._found(border, account).id
            condition = _OLDER if after_id else _NEWER
            batches = self._store.select(condition, (account, border), ascending=bool(before_id), limit=limit + 1)
        page = [self._lifecycle.advance(batch.id) for batch in batches[:limit]]
        return page[::-1] if before_id else page, len(batches) > limit

    def _cancel(self, batch_id: str, account: str) -> BatchRecord:
        batch = self._lifecycle.cancel(self._found(batch_id, account).id)
        if batch.status == "ended":
            raise _invalid(f"Message Batch {batch_id} cannot be canceled: processing has ended.")
        return batch


def _base_of(request: Request) -> str:
    return f"{request.url.scheme}://{request.url.netloc}/v1/messages/batches"


def _page_limit(given: str | None) -> int:
    if given is None:
        return _DEFAULT_PAGE_BATCHES
    if not given.isdecimal() or not 1 <= int(given) <= _MAX_PAGE_BATCHES:
        raise _invalid(f"limit: Input should be between 1 and {_MAX_PAGE_BATCHES}")
    return int(given)


def _invalid(message: str) -> ApiError:
    return ApiError("invalid_request_error", message)
