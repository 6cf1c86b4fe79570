"""``python -m simulators.receiver``: run the receiver until SIGTERM or SIGINT."""

from simulators.commandline import make_parser, serve
from simulators.receiver.app import create_app


def main() -> None:
    """Read the command line and serve."""
    arguments = make_parser("receiver", "A stand-in webhook receiver.", 9105, ()).parse_args()
    serve(create_app(arguments.state_dir), arguments.host, arguments.port)


if __name__ == "__main__":
    main()
