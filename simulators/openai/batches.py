"""The Batches calls."""

import os
import secrets
from collections.abc import Mapping

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from simulators.clock import SimClock
from simulators.openai.files import EXPIRY_RANGE_SECONDS, new_file_id, page_limit
from simulators.openai.lifecycle import Lifecycle
from simulators.openai.records import BatchRecord
from simulators.openai.settings import Settings
from simulators.openai.store import Store
from simulators.openai.wire import ApiError, WireObject, batch_object, json_response, list_page
from simulators.settings import SettingsBox

_ENDPOINTS = ("/v1/responses", "/v1/chat/completions", "/v1/embeddings", "/v1/completions")
_WINDOW_SECONDS = 86_400
_MAX_METADATA_PAIRS = 16
_MAX_METADATA_KEY_CHARS = 64
_MAX_METADATA_VALUE_CHARS = 512
_DEFAULT_PAGE_BATCHES = 20
_MAX_PAGE_BATCHES = 100


class BatchesApi:
    """Create, list, get and cancel batches of one account."""

    def __init__(self, store: Store, clock: SimClock, lifecycle: Lifecycle, settings: SettingsBox[Settings]) -> None:
        """Keep batches in `store` and let `lifecycle` move them."""
        self._store = store
        self._clock = clock
        self._lifecycle = lifecycle
        self._settings = settings

    async def create(self, request: Request, account: str) -> Response:
        """``POST /v1/batches``."""
        try:
            wanted = orjson.loads(await request.body())
        except orjson.JSONDecodeError as error:
            raise ApiError(400, "We could not parse the JSON body of your request.") from error
        if not isinstance(wanted, dict):
            raise ApiError(400, "The JSON body of your request must be an object.")
        return json_response(await run_in_threadpool(self._make, wanted, account))

    async def retrieve(self, request: Request, account: str) -> Response:
        """``GET /v1/batches/{batch_id}``."""
        return json_response(await run_in_threadpool(self._present, request.path_params["batch_id"], account))

    async def list(self, request: Request, account: str) -> Response:
        """``GET /v1/batches``."""
        limit = page_limit(request.query_params.get("limit"), _DEFAULT_PAGE_BATCHES, _MAX_PAGE_BATCHES)
        after = request.query_params.get("after")
        return json_response(await run_in_threadpool(self._page, account, after, limit))

    async def cancel(self, request: Request, account: str) -> Response:
        """``POST /v1/batches/{batch_id}/cancel``; the body is ignored."""
        return json_response(await run_in_threadpool(self._cancel, request.path_params["batch_id"], account))

    async def model_wanted(self, request: Request, account: str) -> str | None:
        """The model of the first row of the file that a create names, for faults that are meant for a model."""
        body = await request.body()
        return await run_in_threadpool(self._first_model, body, account)

    async def model_known(self, request: Request, _account: str) -> str | None:
        """The model of the batch in the path, once its file was read."""
        batch = await run_in_threadpool(self._store.batch, request.path_params["batch_id"])
        return None if batch is None else batch.model

    def _first_model(self, body: bytes, account: str) -> str | None:
        try:
            source = self._store.file(account, str(orjson.loads(body)["input_file_id"]), self._clock.now())
            if source is None:
                return None
            with self._store.content_path(source.id).open("rb") as lines:
                return str(orjson.loads(lines.readline())["body"]["model"])
        except (ValueError, TypeError, KeyError):
            return None

    def _make(self, wanted: WireObject, account: str) -> WireObject:
        input_file_id = _required_text(wanted, "input_file_id")
        endpoint = _required_text(wanted, "endpoint")
        window = _required_text(wanted, "completion_window")
        if endpoint not in _ENDPOINTS:
            raise _unsupported(endpoint, _ENDPOINTS, "endpoint")
        if window != "24h":
            raise _unsupported(window, ("24h",), "completion_window")
        now = self._clock.now()
        source = self._store.file(account, input_file_id, now)
        if source is None:
            raise ApiError(404, f"No such File object: {input_file_id}", param="input_file_id")
        if source.purpose != "batch":
            raise ApiError(
                400, f"File '{source.id}' has purpose '{source.purpose}', not 'batch'.", param="input_file_id"
            )
        settings = self._settings.current
        batch = BatchRecord(
            id=f"batch_{secrets.token_hex(16)}",
            account=account,
            endpoint=endpoint,
            input_file_id=source.id,
            completion_window=window,
            metadata=_metadata(wanted.get("metadata")),
            output_expires_seconds=_output_expires_seconds(wanted.get("output_expires_after")),
            status="validating",
            created_at=now,
            expires_at=now + _WINDOW_SECONDS,
            content_seed=source.content_seed,
            shuffled=settings.shuffle_results,
            output_file_id=new_file_id(),
            error_file_id=new_file_id(),
            rows_per_second=settings.rows_per_second,
        )
        os.link(self._store.content_path(source.id), self._store.input_path(batch.id))
        self._store.save_batch(batch)
        return batch_object(batch)

    def _found(self, batch_id: str, account: str) -> BatchRecord:
        batch = self._store.batch(batch_id)
        if batch is None or batch.account != account:
            raise ApiError(404, f"No such Batch object: {batch_id}", param="id")
        return batch

    def _present(self, batch_id: str, account: str) -> WireObject:
        return batch_object(self._lifecycle.advance(self._found(batch_id, account).id))

    def _page(self, account: str, after: str | None, limit: int) -> WireObject:
        if after is not None:
            self._found(after, account)
        batch_ids = self._store.batch_ids(account, after=after, limit=limit + 1)
        page = [batch_object(self._lifecycle.advance(batch_id)) for batch_id in batch_ids[:limit]]
        return list_page(page, has_more=len(batch_ids) > limit)

    def _cancel(self, batch_id: str, account: str) -> WireObject:
        batch = self._lifecycle.cancel(self._found(batch_id, account).id)
        if batch.status in {"completed", "failed", "expired", "cancelled"}:
            raise ApiError(409, f"Cannot cancel a batch with status '{batch.status}'.")
        return batch_object(batch)


def _required_text(wanted: Mapping[str, object], name: str) -> str:
    value = wanted.get(name)
    if value is None:
        raise ApiError(400, f"Missing required parameter: '{name}'.", param=name, code="missing_required_parameter")
    if not isinstance(value, str):
        raise ApiError(400, f"Invalid type for '{name}': expected a string.", param=name, code="invalid_type")
    return value


def _unsupported(value: str, allowed: tuple[str, ...], param: str) -> ApiError:
    choices = ", ".join(f"'{each}'" for each in allowed)
    message = f"Invalid value: '{value}'. Supported values are: {choices}."
    return ApiError(400, message, param=param, code="invalid_value")


def _metadata(given: object) -> Mapping[str, str] | None:
    if given is None:
        return None
    if not isinstance(given, dict):
        raise ApiError(400, "Invalid type for 'metadata': expected an object.", param="metadata", code="invalid_type")
    if len(given) > _MAX_METADATA_PAIRS:
        message = f"Invalid 'metadata': too many properties. Expected an object with at most {_MAX_METADATA_PAIRS}."
        raise ApiError(400, message, param="metadata", code="object_above_max_properties")
    for key, value in given.items():
        if len(key) > _MAX_METADATA_KEY_CHARS:
            message = f"Invalid 'metadata': a key is longer than {_MAX_METADATA_KEY_CHARS} characters."
            raise ApiError(400, message, param="metadata", code="property_name_above_max_length")
        if not isinstance(value, str):
            message = f"Invalid type for 'metadata.{key}': expected a string."
            raise ApiError(400, message, param=f"metadata.{key}", code="invalid_type")
        if len(value) > _MAX_METADATA_VALUE_CHARS:
            message = f"Invalid 'metadata.{key}': string too long, at most {_MAX_METADATA_VALUE_CHARS} characters."
            raise ApiError(400, message, param=f"metadata.{key}", code="string_above_max_length")
    return given


def _output_expires_seconds(given: object) -> int | None:
    if given is None:
        return None
    if not isinstance(given, dict) or given.get("anchor") != "created_at":
        message = "Invalid 'output_expires_after': expected an anchor of 'created_at'."
        raise ApiError(400, message, param="output_expires_after.anchor", code="invalid_value")
    seconds = given.get("seconds")
    if not isinstance(seconds, int) or seconds not in EXPIRY_RANGE_SECONDS:
        message = "Invalid 'output_expires_after.seconds': expected a value between 3600 and 2592000."
        raise ApiError(400, message, param="output_expires_after.seconds", code="invalid_value")
    return seconds
