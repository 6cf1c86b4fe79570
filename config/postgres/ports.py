"""Ports of this machine."""

from __future__ import annotations

import random
import socket
from typing import Final

# Below the range that Linux hands to outgoing connections, so that a stopped server's port stays free.
PORTS: Final = range(20_000, 32_000)


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Tell whether a server could listen there."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def find_free(wanted: int = 0) -> int | None:
    """Give a free port of 127.0.0.1: the wanted one if it is free, else any."""
    tried = (wanted, *random.sample(PORTS, 50)) if wanted else random.sample(PORTS, 50)
    return next((port for port in tried if is_free(port)), None)
