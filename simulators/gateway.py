"""What stands around every call of a simulated provider: the fault that strikes it, and the counters."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response, StreamingResponse

from simulators.calls import CallCounters
from simulators.connections import cut_connection
from simulators.faults import CALL_KINDS, Fault, FaultBook, FaultKind

_HTML_PAGE = (
    "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n"
    "<hr><center>cloudflare</center>\r\n</body>\r\n</html>\r\n"
)
_CUT_CHUNK_BYTES = 16_384
_CUTS = frozenset({FaultKind.CUT_BEFORE, FaultKind.CUT_AFTER, FaultKind.CUT_MIDWAY})


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who calls, and about which model, as far as that is known before the call."""

    account: str
    model: str | None = None


class Gateway:
    """Runs a call, or lets the fault that strikes it happen instead."""

    def __init__(self, faults: FaultBook, counters: CallCounters, error_response: Callable[[Fault], Response]) -> None:
        """Use `error_response` to put an `http_error` fault into the provider's own error shape."""
        self._faults = faults
        self._counters = counters
        self._error_response = error_response

    async def run(
        self, request: Request, operation: str, caller: Caller, handle: Callable[[], Awaitable[Response]]
    ) -> Response:
        """The answer to one call of `operation`."""
        fault = await run_in_threadpool(self._faults.take, CALL_KINDS, caller.account, caller.model, operation)
        response = await self._answer(request, fault, handle)
        status = fault.kind if fault is not None and fault.kind in _CUTS else str(response.status_code)
        await run_in_threadpool(self._counters.count, caller.account, operation, status)
        return response

    async def _answer(
        self, request: Request, fault: Fault | None, handle: Callable[[], Awaitable[Response]]
    ) -> Response:
        replaced = None if fault is None else await self._before(request, fault)
        response = await handle() if replaced is None else replaced
        if fault is not None and fault.kind is FaultKind.CUT_MIDWAY:
            return _cut_midway(request, response, fault.after_bytes)
        if fault is not None and fault.kind is FaultKind.CUT_AFTER:
            _cut(request)
        return response

    async def _before(self, request: Request, fault: Fault) -> Response | None:
        """What the fault does before the call has any effect; an answer means that the call has none."""
        if fault.kind is FaultKind.HTTP_ERROR:
            return self._error_response(fault)
        if fault.kind is FaultKind.HTML_PAGE:
            return HTMLResponse(_HTML_PAGE, status_code=fault.status_code or 502)
        if fault.kind is FaultKind.CUT_BEFORE:
            _cut(request)
            return Response(status_code=500)
        if fault.kind is FaultKind.SLOW:
            await asyncio.sleep(1.0 if fault.delay_seconds is None else fault.delay_seconds)
        return None


def _cut(request: Request) -> None:
    if request.client is not None:
        cut_connection((request.client.host, int(request.client.port)))


def _cut_midway(request: Request, response: Response, after_bytes: int | None) -> Response:
    """Promise the whole body, send `after_bytes` of it (half, if not said), and cut."""
    body = Path(response.path).read_bytes() if isinstance(response, FileResponse) else bytes(response.body)
    sent = body[: len(body) // 2 if after_bytes is None else after_bytes]

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(sent), _CUT_CHUNK_BYTES):
            yield sent[start : start + _CUT_CHUNK_BYTES]
        # The server writes in its own task: without a moment for it, the cut would come before the bytes.
        await asyncio.sleep(0.05)
        _cut(request)

    return StreamingResponse(
        pieces(),
        status_code=response.status_code,
        headers={"content-length": str(len(body))},
        media_type=response.media_type,
    )
