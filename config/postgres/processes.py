"""Questions about other processes, answered from ``/proc`` (Linux only, as the whole start script)."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path


def command_line(pid: int) -> tuple[str, ...]:
    """Give a process's arguments; empty when it is gone, a zombie, or hidden."""
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ()
    return tuple(os.fsdecode(part) for part in raw.split(b"\0") if part)


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


def all_pids() -> Iterator[int]:
    """Give every process id that can be seen."""
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            yield int(entry.name)


def with_environment(marker: str) -> tuple[int, ...]:
    """Give the other processes that were started with this ``NAME=value`` in their environment."""
    wanted = os.fsencode(marker)
    found = []
    for pid in all_pids():
        if pid == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found.append(pid)
    return tuple(found)


def wait_until(condition: Callable[[], bool], *, seconds: float, every_seconds: float = 0.02) -> bool:
    """Wait for a condition and tell whether it came true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(every_seconds)
    return True


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to each process that is still there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def end(pids: Iterable[int], *, polite: signal.Signals = signal.SIGTERM, seconds: float) -> None:
    """Ask processes to end, and kill what has not ended in time."""
    waiting = tuple(pids)
    send(waiting, polite)
    if not wait_until(lambda: not any(map(is_alive, waiting)), seconds=seconds):
        send((pid for pid in waiting if is_alive(pid)), signal.SIGKILL)
        wait_until(lambda: not any(map(is_alive, waiting)), seconds=5)
