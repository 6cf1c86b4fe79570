"""Run an ASGI app on a loopback port with granian: until a signal, or on a thread."""

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from granian.constants import HTTPModes, Interfaces
from granian.server.embed import Server
from starlette.applications import Starlette

_READY_SECONDS = 20.0
_STOP_SECONDS = 5.0
_GRACE_SECONDS = 1.0


def reserve_port(host: str, port: int) -> socket.socket:
    """A bound socket that keeps a port (0: a free one) for a server that listens with SO_REUSEPORT.

    Raises:
        OSError: another server listens on the port.
    """
    if port:
        # SO_REUSEPORT would let two servers share the port and each take half of the calls.
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    reserved = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind((host, port))
    except OSError:
        reserved.close()
        raise
    return reserved


async def wait_until_listening(host: str, port: int, still_running: Callable[[], bool]) -> None:
    """Return when `port` takes connections.

    Raises:
        RuntimeError: the server ended, or did not listen within 20 seconds.
    """
    deadline = asyncio.get_running_loop().time() + _READY_SECONDS
    while still_running() and asyncio.get_running_loop().time() < deadline:
        with suppress(OSError):
            _, writer = await asyncio.open_connection(host, port)
            writer.close()
            await writer.wait_closed()
            return
        await asyncio.sleep(0.01)
    message = f"nothing listens on {host}:{port}"
    raise RuntimeError(message)


def make_server(app: Starlette, host: str, port: int) -> Server:
    """A granian server for `app`: one worker on the running loop, HTTP/1.1 only."""
    return Server(
        app,
        address=host,
        port=port,
        interface=Interfaces.ASGI,
        http=HTTPModes.http1,
        websockets=False,
        log_enabled=False,
    )


async def serve_until_signal(app: Starlette, host: str, port: int, on_ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; `on_ready` gets the URL (``http://host:port``)."""
    with reserve_port(host, port) as reserved:
        bound_port = reserved.getsockname()[1]
        server = make_server(app, host, bound_port)
        loop = asyncio.get_running_loop()
        for signal_number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(signal_number, _stop_soon, server)
        serving = asyncio.create_task(server.serve())
        await wait_until_listening(host, bound_port, lambda: not serving.done())
        on_ready(f"http://{host}:{bound_port}")
        await serving


def _stop_soon(server: Server) -> None:
    """Stop in good order, or after a second without it: state survives a kill, so nothing is worth waiting for."""
    last_resort = threading.Timer(_GRACE_SECONDS, os._exit, (0,))
    last_resort.daemon = True
    last_resort.start()
    server.stop()  # type: ignore[no-untyped-call]


@contextmanager
def serving_on_thread(app: Starlette, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Serve `app` on a thread of this process; gives its URL (``http://host:port``)."""
    with reserve_port(host, port) as reserved:
        bound_port = reserved.getsockname()[1]
        stop: list[Callable[[], object]] = []
        ready = threading.Event()

        async def serve() -> None:
            server = make_server(app, host, bound_port)
            loop = asyncio.get_running_loop()
            serving = asyncio.create_task(server.serve())
            await wait_until_listening(host, bound_port, lambda: not serving.done())
            stop.append(lambda: loop.call_soon_threadsafe(server.stop))
            ready.set()
            await serving

        thread = threading.Thread(target=asyncio.run, args=(serve(),), name="simulator", daemon=True)
        thread.start()
        try:
            if not ready.wait(_READY_SECONDS):
                message = "the simulator did not start"
                raise RuntimeError(message)
            yield f"http://{host}:{bound_port}"
        finally:
            for call in stop:
                call()
            thread.join(_STOP_SECONDS)
