"""What a web process does with memory that a request gave back."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Final

# <malloc.h>
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
# Above the longest body of a direct quote, with what a growing buffer takes beyond it.
_LARGEST_KEPT_BYTES: Final = 16 * 1024 * 1024
_KEPT_BYTES: Final = 2 * _LARGEST_KEPT_BYTES


def keep_freed_memory() -> None:
    """Let a body's memory be there for the next body, instead of going back to the system each time.

    The system gives it back page by page, cleared, and to a virtual machine by way of its host: reading 8 MB took 10 ms
    of the processor, and takes 2. A C library other than glibc has no such call, and is left as it is.
    """
    with contextlib.suppress(AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT_BYTES)
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
