"""``python -m simulators.openai``: run the simulated OpenAI until SIGTERM or SIGINT."""

import argparse
import asyncio
import sys
from pathlib import Path

from simulators.openai.app import create_app
from simulators.serving import serve_until_signal


def main() -> None:
    """Read the command line and serve; the URL is written to standard output when the port is open."""
    parser = argparse.ArgumentParser(prog="python -m simulators.openai", description="A stand-in OpenAI server.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9101, help="0 takes a free port")
    parser.add_argument("--state-dir", type=Path, required=True)
    parser.add_argument("--rows-per-second", type=float, help="how fast a batch's rows are answered")
    parser.add_argument("--validation-seconds", type=float)
    parser.add_argument("--finalizing-seconds", type=float)
    parser.add_argument("--cancelling-seconds", type=float)
    parser.add_argument("--all-at-once", action="store_true", help="answer every row of a batch at once")
    arguments = parser.parse_args()
    wanted: dict[str, object] = {
        name: value
        for name, value in vars(arguments).items()
        if name.endswith(("_second", "_seconds")) and value is not None
    }
    if arguments.all_at_once:
        wanted["rows_per_second"] = None
    app = create_app(arguments.state_dir, wanted)
    try:
        asyncio.run(serve_until_signal(app, arguments.host, arguments.port, _say_ready))
    except OSError as error:
        sys.exit(f"cannot listen on {arguments.host}:{arguments.port}: {error.strerror}")


def _say_ready(url: str) -> None:
    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
