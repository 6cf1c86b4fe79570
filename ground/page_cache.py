"""Keeping blobs that nobody reads soon out of the machine's memory.

What is written stays there until the system wants the room, so each large payload is given pages that nothing had
before. A virtual machine has to be given each of these by its host first: 8 MB took 25 ms of the processor, and 3 where
pages came back that an earlier payload had left.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from django.core.files.storage import default_storage

# Below this there is nothing to be won.
_SMALL_BYTES: Final = 256 * 1024
# With a disk so slow that more wait, the rest goes out when the system finds time, as everything does.
_WAITING_AT_MOST: Final = 64
# Wait for what is on its way, begin the rest, wait for it (sync_file_range(2)).
_WRITE_OUT: Final = 1 | 2 | 4

_places: Final = threading.BoundedSemaphore(_WAITING_AT_MOST)
_lock: Final = threading.Lock()
_pool: ThreadPoolExecutor | None = None


def leave_to_disk(name: str, size_bytes: int) -> None:
    """Let a blob of so many bytes be on the disk alone, soon and beside other work; reading it brings it back.

    To be called when the row that names it is committed: a commit would wait at the disk behind the blob. It promises
    nothing, and does nothing for a storage elsewhere.
    """
    if size_bytes < _SMALL_BYTES:
        return
    try:
        path = default_storage.path(name)
    except NotImplementedError:
        return
    if _places.acquire(blocking=False):
        _workers().submit(_leave_to_disk, path)


def _leave_to_disk(path: str) -> None:
    try:
        # A blob that is gone, or a file system that cannot: it was about room only.
        with contextlib.suppress(OSError):
            _write_out_and_let_go(path)
    finally:
        _places.release()


def _write_out_and_let_go(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # Pages that are not written yet cannot be let go of. The metadata may wait, unlike with fdatasync(2), which
        # would make others' commits wait for the journal.
        _sync_file_range()(descriptor, 0, 0, _WRITE_OUT)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def _sync_file_range() -> ctypes._NamedFuncPointer:
    """Give the call, which Python has no name for; it leaves the interpreter free."""
    call = ctypes.CDLL(None).sync_file_range
    call.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return call


def _workers() -> ThreadPoolExecutor:
    global _pool  # noqa: PLW0603 -- one a process, made after any fork
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="leave-to-disk")
        return _pool
