"""``python -m simulators.anthropic``: run the simulated Anthropic until SIGTERM or SIGINT."""

from simulators.anthropic.app import create_app
from simulators.commandline import make_parser, serve, wanted_settings

_DURATIONS = ("starting_seconds", "ending_seconds", "canceling_seconds")


def main() -> None:
    """Read the command line and serve; the URL is written to standard output when the port is open."""
    arguments = make_parser("anthropic", "A stand-in Anthropic server.", 9102, _DURATIONS).parse_args()
    serve(create_app(arguments.state_dir, wanted_settings(arguments)), arguments.host, arguments.port)


if __name__ == "__main__":
    main()
