"""The simulated OpenAI as an ASGI app."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from pathlib import Path

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from simulators.calls import CallCounters, account_of_key
from simulators.clock import SimClock
from simulators.control import Controls, Described, control_routes
from simulators.database import Database
from simulators.faults import Fault, FaultBook
from simulators.gateway import Caller, Gateway
from simulators.openai.batches import BatchesApi
from simulators.openai.files import FilesApi
from simulators.openai.lifecycle import Lifecycle
from simulators.openai.notices import Notifier
from simulators.openai.settings import Settings, changed_settings
from simulators.openai.store import Store
from simulators.openai.wire import ApiError, error_body, json_response
from simulators.settings import SettingsBox

Call = Callable[[Request, str], Awaitable[Response]]
ModelOf = Callable[[Request, str], Awaitable[str | None]]

_SETTINGS_DOCUMENT = "settings"
_TICK_SECONDS = 0.1
_FAULT_TYPES = {401: "authentication_error", 429: "rate_limit_error"}
_FAULT_CODES = {429: "rate_limit_exceeded"}


def create_app(state_dir: Path, wanted: Described | None = None, wall: Callable[[], float] = time.time) -> Starlette:
    """An app on `state_dir`; `wanted` settings go before those stored there; `wall` gives Unix seconds."""
    return _Simulator(state_dir, wanted or {}, wall).app()


class _Simulator:
    """Everything of one simulated OpenAI, wired together."""

    def __init__(self, state_dir: Path, wanted: Described, wall: Callable[[], float]) -> None:
        self._database = Database(state_dir / "state.sqlite3")
        self._settings = SettingsBox(
            changed_settings(Settings(), {**self._database.document(_SETTINGS_DOCUMENT), **wanted})
        )
        self._clock = SimClock(self._database, wall)
        self._faults = FaultBook(self._database)
        self._counters = CallCounters(self._database)
        self._store = Store(state_dir, self._database)
        self._notifier = Notifier(self._clock, lambda: self._settings.current)
        self._lifecycle = Lifecycle(
            self._store, self._clock, self._faults, lambda: self._settings.current, self._notifier.tell
        )
        self._gateway = Gateway(self._faults, self._counters, _fault_response)

    def app(self) -> Starlette:
        files = FilesApi(self._store, self._clock)
        batches = BatchesApi(self._store, self._clock, self._lifecycle, self._settings)
        controls = Controls(
            clock=self._clock,
            faults=self._faults,
            counters=self._counters,
            settings=self._describe_settings,
            change_settings=self._change_settings,
            work=self._work,
        )
        routes = [
            self._route("POST", "/v1/files", "files.create", files.create),
            self._route("GET", "/v1/files", "files.list", files.list),
            self._route("GET", "/v1/files/{file_id}", "files.retrieve", files.retrieve),
            self._route("DELETE", "/v1/files/{file_id}", "files.delete", files.delete),
            self._route("GET", "/v1/files/{file_id}/content", "files.content", files.content),
            self._route("POST", "/v1/batches", "batches.create", batches.create, batches.model_wanted),
            self._route("GET", "/v1/batches", "batches.list", batches.list),
            self._route("GET", "/v1/batches/{batch_id}", "batches.retrieve", batches.retrieve, batches.model_known),
            self._route("POST", "/v1/batches/{batch_id}/cancel", "batches.cancel", batches.cancel, batches.model_known),
            *control_routes(controls),
            Route("/{path:path}", _unknown_url, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
        ]

        @asynccontextmanager
        async def lifespan(_app: Starlette) -> AsyncIterator[None]:
            going_on = asyncio.create_task(self._go_on())
            yield
            going_on.cancel()
            with suppress(asyncio.CancelledError):
                await going_on
            self._database.close()

        app = Starlette(routes=routes, lifespan=lifespan)
        app.router.redirect_slashes = False
        return app

    def _route(self, method: str, path: str, operation: str, call: Call, model_of: ModelOf | None = None) -> Route:
        async def endpoint(request: Request) -> Response:
            started = time.perf_counter()
            try:
                account = self._account_of(request)
                model = await model_of(request, account) if model_of else None
                caller = Caller(account=account, model=model)
                response = await self._gateway.run(
                    request, operation, caller, lambda: _answered(call, request, account)
                )
            except ApiError as error:
                response = json_response(error.body, error.status_code)
                await run_in_threadpool(self._counters.count, "acct-unknown", operation, str(error.status_code))
            response.headers["x-request-id"] = f"req_{secrets.token_hex(16)}"
            response.headers["openai-version"] = "2020-10-01"
            response.headers["openai-processing-ms"] = str(int((time.perf_counter() - started) * 1000))
            return response

        return Route(path, endpoint, methods=[method], name=operation)

    def _account_of(self, request: Request) -> str:
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        key = key.strip()
        if scheme.lower() != "bearer" or not key:
            message = "You didn't provide an API key. You need to provide your API key in an Authorization header."
            raise ApiError(401, message)
        if key in self._settings.current.bad_keys:
            message = f"Incorrect API key provided: {key[:3]}***{key[-2:]}."
            raise ApiError(401, message, code="invalid_api_key")
        return account_of_key(key)

    async def _go_on(self) -> None:
        """Move batches on though nobody asks, where their ends are to be told of."""
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            if self._settings.current.notice_url:
                await run_in_threadpool(self._lifecycle.advance_open)

    def _change_settings(self, wanted: Described) -> Described:
        changed = changed_settings(self._settings.current, wanted)
        if "rows_per_second" in wanted:
            self._lifecycle.change_pace(changed.rows_per_second)
        self._settings.current = changed
        self._database.write_document(_SETTINGS_DOCUMENT, changed.describe())
        return changed.describe()

    def _describe_settings(self) -> Described:
        return self._settings.current.describe()

    def _work(self) -> Described:
        self._lifecycle.advance_open()
        return self._store.counts()


async def _answered(call: Call, request: Request, account: str) -> Response:
    try:
        return await call(request, account)
    except ApiError as error:
        return json_response(error.body, error.status_code)


async def _unknown_url(request: Request) -> Response:
    message = f"Unknown request URL: {request.method} {request.url.path}. Please check the URL for typos."
    return json_response(error_body(message, "invalid_request_error", None, "unknown_url"), 404)


def _fault_response(fault: Fault) -> Response:
    status_code = fault.status_code or 500
    default_type = "server_error" if status_code >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error"
    error_type = fault.error_type or _FAULT_TYPES.get(status_code, default_type)
    message = fault.message or "The server had an error while processing your request. Sorry about that!"
    code = fault.code or _FAULT_CODES.get(status_code)
    response = json_response(error_body(message, error_type, None, code), status_code)
    if fault.retry_after_seconds is not None:
        response.headers["retry-after"] = f"{fault.retry_after_seconds:g}"
    return response
