"""``python -m simulators.openai``: run the simulated OpenAI until SIGTERM or SIGINT."""

import os

from simulators.commandline import make_parser, serve, wanted_settings
from simulators.openai.app import create_app

_SECRET = "LANEHOUSE_SIMULATOR_NOTICE_SECRET"  # noqa: S105 -- the name of a variable
_DURATIONS = ("validation_seconds", "finalizing_seconds", "cancelling_seconds")


def main() -> None:
    """Read the command line and serve; the URL is written to standard output when the port is open."""
    parser = make_parser("openai", "A stand-in OpenAI server.", 9101, _DURATIONS)
    parser.add_argument("--notice-url", default="", help=f"where notices of ended batches go, signed with {_SECRET}")
    arguments = parser.parse_args()
    notices = {"notice_url": arguments.notice_url, "notice_secret": os.environ.get(_SECRET, "")}
    serve(create_app(arguments.state_dir, {**wanted_settings(arguments), **notices}), arguments.host, arguments.port)


if __name__ == "__main__":
    main()
