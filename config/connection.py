"""A client's connection: uvicorn's, and what it leaves open.

A head has a longest time and a longest length, a body that breaks off is answered, a refused body is not read for ever,
and what the server itself refuses is said in the standard envelope.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import orjson
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from config.errors import broken_off, envelope, status_of
from ground.errors import HeadTooLong, InvalidRequest, LanehouseError

CONNECTION: Final = "lanehouse.connection"
HEAD_SECONDS: Final = 30.0
HEAD_MAX_BYTES: Final = 64 * 1024
# So long is a body still read, and thrown away, whose answer is out: a client that sends first and reads then gets it.
LINGER_SECONDS: Final = 30.0


class Connection(HttpToolsProtocol):
    """One connection; its requests find it in their scope."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 -- uvicorn's own
        super().__init__(*args, **kwargs)
        self._head_bytes = 0
        self._is_in_head = True
        self._due: asyncio.TimerHandle | None = None

    @property
    def _cycle(self) -> RequestResponseCycle | None:
        """The newest request whose head was whole; none before the first."""
        return self.cycle

    @property
    def is_gone(self) -> bool:
        """Whether nobody is there any more to be answered."""
        return self.transport.is_closing()

    def abort(self) -> None:
        """Close at once; what is not sent yet is not sent."""
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn narrows it
        """Begin to wait for the first head."""
        super().connection_made(transport)
        self._close_in(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._keep_open()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        self._head_bytes += len(data)
        super().data_received(data)
        if not self._is_in_head or self.is_gone or not self._head_bytes:
            return
        if self._head_bytes > HEAD_MAX_BYTES:
            self._refuse(HeadTooLong(f"The head of a request has up to {HEAD_MAX_BYTES // 1024} KiB."))
        elif self._due is None:
            self._close_in(HEAD_SECONDS)

    def on_headers_complete(self) -> None:
        """Begin a request."""
        self._is_in_head = False
        self._keep_open()
        self.scope[CONNECTION] = self  # type: ignore[typeddict-unknown-key]  # ASGI lets a server add its own
        super().on_headers_complete()
        # What a chunked body sends behind its end is no part of the head, whatever it calls itself.
        self.headers = []

    def on_message_complete(self) -> None:
        """End a request's body."""
        super().on_message_complete()
        self._is_in_head, self._head_bytes = True, 0
        if self.cycle.response_complete:
            self._close_in(self.timeout_keep_alive)

    def on_response_complete(self) -> None:
        """End a request's answer; its body may still be coming."""
        super().on_response_complete()
        if not self._is_in_head and self.cycle.response_complete and not self.is_gone:
            self._close_in(LINGER_SECONDS)

    def eof_received(self) -> bool:  # type: ignore[override]  # uvicorn's gives nothing, which asyncio takes as False
        """Answer a body that breaks off, where somebody may still listen; True lets a whole request be answered."""
        cycle = self._cycle
        if cycle is None or cycle.response_complete:
            return False
        if self._is_in_head:
            cycle.keep_alive = False
            return True
        if not cycle.response_started:
            self._refuse(broken_off())
        return False

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP; ``msg`` is uvicorn's own sentence."""
        self._refuse(InvalidRequest(msg, code="malformed_request") if self._is_in_head else broken_off())

    def _refuse(self, error: LanehouseError) -> None:
        """Answer in place of the request that is coming in, which then finds its client gone, and close."""
        cycle = self._cycle
        is_turn = cycle is None or cycle.response_complete
        if cycle is not None and not self._is_in_head and not cycle.response_started:
            is_turn, cycle.disconnected = True, True
            cycle.message_event.set()
        if is_turn:
            status = status_of(error)
            body = orjson.dumps(envelope(error, status))
            self.transport.write(
                b"%bcontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"
                % (STATUS_LINE[status], len(body), body)
            )
        self.transport.close()

    def _close_in(self, seconds: float) -> None:
        self._keep_open()
        self._due = self.loop.call_later(seconds, self.transport.close)

    def _keep_open(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None
