"""Bodies on the event loop: their least pace, the memory they share, and what of a head Django is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from django.test import override_settings

from config.bodies import Arrivals, ClientGone
from config.bridge import environ_of
from config.pace import Pace
from ground.errors import BodyTooSlow, LanehouseError, ServerBusy


def test_each_second_is_earned_by_what_came() -> None:
    pace = Pace(grace_seconds=10, bytes_per_second=1_000)
    assert pace.left_seconds == 10
    pace.note(4_000, 5)
    assert pace.left_seconds == 9
    pace.note(0, 9)
    assert pace.left_seconds == 0


def said(*pieces: bytes, more: bool = False) -> Callable[[], Awaitable[Any]]:
    """A client that sends these, and then nothing more, or (`more`) never ends."""
    messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    if not more:
        messages[-1]["more_body"] = False

    async def receive() -> dict[str, Any]:
        if not messages:
            await asyncio.Event().wait()
        return messages.pop(0)

    return receive


async def gone() -> dict[str, Any]:
    return {"type": "http.disconnect"}


def test_a_body_is_whole_when_its_last_piece_came() -> None:
    parts: list[bytes] = []
    assert asyncio.run(Arrivals(100).collect(said(b"ab", b"", b"c"), parts, 10))
    assert b"".join(parts) == b"abc"


def test_a_longer_body_is_left_to_be_read_as_it_comes() -> None:
    parts: list[bytes] = []
    assert not asyncio.run(Arrivals(100).collect(said(b"123456", b"78901", more=True), parts, 10))
    assert b"".join(parts) == b"12345678901"


def test_a_body_that_breaks_off_is_none() -> None:
    with pytest.raises(ClientGone):
        asyncio.run(Arrivals(100).collect(gone, [], 10))


def test_a_body_below_the_least_pace_is_refused() -> None:
    with override_settings(BODY_GRACE_SECONDS=0), pytest.raises(BodyTooSlow):
        asyncio.run(Arrivals(100).collect(said(b"a", more=True), [], 10))


def test_when_memory_is_full_the_body_that_has_been_coming_longest_makes_room() -> None:
    async def three() -> tuple[bool | BaseException, ...]:
        arrivals = Arrivals(10)
        oldest = asyncio.create_task(arrivals.collect(said(b"123456", more=True), [], 100))
        await asyncio.sleep(0)
        newer = asyncio.create_task(arrivals.collect(said(b"1", b"2"), [], 100))
        await asyncio.sleep(0)
        newest = asyncio.create_task(arrivals.collect(said(b"12345", b"6"), [], 100))
        return await asyncio.gather(oldest, newer, newest, return_exceptions=True)

    oldest, newer, newest = asyncio.run(three())
    assert isinstance(oldest, ServerBusy)
    assert (newer, newest) == (True, True)


def test_a_body_that_alone_is_too_much_is_turned_away_itself() -> None:
    with pytest.raises(LanehouseError, match="busy"):
        asyncio.run(Arrivals(10).collect(said(b"1" * 11, more=True), [], 100))


def scope(*headers: tuple[bytes, bytes], raw_path: bytes = b"/") -> dict[str, Any]:
    return {
        "method": "GET",
        "raw_path": raw_path,
        "query_string": b"a=%20",
        "http_version": "1.1",
        "scheme": "http",
        "server": ("127.0.0.1", 8000),
        "client": ("192.0.2.7", 50_000),
        "headers": headers,
    }


def test_django_is_told_the_head_as_wsgi_has_it() -> None:
    environ = environ_of(scope((b"content-type", b"text/plain"), (b"x-a", b"1"), (b"x-a", b"2"), raw_path=b"/%C3%A9"))
    assert environ["PATH_INFO"].encode("latin-1").decode() == "/é"
    assert (environ["QUERY_STRING"], environ["REMOTE_ADDR"]) == ("a=%20", "192.0.2.7")
    assert (environ["CONTENT_TYPE"], environ["HTTP_X_A"]) == ("text/plain", "1,2")


def test_an_underscore_makes_no_header_another_one() -> None:
    assert "HTTP_X_FORWARDED_FOR" not in environ_of(scope((b"x_forwarded_for", b"1.2.3.4")))
