"""Between the web server and Django: bodies come in on the event loop, and a thread is taken only for what is there.

A body that fits into memory is whole before Django sees the request, so however many drip in, none keeps a thread or a
place of the gate. Longer ones are read by Django's thread as they come. That a body is whole is said by the parser of
HTTP alone (its last chunk, or its declared length), never by the end of the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, cast
from urllib.parse import unquote_to_bytes

from django.conf import settings
from django.http import HttpResponse, HttpResponseBase

from config.bodies import PIECE_BYTES, Arrivals, ArrivingBody, ClientGone, Receive, new_pace
from config.connection import CONNECTION, Connection
from config.errors import answer
from config.gate import ARRIVING
from ground import clock
from ground.errors import BodyTooSlow, LanehouseError, PayloadTooLarge
from ground.ids import new_public_id
from routing.api.answers import BODY_NS, STARTED_NS

Scope = dict[str, Any]
Send = Callable[[Any], Awaitable[None]]
Headers = list[tuple[str, str]]
Answer = tuple[int, list[tuple[bytes, bytes]], bytes]
_NO_CONTENT: Final = frozenset({204, 304})
_ENVIRON: Final[dict[str, Any]] = {
    "GATEWAY_INTERFACE": "CGI/1.1",
    "SCRIPT_NAME": "",
    "wsgi.errors": sys.stderr,
    # Our streams end where the body does, also without a declared length.
    "wsgi.input_terminated": True,
    "wsgi.multiprocess": True,
    "wsgi.multithread": True,
    "wsgi.run_once": False,
    "wsgi.version": (1, 0),
}


@dataclass(slots=True, kw_only=True)
class _Exchange:
    """One request and what is needed to answer it from a thread."""

    environ: dict[str, Any]
    loop: asyncio.AbstractEventLoop
    connection: Connection
    send: Send
    done: asyncio.Future[Answer | None]

    def finish(self, answered: Answer | None) -> None:
        """Give the answer, or None when it was sent already; only the first counts."""
        self._settle(self.done.set_result, answered)

    def fail(self, error: BaseException) -> None:
        """Say that there is no answer."""
        self._settle(self.done.set_exception, error)

    def _settle(self, settle: Callable[[Any], None], outcome: object) -> None:
        def settle_once() -> None:
            if not self.done.done():
                settle(outcome)

        # The loop ends before the last threads do.
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(settle_once)

    def stream(self, status: int, headers: list[tuple[bytes, bytes]], pieces: Iterable[bytes]) -> None:
        """Send an answer as it is made, and stop when its reader is gone or too slow."""
        try:
            self._wait(self._say({"type": "http.response.start", "status": status, "headers": headers}))
            for piece in pieces:
                for start in range(0, len(piece), PIECE_BYTES):
                    part = piece[start : start + PIECE_BYTES]
                    self._wait(self._say({"type": "http.response.body", "body": part, "more_body": True}))
            self._wait(self._say({"type": "http.response.body", "body": b""}))
        except ClientGone:
            self._wait(self._abort())

    def _wait(self, saying: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(saying, self.loop).result()

    async def _say(self, message: dict[str, Any]) -> None:
        if self.connection.is_gone:
            raise ClientGone
        # Not by what was sent so far: megabytes of it may lie in the system's buffers. What must have gone before there
        # is room again is the piece before.
        pace = new_pace()
        pace.note(PIECE_BYTES, 0)
        try:
            async with asyncio.timeout(pace.left_seconds):
                await self.send(message)
        except TimeoutError:
            raise ClientGone from None

    async def _abort(self) -> None:
        self.connection.abort()


class Bridge:
    """The ASGI application.

    Args:
        application: Django's WSGI handler.
        thread_count: So many requests are worked on at once; more wait for a thread.
    """

    def __init__(self, application: Callable[..., HttpResponseBase], *, thread_count: int) -> None:
        self._application = application
        self._threads = ThreadPoolExecutor(thread_count, thread_name_prefix="web")
        self._arrivals = Arrivals(settings.BODIES_MAX_BYTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        environ, loop = environ_of(scope), asyncio.get_running_loop()
        environ[STARTED_NS] = time.perf_counter_ns()
        try:
            environ["wsgi.input"] = await self._body_of(environ, receive)
        except ClientGone:
            return
        except LanehouseError as error:
            await _send_whole(send, _refusal(error))
            return
        exchange = _Exchange(
            environ=environ, loop=loop, connection=scope[CONNECTION], send=send, done=loop.create_future()
        )
        self._threads.submit(self._run, exchange)
        answered = await exchange.done
        if answered is not None:
            await _send_whole(send, answered)

    async def _body_of(self, environ: dict[str, Any], receive: Receive) -> io.BufferedIOBase:
        """Give a body, whole where it fits into memory; its length is then known, however it came.

        A longer one without a declared length can only be a form, whose own end is looked for.
        """
        text = environ.get("CONTENT_LENGTH", "")
        declared_bytes = int(text) if text.isdecimal() else None
        if declared_bytes == 0 or (declared_bytes is None and "HTTP_TRANSFER_ENCODING" not in environ):
            return io.BytesIO()
        parts: list[bytes] = []
        kept_bytes, began_ns = settings.BODY_KEPT_MAX_BYTES, time.perf_counter_ns()
        is_kept = declared_bytes is None or declared_bytes <= kept_bytes
        if is_kept and await self._arrivals.collect(receive, parts, kept_bytes):
            body = b"".join(parts)
            environ["CONTENT_LENGTH"] = str(len(body))
            environ.pop("HTTP_TRANSFER_ENCODING", None)
            environ[BODY_NS] = time.perf_counter_ns() - began_ns
            return io.BytesIO(body)
        if declared_bytes is None and not environ.get("CONTENT_TYPE", "").lower().startswith("multipart/form-data"):
            raise PayloadTooLarge(
                f"Without a Content-Length a body has up to {kept_bytes // 2**20} MiB. Upload a larger file by"
                " POST /v1/files with purpose 'batch', then send its id."
            )
        environ[ARRIVING] = True
        return io.BufferedReader(ArrivingBody(asyncio.get_running_loop(), receive, parts), PIECE_BYTES)

    def _run(self, exchange: _Exchange) -> None:
        """Let Django answer, on a thread; what it does when it closes an answer comes after the answer is out."""
        head: list[tuple[str, Headers]] = []
        try:
            response = self._application(exchange.environ, lambda status, headers: head.append((status, headers)))
            status, headers = int(head[0][0][:3]), head[0][1]
            try:
                if isinstance(response, HttpResponse):
                    exchange.finish(_whole(status, headers, response.content))
                else:
                    exchange.stream(status, _encoded(status, headers), cast("Iterable[bytes]", response))
            finally:
                response.close()
        except BaseException as error:  # noqa: BLE001 -- whoever waits must hear of it
            exchange.fail(error)
        else:
            exchange.finish(None)


async def _send_whole(send: Send, answered: Answer) -> None:
    status, headers, content = answered
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


def _refusal(error: LanehouseError) -> Answer:
    """Give the answer to a body that Django does not see."""
    response = answer(error)
    headers = [*response.items(), ("x-request-id", new_public_id("req_", clock.now()))]
    if isinstance(error, BodyTooSlow):
        # Others are read to their end, for a while, so that their clients come to read this.
        headers.append(("connection", "close"))
    return _whole(response.status_code, headers, response.content)


def _whole(status: int, headers: Headers, content: bytes) -> Answer:
    """Give an answer that is all there, with its length."""
    encoded = _encoded(status, headers)
    if status not in _NO_CONTENT and not any(name == b"content-length" for name, _ in encoded):
        encoded.append((b"content-length", b"%d" % len(content)))
    return status, encoded, b"" if status in _NO_CONTENT else content


def _encoded(status: int, headers: Headers) -> list[tuple[bytes, bytes]]:
    return [
        (name.lower().encode("latin-1"), value.strip().encode("latin-1"))
        for name, value in headers
        if status not in _NO_CONTENT or name.lower() != "content-length"
    ]


def environ_of(scope: Scope) -> dict[str, Any]:
    """Give the WSGI environment of a request's head; of a header that stands twice, both values."""
    server, client = scope["server"] or ("", None), scope["client"] or ("", 0)
    environ = {
        **_ENVIRON,
        "REQUEST_METHOD": scope["method"],
        "PATH_INFO": unquote_to_bytes(scope["raw_path"]).decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "SERVER_NAME": server[0],
        "SERVER_PORT": str(server[1] or 0),
        "REMOTE_ADDR": client[0],
        "REMOTE_PORT": str(client[1]),
        "wsgi.url_scheme": scope["scheme"],
    }
    for raw_name, raw_value in scope["headers"]:
        name = _environ_name(bytes(raw_name))
        if name is None:
            continue
        value = raw_value.decode("latin-1")
        if name in environ:
            value = f"{environ[name]}{'; ' if name == 'HTTP_COOKIE' else ','}{value}"
        environ[name] = value
    return environ


@lru_cache(maxsize=512)
def _environ_name(name: bytes) -> str | None:
    """Give a header's name in the environment; none where an underscore would make it another header's."""
    if b"_" in name:
        return None
    text = name.decode("latin-1").upper().replace("-", "_")
    return text if text in {"CONTENT_TYPE", "CONTENT_LENGTH"} else f"HTTP_{text}"
