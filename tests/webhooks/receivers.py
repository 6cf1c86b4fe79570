"""Receivers over real HTTP on loopback: they keep what arrived and answer as told."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    path: str
    headers: dict[str, str]
    body: bytes
    peer_port: int


Answering = Callable[[BaseHTTPRequestHandler, Request], None]


def status(code: int, body: bytes = b"", **headers: str) -> Answering:
    """Answer with a status."""

    def answer(handler: BaseHTTPRequestHandler, _request: Request) -> None:
        handler.send_response_only(code)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


@dataclass
class HttpReceiver:
    """One receiver; ``answers`` are used in turn, the last one from then on."""

    server: ThreadingHTTPServer
    answers: list[Answering]
    requests: list[Request] = field(default_factory=list)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    @property
    def authority(self) -> str:
        return f"127.0.0.1:{self.server.server_address[1]}"

    @property
    def url(self) -> str:
        return f"http://{self.authority}/hooks"

    def handle(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["content-length"]))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        request = Request(path=handler.path, headers=headers, body=body, peer_port=handler.client_address[1])
        with self._guard:
            self.requests.append(request)
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        answer(handler, request)


@contextmanager
def receiving(*answers: Answering, tls: ssl.SSLContext | None = None) -> Iterator[HttpReceiver]:
    """Run a receiver."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            receiver.handle(self)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        # The default of five is full when a turn begins.
        request_queue_size = 128

        def handle_error(self, *_: Any) -> None:
            """A client that closes early is part of some tests."""

    server = Server(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    receiver = HttpReceiver(server=server, answers=list(answers) or [status(200)])
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class Bytes:
    """A server below HTTP: whoever connects is handed to a script."""

    authority: str
    connections: int = 0

    @property
    def url(self) -> str:
        return f"http://{self.authority}/hooks"


@contextmanager
def raw_server(script: Callable[[socket.socket, threading.Event], None]) -> Iterator[Bytes]:
    """Run a script for each connection; its event is set when the test is over."""
    ended = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    known = Bytes(authority=f"127.0.0.1:{listener.getsockname()[1]}")

    def serve(connection: socket.socket) -> None:
        with connection:
            try:
                script(connection, ended)
            except OSError:
                return

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            known.connections += 1
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield known
    finally:
        ended.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
