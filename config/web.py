"""The web server: ``python -m config.web --host 127.0.0.1 --port 8000 --workers 1``."""

from __future__ import annotations

import argparse
from typing import Final

import uvicorn

STOP_SECONDS: Final = 8
# Longer than clients keep a connection that they do not use, so that none sends into one that is just being closed.
_IDLE_SECONDS: Final = 75
# How long a worker that has the interpreter busy may be silent before it is taken for dead.
_SILENT_SECONDS: Final = 60


def main() -> None:
    """Serve until a signal."""
    parser = argparse.ArgumentParser(prog="python -m config.web", description="Serve Lanehouse over HTTP/1.1.")
    parser.add_argument("--host", default="127.0.0.1", help="where to listen")
    parser.add_argument("--port", default=8000, type=int, help="where to listen")
    parser.add_argument("--workers", default=1, type=int, help="processes")
    chosen = parser.parse_args()
    uvicorn.run(
        "config.serving:application",
        host=chosen.host,
        port=chosen.port,
        workers=chosen.workers,
        http="config.serving:Connection",
        interface="asgi3",
        loop="uvloop",
        ws="none",
        lifespan="off",
        log_level="info",
        access_log=False,
        # A proxy of ours is believed in one place alone (accounts/services/sign_in.py).
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS,
        timeout_worker_healthcheck=_SILENT_SECONDS,
    )


if __name__ == "__main__":
    main()
