"""Botocore's signed requests sent under our own deadlines and bounds.

Botocore knows time limits for single reads only. Its ``before-send`` event lets a handler answer in its place, so each
signed request goes out through our transport, as it is, and comes back as the response botocore expects.
"""

from collections.abc import Callable, Iterator
from typing import IO, cast

import httpx2
from botocore.awsrequest import (  # type: ignore[import-untyped]  # it comes without types
    AWSPreparedRequest,
    AWSResponse,
)

_CHUNK_BYTES = 2**20


def sender(http: httpx2.Client) -> Callable[..., AWSResponse]:
    """Give a handler for ``before-send`` that sends over ``http``.

    Raises:
        httpx2.TransportError: From the handler, when there was no whole answer.
    """

    def send(request: AWSPreparedRequest, **_context: object) -> AWSResponse:
        # The answer to an expectation would only cost a round trip; the header is not signed.
        headers = {name: _text(value) for name, value in request.headers.items() if name.lower() != "expect"}
        headers["Accept-Encoding"] = "identity"
        outgoing = httpx2.Request(request.method, request.url, headers=headers, content=_content(request.body))
        answer = http.send(outgoing, stream=True)
        return AWSResponse(request.url, answer.status_code, answer.headers, _RawAnswer(answer))

    return send


class _RawAnswer:
    """An answer's bytes as botocore reads them."""

    def __init__(self, answer: httpx2.Response) -> None:
        self._answer = answer
        self._chunks = answer.iter_raw()

    def read(self, amt: int | None = None) -> bytes:
        """Give the next bytes, however many came; nothing at the end. Without ``amt`` all that are left."""
        return b"".join(self._chunks) if amt is None else next(self._chunks, b"")

    def stream(self) -> Iterator[bytes]:
        """Give all bytes."""
        yield from self._chunks

    def close(self) -> None:
        """Let go of the connection."""
        self._answer.close()


def _content(body: object) -> bytes | Iterator[bytes] | None:
    if body is None or isinstance(body, bytes | bytearray):
        return None if body is None else bytes(body)
    if isinstance(body, str):
        return body.encode()
    return _pieces(cast("IO[bytes]", body))


def _pieces(source: IO[bytes]) -> Iterator[bytes]:
    while chunk := source.read(_CHUNK_BYTES):
        yield chunk


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
