"""The simulated Anthropic as an ASGI app."""

import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from simulators.anthropic.batches import BatchesApi
from simulators.anthropic.lifecycle import Lifecycle
from simulators.anthropic.records import BatchRecord
from simulators.anthropic.settings import Settings, changed_settings
from simulators.anthropic.versions import RULES
from simulators.anthropic.wire import ApiError, error_body, json_response
from simulators.calls import CallCounters, account_of_key
from simulators.claude.refusals import error_type_of
from simulators.claude.store import WorkStore
from simulators.clock import SimClock
from simulators.control import Controls, Described, control_routes
from simulators.database import Database
from simulators.faults import Fault, FaultBook, FaultKind
from simulators.gateway import Caller, Gateway
from simulators.settings import SettingsBox

Call = Callable[[Request, str], Awaitable[Response]]
ModelOf = Callable[[Request, str], Awaitable[str | None]]

_SETTINGS_DOCUMENT = "settings"
# A batch cannot fail as a whole here.
_FAULT_KINDS = frozenset(FaultKind) - {FaultKind.FAIL_BATCH}
_FAULT_MESSAGES = {
    429: "This request would exceed your account's rate limit. Please try again later.",
    529: "Overloaded",
}


def create_app(state_dir: Path, wanted: Described | None = None, wall: Callable[[], float] = time.time) -> Starlette:
    """An app on `state_dir`; `wanted` settings go before those stored there; `wall` gives Unix seconds."""
    return _Simulator(state_dir, wanted or {}, wall).app()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Operation:
    method: str
    path: str
    name: str
    call: Call
    model_of: ModelOf | None = None


class _Simulator:
    """Everything of one simulated Anthropic, wired together."""

    def __init__(self, state_dir: Path, wanted: Described, wall: Callable[[], float]) -> None:
        self._database = Database(state_dir / "state.sqlite3")
        self._settings = SettingsBox(
            changed_settings(Settings(), {**self._database.document(_SETTINGS_DOCUMENT), **wanted})
        )
        self._clock = SimClock(self._database, wall)
        self._faults = FaultBook(self._database)
        self._counters = CallCounters(self._database)
        store = WorkStore(state_dir, self._database, BatchRecord, ("ended",))
        self._lifecycle = Lifecycle(store, self._clock, self._faults, lambda: self._settings.current)
        self._gateway = Gateway(self._faults, self._counters, _fault_response)

    def app(self) -> Starlette:
        batches = BatchesApi(self._lifecycle, self._clock, self._faults, self._settings)
        controls = Controls(
            clock=self._clock,
            faults=self._faults,
            counters=self._counters,
            settings=self._describe_settings,
            change_settings=self._change_settings,
            work=self._work,
            fault_kinds=_FAULT_KINDS,
        )
        root, one = "/v1/messages/batches", "/v1/messages/batches/{batch_id}"
        known = batches.model_known
        operations = (
            _Operation(
                method="POST", path=root, name="batches.create", call=batches.create, model_of=batches.model_wanted
            ),
            _Operation(method="GET", path=root, name="batches.list", call=batches.list),
            _Operation(method="GET", path=one, name="batches.retrieve", call=batches.retrieve, model_of=known),
            _Operation(method="DELETE", path=one, name="batches.delete", call=batches.delete, model_of=known),
            _Operation(method="POST", path=f"{one}/cancel", name="batches.cancel", call=batches.cancel, model_of=known),
            _Operation(
                method="GET", path=f"{one}/results", name="batches.results", call=batches.results, model_of=known
            ),
        )
        routes = [
            *(self._route(operation) for operation in operations),
            *control_routes(controls),
            Route("/{path:path}", self._unknown_url, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
        ]

        @asynccontextmanager
        async def lifespan(_app: Starlette) -> AsyncIterator[None]:
            yield
            self._database.close()

        app = Starlette(routes=routes, lifespan=lifespan)
        app.router.redirect_slashes = False
        return app

    def _route(self, operation: _Operation) -> Route:
        async def endpoint(request: Request) -> Response:
            request.state.request_id = f"req_01{secrets.token_hex(11)}"
            try:
                account = self._account_of(request)
                model = await operation.model_of(request, account) if operation.model_of else None
                caller = Caller(account=account, model=model)
                response = await self._gateway.run(
                    request, operation.name, caller, lambda: _answered(operation.call, request, account)
                )
            except ApiError as error:
                response = _refusal(request, error)
                status = str(error.status_code)
                await run_in_threadpool(self._counters.count, "acct-unknown", operation.name, status)
            return _identified(request, response)

        return Route(operation.path, endpoint, methods=[operation.method], name=operation.name)

    def _account_of(self, request: Request) -> str:
        key = request.headers.get("x-api-key")
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if key is not None and token:
            raise ApiError("authentication_error", "Only one of x-api-key and authorization can be sent.")
        if key is None:
            key = token.strip() if scheme.lower() == "bearer" else ""
        if not key:
            raise ApiError("authentication_error", "x-api-key header is required")
        if key in self._settings.current.bad_keys:
            raise ApiError("authentication_error", "invalid x-api-key")
        version = request.headers.get("anthropic-version")
        if version is None:
            raise ApiError("invalid_request_error", "anthropic-version: header is required")
        if version not in RULES:
            raise ApiError("invalid_request_error", f'anthropic-version: "{version}" is not a valid version')
        return account_of_key(key)

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
        return self._lifecycle.store.counts()

    async def _unknown_url(self, request: Request) -> Response:
        request.state.request_id = f"req_01{secrets.token_hex(11)}"
        return _identified(request, _refusal(request, ApiError("not_found_error", "Not Found")))


async def _answered(call: Call, request: Request, account: str) -> Response:
    try:
        return await call(request, account)
    except ApiError as error:
        return _refusal(request, error)


def _refusal(request: Request, error: ApiError) -> Response:
    body = error_body(error.error_type, error.message, request.state.request_id)
    response = json_response(body, error.status_code)
    if error.retry_after_seconds is not None:
        response.headers["retry-after"] = f"{error.retry_after_seconds:g}"
    return response


def _identified(request: Request, response: Response) -> Response:
    response.headers["request-id"] = request.state.request_id
    response.headers["anthropic-organization-id"] = "00000000-0000-4000-8000-000000000000"
    return response


def _fault_response(fault: Fault) -> Response:
    status_code = fault.status_code or 500
    error_type = fault.error_type or error_type_of(status_code)
    message = fault.message or _FAULT_MESSAGES.get(status_code, "Internal server error")
    response = json_response(error_body(error_type, message, None, fault.code), status_code)
    if fault.retry_after_seconds is not None:
        response.headers["retry-after"] = f"{fault.retry_after_seconds:g}"
    return response
