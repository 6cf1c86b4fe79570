"""A client of the control API, for tests and demos; plain standard library."""

import http.client
import json
from collections.abc import Mapping
from typing import cast
from urllib.parse import urlsplit

from simulators.calls import account_of_key

Described = dict[str, object]
_TIMEOUT_SECONDS = 60


class ControlError(RuntimeError):
    """The simulator refused what was asked of its control API."""


class SimulatorControl:
    """Faults, clock, settings and counters of a running simulator."""

    def __init__(self, url: str) -> None:
        """Talk to the simulator at `url` (``http://host:port``)."""
        self._netloc = urlsplit(url).netloc

    def add_fault(self, kind: str, **fields: object) -> Described:
        """Ask for a fault; gives it with its id."""
        return self._call("POST", "/_sim/faults", {"kind": kind, **fields})

    def clear_faults(self) -> None:
        """Take every fault back."""
        self._call("DELETE", "/_sim/faults")

    def remove_fault(self, fault_id: str) -> None:
        """Take one fault back."""
        self._call("DELETE", f"/_sim/faults/{fault_id}")

    def faults(self) -> list[Described]:
        """Every fault with how often it fired."""
        return cast("list[Described]", self._call("GET", "/_sim/faults")["faults"])

    def freeze(self, at: float | None = None) -> float:
        """Stop the clock at Unix second `at`, or where it is; gives the instant."""
        return self._clock({"freeze": True} if at is None else {"frozen_at": at})

    def advance(self, seconds: float) -> float:
        """Move the clock on by `seconds`; gives the new instant in Unix seconds."""
        return self._clock({"advance_seconds": seconds})

    def resume(self) -> float:
        """Let a frozen clock run on; gives the instant in Unix seconds."""
        return self._clock({"freeze": False})

    def change_settings(self, **wanted: object) -> Described:
        """Change settings; gives all of them."""
        return self._call("POST", "/_sim/settings", wanted)

    def settings(self) -> Described:
        """All settings."""
        return self._call("GET", "/_sim/settings")

    def state(self) -> Described:
        """Clock, counters of calls, batches by status."""
        return self._call("GET", "/_sim/state")

    def call_count(self, operation: str, key: str | None = None) -> int:
        """How often `operation` was called, by everybody or with one API key."""
        calls = cast("dict[str, dict[str, object]]", self.state()["calls"])
        counts = calls["total"] if key is None else calls["by_account"].get(account_of_key(key), {})
        return cast("dict[str, int]", counts).get(operation, 0)

    def _clock(self, wanted: Mapping[str, object]) -> float:
        return cast("float", self._call("POST", "/_sim/clock", wanted)["now"])

    def _call(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Described:
        connection = http.client.HTTPConnection(self._netloc, timeout=_TIMEOUT_SECONDS)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            response = connection.getresponse()
            answer: Described = json.loads(response.read())
        finally:
            connection.close()
        if response.status >= http.client.BAD_REQUEST:
            message = f"{method} {path}: {answer}"
            raise ControlError(message)
        return answer
