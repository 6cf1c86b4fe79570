"""The one clock. Domain code takes ``at`` as an argument; only edges read it here.

SQL asks ``lanehouse_now()``. Tests move both together (``tests/harness/clock.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime


def _system_time() -> datetime:
    return datetime.now(UTC)


_source: Callable[[], datetime] = _system_time


def now() -> datetime:
    """Give the current instant, aware, in UTC."""
    return _source()


def use_source(source: Callable[[], datetime] | None) -> None:
    """Replace this process's clock, or put the system's back with None; only the tests' clock does."""
    global _source  # noqa: PLW0603 -- one clock per process is the point
    _source = source or _system_time
