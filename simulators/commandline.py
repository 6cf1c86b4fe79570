"""The command line that every simulator has."""

import argparse
import asyncio
import sys
from pathlib import Path

from starlette.applications import Starlette

from simulators.serving import serve_until_signal


def make_parser(provider: str, described: str, port: int, durations: tuple[str, ...]) -> argparse.ArgumentParser:
    """A parser for host, port, state, speed, and the settings in seconds that `durations` names."""
    parser = argparse.ArgumentParser(prog=f"python -m simulators.{provider}", description=described)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=port, help="0 takes a free port")
    parser.add_argument("--state-dir", type=Path, required=True)
    parser.add_argument("--rows-per-second", type=float, help="how fast rows are answered")
    for name in durations:
        parser.add_argument(f"--{name.replace('_', '-')}", type=float)
    parser.add_argument("--all-at-once", action="store_true", help="answer every row at once")
    return parser


def wanted_settings(arguments: argparse.Namespace) -> dict[str, object]:
    """The settings that the command line gives; those of a provider must end in ``_seconds``."""
    wanted: dict[str, object] = {
        name: value
        for name, value in vars(arguments).items()
        if name.endswith(("_second", "_seconds")) and value is not None
    }
    if arguments.all_at_once:
        wanted["rows_per_second"] = None
    return wanted


def serve(app: Starlette, host: str, port: int, *more_lines: str) -> None:
    """Serve until SIGTERM or SIGINT; the URL, then `more_lines`, go to standard output when the port is open."""

    def say_ready(url: str) -> None:
        sys.stdout.write("".join(f"{line}\n" for line in (url, *more_lines)))
        sys.stdout.flush()

    try:
        asyncio.run(serve_until_signal(app, host, port, say_ready))
    except OSError as error:
        sys.exit(f"cannot listen on {host}:{port}: {error.strerror}")
