"""The product on a loopback port, from a thread of the tests' process, on the tests' database."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from django.core.handlers.wsgi import WSGIHandler
from django.test.testcases import LiveServerThread

_PATIENCE_SECONDS = 20


class _Gauge:
    """How many requests are under way."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()

    def step(self, by: int) -> None:
        with self._changed:
            self._count += by
            self._changed.notify_all()

    def wait_for_none(self) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not self._count, _PATIENCE_SECONDS)


class _CountingHandler(WSGIHandler):
    """The product; whitenoise in its middleware gives the static files, so no other handler stands before it."""

    gauge: ClassVar = _Gauge()

    def __init__(self, _wrapped: WSGIHandler) -> None:
        super().__init__()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:  # type: ignore[override]
        self.gauge.step(1)
        try:
            answer = super().__call__(environ, start_response)
        except BaseException:
            self.gauge.step(-1)
            raise
        return _CountedBody(answer, self.gauge)


class _CountedBody:
    """An answer that is under way until it is closed, be it read or not."""

    def __init__(self, answer: Any, gauge: _Gauge) -> None:
        self._answer = answer
        self._gauge = gauge

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._answer)

    def close(self) -> None:
        try:
            self._answer.close()
        finally:
            self._gauge.step(-1)


class Server:
    """A running server: ``url`` is ``http://127.0.0.1:port``."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def wait_until_quiet(self) -> None:
        """Return when no request is under way: only then may the database be emptied."""
        assert _CountingHandler.gauge.wait_for_none(), "a request never ended"


@contextmanager
def serving() -> Iterator[Server]:
    """Serve pages and static files, each request on a thread of its own."""
    thread = LiveServerThread("127.0.0.1", _CountingHandler)
    thread.daemon = True
    thread.start()
    assert thread.is_ready.wait(_PATIENCE_SECONDS), "the server did not start"
    if thread.error:
        raise thread.error
    try:
        yield Server(thread.port)
    finally:
        thread.terminate()
