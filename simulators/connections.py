"""Cut a client's TCP connection from inside the server process."""

import os
import socket
from contextlib import suppress
from pathlib import Path


def cut_connection(client: tuple[str, int]) -> bool:
    """Shut down this process's socket to `client` (host, port); tells whether one was found.

    HTTP servers do not hand their sockets to the application, but the kernel lists them: a duplicate of the
    descriptor is enough to shut the connection for every holder.
    """
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            if not str(entry.readlink()).startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(entry.name))) as duplicate:
                if duplicate.getpeername()[:2] == client:
                    duplicate.shutdown(socket.SHUT_RDWR)
                    return True
    return False
