"""HTTP with an end: a total deadline by the wall clock, and a bound on the bytes of an answer."""

import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx2


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """How long one call may take in all, how long it may stand still, and how much it may answer."""

    total_seconds: float
    idle_seconds: float
    connect_seconds: float
    answer_bytes: int

    def timeout(self) -> httpx2.Timeout:
        """Give the limits on single operations; the total is kept by the transport."""
        return httpx2.Timeout(self.idle_seconds, connect=self.connect_seconds)


class AnswerTooLargeError(httpx2.TransportError):
    """The answer went over its bound."""


class AnswerEncodedError(httpx2.TransportError):
    """The answer came compressed though it was asked for plain, so its bytes cannot be bounded."""


class BoundedTransport(httpx2.HTTPTransport):
    """One connection a request, shut from outside when the deadline passes.

    Timeouts of single reads and writes let a slow drip go on for ever, so a timer shuts the socket: whatever the
    request is blocked in then fails at once. Connections are not kept, because the timer must know its socket. Only a
    TLS handshake can outlast the deadline, by ``connect_seconds`` at most: its socket is not shown before it is done.
    """

    def __init__(self, limits: CallLimits, context: ssl.SSLContext) -> None:
        """Bound every request by ``limits``; ``context`` verifies the other side."""
        super().__init__(verify=context, trust_env=False, limits=httpx2.Limits(max_keepalive_connections=0))
        self._limits = limits

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request.

        Raises:
            httpx2.ReadTimeout: The deadline passed; also while the answer's stream is read.
            AnswerEncodedError: The answer is compressed.
        """
        watch = _Watch(self._limits.total_seconds)
        request.extensions = {**request.extensions, "trace": watch.notice}
        try:
            response = super().handle_request(request)
        except BaseException as error:
            watch.stop()
            # Nothing was sent over a connection that was never made: that error says more than the deadline.
            connecting = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
            if watch.passed and isinstance(error, httpx2.TransportError) and not connecting:
                raise _deadline_error(request) from error
            raise
        assert isinstance(response.stream, httpx2.SyncByteStream)
        response.stream = _BoundedStream(response.stream, watch, request, self._limits.answer_bytes)
        if response.headers.get("content-encoding", "identity") != "identity":
            response.close()
            raise AnswerEncodedError("the answer is compressed", request=request)
        return response


class _Watch:
    """A timer that shuts the sockets of one request."""

    def __init__(self, total_seconds: float) -> None:
        self.passed = False
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        self._timer = threading.Timer(total_seconds, self._shut)
        self._timer.daemon = True
        self._timer.start()

    def notice(self, event: str, details: dict[str, Any]) -> None:
        """Remember each socket as it is opened."""
        if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            opened = details["return_value"].get_extra_info("socket")
            with self._lock:
                self._sockets.append(opened)
            if self.passed:
                self._shut()

    def stop(self) -> None:
        self._timer.cancel()

    def _shut(self) -> None:
        self.passed = True
        with self._lock:
            for each in self._sockets:
                try:
                    # The plain method: an SSL socket's own would take the session from under the reading thread.
                    socket.socket.shutdown(each, socket.SHUT_RDWR)
                except OSError:
                    continue


class _BoundedStream(httpx2.SyncByteStream):
    """An answer's bytes, counted, until the deadline."""

    def __init__(self, inner: httpx2.SyncByteStream, watch: _Watch, request: httpx2.Request, answer_bytes: int) -> None:
        self._inner = inner
        self._watch = watch
        self._request = request
        self._answer_bytes = answer_bytes

    def __iter__(self) -> Iterator[bytes]:
        size_bytes = 0
        try:
            for chunk in self._inner:
                size_bytes += len(chunk)
                if size_bytes > self._answer_bytes:
                    raise AnswerTooLargeError("the answer is too large", request=self._request)
                yield chunk
        except httpx2.TransportError as error:
            if self._watch.passed:
                raise _deadline_error(self._request) from error
            raise
        # An answer that is framed by the end of the connection looks whole when the timer shuts it.
        if self._watch.passed:
            raise _deadline_error(self._request)

    def close(self) -> None:
        self._watch.stop()
        self._inner.close()


def _deadline_error(request: httpx2.Request) -> httpx2.ReadTimeout:
    return httpx2.ReadTimeout("the deadline of the whole call has passed", request=request)
