"""A server on loopback that answers every connection with the bytes it is told, as slowly as it is told."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

Answer = Callable[[socket.socket, threading.Event], None]


@dataclass(slots=True)
class OddServer:
    base_url: str
    requests: list[bytes] = field(default_factory=list)


def plain(body: bytes, status: str = "200 OK", *headers: str) -> Answer:
    """The whole answer at once."""
    head = "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers])

    def answer(connection: socket.socket, _over: threading.Event) -> None:
        connection.sendall(head.encode() + b"\r\n\r\n" + body)

    return answer


def raw(*pieces: bytes) -> Answer:
    """Exactly these bytes, then the end of the connection."""

    def answer(connection: socket.socket, _over: threading.Event) -> None:
        for piece in pieces:
            connection.sendall(piece)

    return answer


def drip(head: bytes, drop: bytes) -> Answer:
    """A beginning, then one drop after another until the client has gone."""

    def answer(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(head)
        while not over.wait(0.02):
            connection.sendall(drop)

    return answer


@contextmanager
def answering(*answers: Answer) -> Iterator[OddServer]:
    """Serve one answer a connection, the last one again and again."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = OddServer(f"http://127.0.0.1:{listener.getsockname()[1]}/v1")

        def serve() -> None:
            for number in range(10_000):
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection, suppress(OSError):
                    server.requests.append(_request(connection))
                    answers[min(number, len(answers) - 1)](connection, over)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            over.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(5)


def _request(connection: socket.socket) -> bytes:
    """Read one request with its body."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(65_536)
    head, _, body = received.partition(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    while lengths and len(body) < int(lengths[0]):
        body += connection.recv(65_536)
    return head + b"\r\n\r\n" + body
