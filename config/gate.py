"""The gate before everything else: how many requests a process works on at once, by kind of work.

A request without a place is answered at once with 503 and ``Retry-After: 1``, before any statement of the database. A
body that fits into memory is there before its request comes to the gate (``config/bridge.py``). The server has more
threads than the gate has places, and each kind has fewer places than the whole: however many longer bodies drip in or
results are drained slowly, other calls find a thread, and ``/healthz`` always does.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from enum import StrEnum
from typing import ClassVar, Final

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

from config.errors import answer
from ground.errors import ServerBusy

_PASSES: Final = frozenset({"/healthz", "/readyz"})
_WITHOUT_BODY: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_DOWNLOADS: Final = ("/content", "/results")
# In the environment of a request whose body is still coming in.
ARRIVING: Final = "lanehouse.is_arriving"


class Work(StrEnum):
    """What a request may keep a thread waiting for, or memory filled with."""

    UPLOAD = "upload"
    BODY = "body"
    DOWNLOAD = "download"
    OTHER = "other"


def work_of(request: HttpRequest) -> Work:
    """Say what a request keeps: a thread for its body or for the reader of its answer, memory, or nothing for long."""
    if request.META.get(ARRIVING):
        return Work.UPLOAD
    if request.method not in _WITHOUT_BODY:
        has_body = request.META.get("CONTENT_LENGTH") not in {None, "", "0"}
        return Work.BODY if has_body else Work.OTHER
    return Work.DOWNLOAD if request.path.endswith(_DOWNLOADS) else Work.OTHER


class Gate:
    """Places of one process.

    Args:
        all_places: Requests at once, of any kind.
        upload_places: Of these, requests whose body is still coming in.
        body_places: Of these, requests with a body that is there.
        download_places: Of these, requests for a file.
    """

    def __init__(self, *, all_places: int, upload_places: int, body_places: int, download_places: int) -> None:
        self._lock = threading.Lock()
        self._all_places = all_places
        self._places = {
            Work.UPLOAD: upload_places,
            Work.BODY: body_places,
            Work.DOWNLOAD: download_places,
            Work.OTHER: all_places,
        }
        self._taken = dict.fromkeys(Work, 0)
        self._refused = dict.fromkeys(Work, 0)

    def enter(self, work: Work) -> Callable[[], None] | None:
        """Take a place and give what leaves it, or None when there is none."""
        with self._lock:
            if sum(self._taken.values()) >= self._all_places or self._taken[work] >= self._places[work]:
                self._refused[work] += 1
                return None
            self._taken[work] += 1

        def leave() -> None:
            with self._lock:
                self._taken[work] -= 1

        return leave

    def load(self) -> dict[str, dict[str, int]]:
        """Give by kind of work the places, how many are taken now, and how many requests found none so far."""
        with self._lock:
            return {
                work.value: {
                    "places": self._places[work],
                    "taken": self._taken[work],
                    "refused_count": self._refused[work],
                }
                for work in Work
            }


class GateMiddleware:
    """Lets a request in, or answers that the server is busy."""

    # A process has one; tests may make others.
    _gates: ClassVar[list[Gate]] = []

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response
        self._gate = Gate(
            all_places=settings.GATE_PLACES,
            upload_places=settings.GATE_UPLOAD_PLACES,
            body_places=settings.GATE_BODY_PLACES,
            download_places=settings.GATE_DOWNLOAD_PLACES,
        )
        self._gates[:] = [self._gate]

    @classmethod
    def load(cls) -> dict[str, dict[str, int]]:
        """Give the load of this process's gate; empty before there is one."""
        return cls._gates[0].load() if cls._gates else {}

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer; a streamed answer keeps its place until it is closed."""
        if request.path in _PASSES:
            return self._get_response(request)
        leave = self._gate.enter(work_of(request))
        if leave is None:
            return answer(ServerBusy("The server is busy. Send the same request again."))
        try:
            response = self._get_response(request)
        except BaseException:
            leave()
            raise
        if response.streaming:
            # Called once: by the server when it closes the answer, or when nobody holds the answer any more.
            leave_once = weakref.finalize(response, leave)
            response._resource_closers.append(leave_once)  # type: ignore[attr-defined]  # noqa: SLF001 -- Django's list
        else:
            leave()
        return response
