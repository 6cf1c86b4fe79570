"""The simulated Bedrock as an ASGI app, with S3 on a port of its own."""

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

from simulators.bedrock.jobs import JobsApi
from simulators.bedrock.lifecycle import Lifecycle
from simulators.bedrock.objects import Hooks, ObjectServer
from simulators.bedrock.records import ENDED, JobRecord
from simulators.bedrock.settings import Settings, changed_settings
from simulators.bedrock.storage import Storage
from simulators.bedrock.wire import TYPE_BY_STATUS, ApiError, Identity, error_response, identity_of
from simulators.calls import CallCounters, account_of_key
from simulators.claude.store import WorkStore
from simulators.clock import SimClock
from simulators.control import Controls, Described, control_routes
from simulators.database import Database
from simulators.faults import CALL_KINDS, Fault, FaultBook
from simulators.gateway import Caller, Gateway
from simulators.settings import SettingsBox

Call = Callable[[Request, Identity], Awaitable[Response]]
ModelOf = Callable[[Request], Awaitable[str | None]]

_SETTINGS_DOCUMENT = "settings"
_S3_DOCUMENT = "s3"


def create_app(
    state_dir: Path,
    wanted: Described | None = None,
    wall: Callable[[], float] = time.time,
    *,
    host: str = "127.0.0.1",
    s3_port: int = 0,
) -> Starlette:
    """An app on `state_dir`; `wanted` settings go before those stored there; `wall` gives Unix seconds.

    S3 listens at once on `host` and `s3_port` (0: where it was last time, or a free port); its URL is
    ``app.state.s3_url``. It ends with the app.

    Raises:
        OSError: the port of S3 is taken.
    """
    return _Simulator(state_dir, wanted or {}, wall, host, s3_port).app()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Operation:
    method: str
    path: str
    name: str
    call: Call
    model_of: ModelOf | None = None


class _Simulator:
    """Everything of one simulated Bedrock, wired together."""

    def __init__(self, state_dir: Path, wanted: Described, wall: Callable[[], float], host: str, s3_port: int) -> None:
        self._database = Database(state_dir / "state.sqlite3")
        self._settings = SettingsBox(
            changed_settings(Settings(), {**self._database.document(_SETTINGS_DOCUMENT), **wanted})
        )
        self._clock = SimClock(self._database, wall)
        self._faults = FaultBook(self._database)
        self._counters = CallCounters(self._database)
        self._objects = self._open_objects(state_dir / "s3", host, s3_port)
        self._storage = Storage(self._objects.url)
        store = WorkStore(state_dir, self._database, JobRecord, ENDED)
        self._lifecycle = Lifecycle(store, self._clock, self._faults, lambda: self._settings.current, self._storage)
        self._gateway = Gateway(self._faults, self._counters, _fault_response)

    def app(self) -> Starlette:
        jobs = JobsApi(self._lifecycle, self._clock, self._settings, self._storage)
        controls = Controls(
            clock=self._clock,
            faults=self._faults,
            counters=self._counters,
            settings=self._describe_settings,
            change_settings=self._change_settings,
            work=self._work,
        )
        root, one = "/model-invocation-job", "/model-invocation-job/{job:path}"
        known, wanted = jobs.model_known, jobs.model_wanted
        operations = (
            _Operation(method="POST", path=root, name="create_model_invocation_job", call=jobs.create, model_of=wanted),
            _Operation(method="GET", path=f"{root}s", name="list_model_invocation_jobs", call=jobs.list),
            _Operation(
                method="POST", path=f"{one}/stop", name="stop_model_invocation_job", call=jobs.stop, model_of=known
            ),
            _Operation(method="GET", path=one, name="get_model_invocation_job", call=jobs.get, model_of=known),
        )
        routes = [
            *(self._route(operation) for operation in operations),
            *control_routes(controls),
            Route("/{path:path}", _unknown_url, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
        ]

        @asynccontextmanager
        async def lifespan(_app: Starlette) -> AsyncIterator[None]:
            yield
            self._storage.close()
            await run_in_threadpool(self._objects.close)
            self._database.close()

        app = Starlette(routes=routes, lifespan=lifespan)
        app.router.redirect_slashes = False
        app.state.s3_url = self._objects.url
        return app

    def _route(self, operation: _Operation) -> Route:
        async def endpoint(request: Request) -> Response:
            try:
                identity = self._identity_of(request)
                model = await operation.model_of(request) if operation.model_of else None
                caller = Caller(account=identity.account, model=model)
                response = await self._gateway.run(
                    request, operation.name, caller, lambda: _answered(operation.call, request, identity)
                )
            except ApiError as error:
                response = error_response(error.error_type, error.message)
                status = str(response.status_code)
                await run_in_threadpool(self._counters.count, "acct-unknown", operation.name, status)
            response.headers["x-amzn-requestid"] = secrets.token_hex(16)
            return response

        return Route(operation.path, endpoint, methods=[operation.method], name=operation.name)

    def _identity_of(self, request: Request) -> Identity:
        identity = identity_of(request)
        if identity.key in self._settings.current.bad_keys:
            message = "The security token included in the request is invalid."
            raise ApiError("UnrecognizedClientException", message)
        return identity

    def _open_objects(self, directory: Path, host: str, s3_port: int) -> ObjectServer:
        last_port = self._database.document(_S3_DOCUMENT).get("port", 0)
        port = s3_port or (last_port if isinstance(last_port, int) else 0)
        hooks = Hooks(
            take=lambda key, operation: self._faults.take(CALL_KINDS, account_of_key(key), None, operation),
            count=lambda key, operation, status: self._counters.count(account_of_key(key), operation, status),
        )
        objects = ObjectServer(directory, host, port, hooks)
        self._database.write_document(_S3_DOCUMENT, {"port": objects.port})
        return objects

    def _describe_settings(self) -> Described:
        return self._settings.current.describe()

    def _change_settings(self, wanted: Described) -> Described:
        changed = changed_settings(self._settings.current, wanted)
        if "rows_per_second" in wanted:
            self._lifecycle.change_pace(changed.rows_per_second)
        self._settings.current = changed
        self._database.write_document(_SETTINGS_DOCUMENT, changed.describe())
        return changed.describe()

    def _work(self) -> Described:
        self._lifecycle.advance_open()
        return {"s3_url": self._objects.url, **self._lifecycle.store.counts()}


async def _answered(call: Call, request: Request, identity: Identity) -> Response:
    try:
        return await call(request, identity)
    except ApiError as error:
        return error_response(error.error_type, error.message)


async def _unknown_url(_request: Request) -> Response:
    return error_response("UnknownOperationException", "Unknown operation.", 404)


def _fault_response(fault: Fault) -> Response:
    status_code = fault.status_code or 500
    error_type = fault.error_type or fault.code or TYPE_BY_STATUS.get(status_code, "InternalServerException")
    response = error_response(error_type, fault.message or "The request could not be processed.", status_code)
    if fault.retry_after_seconds is not None:
        response.headers["retry-after"] = f"{fault.retry_after_seconds:g}"
    return response
