"""The network side of a delivery: one POST, within one wall-clock deadline, to an address that was judged.

httpcore does HTTP/1.1 and TLS; below it lies a backend of ours that connects to the address we resolved and judged,
while the name goes into ``Host``, SNI and the certificate check. httpcore follows no redirect, keeps no cookie, reads
no proxy or netrc from the environment and decodes nothing, so there is nothing to switch off. Touches no database.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
import time
import unicodedata
from collections.abc import Callable, Collection, Coroutine, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Self

import httpcore2

from ground import clock
from ground.errors import InvalidRequest
from webhooks.domain.addresses import is_allowed
from webhooks.domain.receivers import Receiver, read_receiver
from webhooks.domain.records import Answer, Outcome, Parcel
from webhooks.domain.signing import signature_header

DEADLINE_SECONDS: Final = 10.0
BODY_KEPT_BYTES: Final = 4_096
HEADERS_KEPT_CHARACTERS: Final = 4_096
USER_AGENT: Final = "Lanehouse-Webhooks/1"
# A name with several addresses gets two tries, and the first may not eat the whole deadline.
# A receiver that pours interim answers would else keep the loop, which others wait for, busy until its deadline.
READ_AT_MOST_BYTES: Final = 262_144
_ADDRESSES_TRIED: Final = 2
_FIRST_CONNECT_SHARE: Final = 0.4
_RESOLVER_THREADS: Final = 64
_DETAIL_MAX_CHARACTERS: Final = 200
_NOT_ALLOWED: Final = "The address is not allowed."

Resolve = Callable[[str, int], list[str]]


def resolve_name(host: str, port: int) -> list[str]:
    """Give the addresses of a host, in the resolver's order; blocks.

    Raises:
        OSError: There are none.
    """
    found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


@cache
def _resolvers() -> ThreadPoolExecutor:
    """Give the threads that look names up: apart from any loop, which would wait for a stuck one when it ends."""
    return ThreadPoolExecutor(_RESOLVER_THREADS, thread_name_prefix="webhook-names")


@cache
def _public_tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


class _Failed(Exception):
    """The attempt ended before an answer: what kind, and a sentence."""

    def __init__(self, failure: Outcome, detail: str) -> None:
        super().__init__(detail)
        self.failure = failure
        self.detail = detail


@dataclass(slots=True)
class _Progress:
    """What is known of an attempt so far; the deadline may cut it anywhere."""

    address: str = ""
    status_code: int | None = None
    headers: tuple[tuple[str, str], ...] = ()
    body: bytearray = field(default_factory=bytearray)


class _Bounded(httpcore2.AsyncNetworkStream):
    """A stream of which only so much is read: who says more before or in its answer is cut."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream, room_bytes: int = READ_AT_MOST_BYTES) -> None:
        self._stream = stream
        self._room_bytes = room_bytes

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 -- httpcore's interface
        """Read as the stream does, as long as there is room."""
        if self._room_bytes <= 0:
            raise httpcore2.RemoteProtocolError("too much came before an answer")
        said = await self._stream.read(min(max_bytes, self._room_bytes), timeout)
        self._room_bytes -= len(said)
        return said

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 -- httpcore's interface
        """Write as the stream does."""
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 -- httpcore's interface
    ) -> httpcore2.AsyncNetworkStream:
        """Go on in TLS, under the same bound."""
        return _Bounded(await self._stream.start_tls(ssl_context, server_hostname, timeout), self._room_bytes)

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401 -- httpcore's interface
        """Tell what the stream tells."""
        return self._stream.get_extra_info(info)


class _JudgedAddresses(httpcore2.AsyncNetworkBackend):
    """Connects to these addresses and no other, whatever host it is asked for."""

    def __init__(self, addresses: list[str], progress: _Progress, first_connect_seconds: float) -> None:
        self._backend = httpcore2.AnyIOBackend()
        self._addresses = addresses[:_ADDRESSES_TRIED]
        self._progress = progress
        self._first_connect_seconds = first_connect_seconds
        self._stream: httpcore2.AsyncNetworkStream | None = None

    async def connect_tcp(
        self,
        host: str,  # noqa: ARG002 -- the name was resolved once, before
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 -- httpcore's interface
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to the first address that takes it."""
        for position, address in enumerate(self._addresses):
            is_last = position == len(self._addresses) - 1
            wait_seconds = timeout if is_last else self._first_connect_seconds
            try:
                stream = await self._backend.connect_tcp(address, port, wait_seconds, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                if is_last:
                    raise
            else:
                self._progress.address, self._stream = address, stream
                return _Bounded(stream)
        raise AssertionError("a receiver has at least one address")

    async def aclose(self) -> None:
        """Close what was connected; httpcore leaves it open when it is cut off within the TLS handshake."""
        if self._stream is not None:
            await self._stream.aclose()


class Courier:
    """Sends parcels from a thread with a loop of its own; the loop lives while the courier is entered.

    Args:
        listed: ``host:port`` that may lie inside the network, by plain HTTP too.
        deadline_seconds: wall clock around look-up, connecting, TLS, sending and the answer.
        resolve: looks a name up; tests give their own.
        tls: whom to trust; tests give their own.
    """

    def __init__(
        self,
        *,
        listed: Collection[str],
        deadline_seconds: float = DEADLINE_SECONDS,
        resolve: Resolve = resolve_name,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._listed = frozenset(listed)
        self._deadline_seconds = deadline_seconds
        self._resolve = resolve
        self._tls = tls
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._loop is not None and self._thread is not None:
            asyncio.run_coroutine_threadsafe(_cut_off(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._loop = None

    def send(self, parcel: Parcel) -> Future[Answer]:
        """Begin an attempt; its future gives the answer within the deadline."""
        return self._run(self._attempt(parcel))

    def _run(self, work: Coroutine[Any, Any, Answer]) -> Future[Answer]:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="webhook-courier", daemon=True)
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _attempt(self, parcel: Parcel) -> Answer:
        started_at, started = clock.now(), time.monotonic()
        progress = _Progress()
        failure, detail = None, ""
        try:
            async with asyncio.timeout(self._deadline_seconds):
                await self._exchange(parcel, int(started_at.timestamp()), progress)
        except TimeoutError:
            failure, detail = Outcome.TIMEOUT, f"No answer within {self._deadline_seconds:g} s."
        except _Failed as error:
            failure, detail = error.failure, error.detail[:_DETAIL_MAX_CHARACTERS]
        if progress.status_code is not None:
            # The head decides: what comes after it is kept as far as it came.
            failure, detail = None, ""
        return Answer(
            started_at=started_at,
            duration_ms=round((time.monotonic() - started) * 1000),
            status_code=progress.status_code,
            headers=progress.headers,
            body=_shown(progress.body.decode("utf-8", "replace")),
            failure=failure,
            detail=detail,
            address=progress.address,
        )

    async def _exchange(self, parcel: Parcel, timestamp_seconds: int, progress: _Progress) -> None:
        try:
            receiver = read_receiver(parcel.url, listed=self._listed)
        except InvalidRequest:
            # The rules have become stricter, or the operator took it off the list.
            raise _Failed(Outcome.BLOCKED, _NOT_ALLOWED) from None
        addresses = await self._judged_addresses(receiver)
        backend = _JudgedAddresses(addresses, progress, self._deadline_seconds * _FIRST_CONNECT_SHARE)
        connection = httpcore2.AsyncHTTPConnection(
            origin=httpcore2.Origin(receiver.scheme.encode(), receiver.host.encode(), receiver.port),
            ssl_context=self._tls or _public_tls(),
            network_backend=backend,
        )
        request = _request(parcel, receiver, timestamp_seconds)
        try:
            await _receive(await connection.handle_async_request(request), progress)
        except Exception as error:
            raise _failure_of(error, is_connected=bool(progress.address)) from error
        finally:
            await connection.aclose()
            await backend.aclose()

    async def _judged_addresses(self, receiver: Receiver) -> list[str]:
        """Look the name up once and judge every address; one that is not allowed refuses all."""
        loop = asyncio.get_running_loop()
        try:
            addresses = await loop.run_in_executor(_resolvers(), self._resolve, receiver.host, receiver.port)
        except (OSError, UnicodeError):
            raise _Failed(Outcome.DNS, "The host's name could not be resolved.") from None
        if not addresses:
            raise _Failed(Outcome.DNS, "The host's name has no address.")
        if not receiver.is_listed and not all(map(is_allowed, addresses)):
            raise _Failed(Outcome.BLOCKED, _NOT_ALLOWED)
        return addresses


async def _cut_off() -> None:
    """End the attempts that still run: only an error of the caller's leaves any."""
    running = asyncio.all_tasks() - {asyncio.current_task()}
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


def _request(parcel: Parcel, receiver: Receiver, timestamp_seconds: int) -> httpcore2.Request:
    headers = {
        "host": receiver.authority,
        "user-agent": USER_AGENT,
        "accept": "*/*",
        "accept-encoding": "identity",
        "connection": "close",
        "content-type": "application/json",
        "content-length": str(len(parcel.payload)),
        "webhook-id": parcel.event_id,
        "webhook-timestamp": str(timestamp_seconds),
        "webhook-signature": signature_header(
            event_id=parcel.event_id, timestamp_seconds=timestamp_seconds, payload=parcel.payload, keys=parcel.keys
        ),
    }
    url = httpcore2.URL(
        scheme=receiver.scheme.encode(),
        host=receiver.host.encode(),
        port=receiver.port,
        target=receiver.target.encode(),
    )
    return httpcore2.Request("POST", url, headers=list(headers.items()), content=parcel.payload)


async def _receive(response: httpcore2.Response, progress: _Progress) -> None:
    """Keep the head and the first bytes of the body, undecoded; what follows is not read."""
    progress.headers = _kept_headers(response.headers)
    progress.status_code = response.status
    with contextlib.suppress(httpcore2.NetworkError, httpcore2.ProtocolError):
        async for chunk in response.aiter_stream():
            progress.body += chunk[: BODY_KEPT_BYTES - len(progress.body)]
            if len(progress.body) >= BODY_KEPT_BYTES:
                break


def _kept_headers(raw: Iterable[tuple[bytes, bytes]]) -> tuple[tuple[str, str], ...]:
    kept, room = [], HEADERS_KEPT_CHARACTERS
    for name, value in raw:
        pair = (_shown(name.decode("latin-1")), _shown(value.decode("latin-1")))
        room -= len(pair[0]) + len(pair[1])
        if room < 0:
            break
        kept.append(pair)
    return tuple(kept)


def _shown(text: str) -> str:
    """Give foreign text with its control characters replaced: PostgreSQL holds no NUL, a terminal obeys escapes."""
    return "".join(
        "\ufffd" if unicodedata.category(character) == "Cc" and character not in "\n\t" else character
        for character in text.replace("\r\n", "\n")
    )


def _failure_of(error: Exception, *, is_connected: bool) -> Exception:
    """Translate what httpcore raises; anything it does not raise is a bug of ours and passes."""
    match error:
        case httpcore2.ConnectError() if is_connected:
            return _Failed(Outcome.TLS, _tls_sentence(error))
        case httpcore2.ConnectError() | httpcore2.ConnectTimeout():
            return _Failed(Outcome.CONNECT, "The connection could not be made.")
        case httpcore2.NetworkError():
            return _Failed(Outcome.CONNECT, "The connection was cut before an answer came.")
        case httpcore2.ProtocolError():
            return _Failed(Outcome.PROTOCOL, "What came back is no HTTP answer.")
    return error


def _tls_sentence(error: BaseException) -> str:
    cause = error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"The certificate is not good: {_shown(cause.verify_message)}."
    if isinstance(cause, ssl.SSLError) and cause.reason:
        return f"TLS failed: {_shown(cause.reason.replace('_', ' ').lower())}."
    return "TLS failed: the connection was cut."
