"""``python -m simulators.bedrock``: run the simulated Bedrock and its S3 until SIGTERM or SIGINT."""

import sys

from simulators.bedrock.app import create_app
from simulators.commandline import make_parser, serve, wanted_settings

_DURATIONS = ("submitted_seconds", "validating_seconds", "scheduled_seconds", "finishing_seconds", "stopping_seconds")


def main() -> None:
    """Read the command line and serve; the URL and S3's URL are written to standard output when both ports are open."""
    parser = make_parser("bedrock", "A stand-in Bedrock server with S3.", 9103, _DURATIONS)
    parser.add_argument("--s3-port", type=int, default=9104, help="0 takes the last port of this state, or a free one")
    parser.add_argument("--bucket", action="append", default=[], help="a bucket that is there from the start")
    arguments = parser.parse_args()
    for bucket in arguments.bucket:
        # What is a folder here is a bucket once S3 has read its disk.
        (arguments.state_dir / "s3" / bucket).mkdir(parents=True, exist_ok=True)
    try:
        app = create_app(
            arguments.state_dir, wanted_settings(arguments), host=arguments.host, s3_port=arguments.s3_port
        )
    except OSError as error:
        sys.exit(f"S3 cannot listen on {arguments.host}:{arguments.s3_port}: {error.strerror}")
    serve(app, arguments.host, arguments.port, app.state.s3_url)


if __name__ == "__main__":
    main()
