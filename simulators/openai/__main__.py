"""``python -m simulators.openai``: run the simulated OpenAI until SIGTERM or SIGINT."""

from simulators.commandline import make_parser, serve, wanted_settings
from simulators.openai.app import create_app

_DURATIONS = ("validation_seconds", "finalizing_seconds", "cancelling_seconds")


def main() -> None:
    """Read the command line and serve; the URL is written to standard output when the port is open."""
    arguments = make_parser("openai", "A stand-in OpenAI server.", 9101, _DURATIONS).parse_args()
    serve(create_app(arguments.state_dir, wanted_settings(arguments)), arguments.host, arguments.port)


if __name__ == "__main__":
    main()
