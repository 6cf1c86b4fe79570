"""Bodies on their way in: collected in memory on the event loop, or read by a thread as they come.

A body is whole when the parser of HTTP says so (its last chunk, or its declared length), never because the connection
ended.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings

from config.errors import BodyLost, broken_off
from config.pace import Pace
from ground.errors import BodyTooSlow, LanehouseError, ServerBusy

Receive = Callable[[], Awaitable[Any]]
PIECE_BYTES: Final = 256 * 1024


def new_pace() -> Pace:
    """Give the pace of a body that begins now."""
    return Pace(grace_seconds=settings.BODY_GRACE_SECONDS, bytes_per_second=settings.BODY_LEAST_BYTES_PER_SECOND)


class ClientGone(Exception):
    """Nobody is there any more."""


def _busy() -> ServerBusy:
    return ServerBusy("The server is busy. Send the same request again.")


def _too_slow(pace: Pace) -> BodyTooSlow:
    return BodyTooSlow(
        f"The body came too slowly: after {pace.grace_seconds:g} s each {pace.bytes_per_second} bytes give it another"
        " second. Nothing of it was used."
    )


@dataclass(slots=True, eq=False)
class _Arrival:
    """A body that is collected in memory."""

    pace: Pace
    began_at: float
    timeout: asyncio.Timeout | None = None
    is_turned_away: bool = False

    @property
    def due_at(self) -> float:
        return self.began_at + self.pace.left_seconds

    def turn_away(self) -> None:
        self.is_turned_away = True
        if self.timeout is not None:
            self.timeout.reschedule(0)


class Arrivals:
    """All bodies that are being collected: when memory is full, the one that has been coming longest makes room."""

    def __init__(self, maximum_bytes: int) -> None:
        self._maximum_bytes = maximum_bytes
        self._held_bytes = 0
        self._arrivals: dict[_Arrival, None] = {}

    async def collect(self, receive: Receive, parts: list[bytes], kept_bytes: int) -> bool:
        """Read until the body is whole (True), or longer than is kept in memory.

        Args:
            receive: ASGI's.
            parts: What came is put here.
            kept_bytes: So much is kept.

        Raises:
            ClientGone: It broke off; where that could be said, it was.
            BodyTooSlow: It came below the least pace.
            ServerBusy: Memory is full, and this one has been coming longest.
        """
        loop = asyncio.get_running_loop()
        arrival = _Arrival(pace=new_pace(), began_at=loop.time())
        self._arrivals[arrival] = None
        try:
            while True:
                try:
                    async with asyncio.timeout_at(arrival.due_at) as arrival.timeout:
                        return await self._take(arrival, receive, parts, kept_bytes)
                except TimeoutError:
                    if arrival.is_turned_away:
                        raise _busy() from None
                    # What came meanwhile has moved the end on.
                    if loop.time() >= arrival.due_at:
                        raise _too_slow(arrival.pace) from None
        finally:
            del self._arrivals[arrival]
            self._held_bytes -= arrival.pace.moved_bytes

    async def _take(self, arrival: _Arrival, receive: Receive, parts: list[bytes], kept_bytes: int) -> bool:
        pace = arrival.pace
        while True:
            piece, is_last = _piece_of(await receive())
            parts.append(piece)
            pace.note(len(piece), 0)
            self._held_bytes += len(piece)
            if is_last or pace.moved_bytes > kept_bytes:
                return is_last
            if self._held_bytes > self._maximum_bytes:
                oldest = next((each for each in self._arrivals if not each.is_turned_away), None)
                if oldest is arrival:
                    raise _busy()
                if oldest is not None:
                    oldest.turn_away()


def _piece_of(message: dict[str, Any]) -> tuple[bytes, bool]:
    """Give a piece of a body, and whether it is the last."""
    if message["type"] == "http.disconnect":
        raise ClientGone
    return message["body"], not message["more_body"]


class ArrivingBody(io.RawIOBase):
    """A body that is read by a thread while it comes."""

    def __init__(self, loop: asyncio.AbstractEventLoop, receive: Receive, parts: list[bytes]) -> None:
        self._loop = loop
        self._receive = receive
        self._pace = new_pace()
        self._rest = memoryview(b"".join(parts))
        self._is_whole = False

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 -- a buffer of any kind
        """Give the next bytes.

        Raises:
            BodyLost: No more of it comes, or too slowly.
        """
        if not self._rest and not self._is_whole:
            try:
                self._rest = memoryview(asyncio.run_coroutine_threadsafe(self._more(), self._loop).result())
            except ClientGone:
                raise BodyLost(broken_off()) from None
            except LanehouseError as error:
                raise BodyLost(error) from None
        taken = min(len(buffer), len(self._rest))
        buffer[:taken], self._rest = self._rest[:taken], self._rest[taken:]
        return taken

    async def _more(self) -> bytes:
        parts: list[bytes] = []
        size_bytes = 0
        while size_bytes < PIECE_BYTES and not self._is_whole:
            began_at = self._loop.time()
            try:
                async with asyncio.timeout(self._pace.left_seconds):
                    piece, self._is_whole = _piece_of(await self._receive())
            except TimeoutError:
                raise _too_slow(self._pace) from None
            self._pace.note(len(piece), self._loop.time() - began_at)
            parts.append(piece)
            size_bytes += len(piece)
        return b"".join(parts)
