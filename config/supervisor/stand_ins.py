"""The stand-in providers and the sample's webhook receiver: what the supervisor starts besides the product itself."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Final

from config.supervisor.children import ChildSpec
from config.supervisor.state import StateDir

_HOST: Final = "127.0.0.1"
_BUCKET: Final = "lanehouse-batches"
# Batches of the sample take some seconds, so that there is something to see.
_ROWS_PER_SECOND: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIns:
    """Where the stand-ins listen; the ports are kept from run to run."""

    openai_port: int
    anthropic_port: int
    bedrock_port: int
    s3_port: int
    receiver_port: int

    @property
    def receiver(self) -> str:
        """The receiver as the webhook allow-list names it."""
        return f"{_HOST}:{self.receiver_port}"

    def environment(self) -> dict[str, str]:
        """Give what the sample is told of them."""
        return {
            "LANEHOUSE_SIMULATOR_OPENAI_URL": f"http://{_HOST}:{self.openai_port}/v1",
            "LANEHOUSE_SIMULATOR_ANTHROPIC_URL": f"http://{_HOST}:{self.anthropic_port}",
            "LANEHOUSE_SIMULATOR_BEDROCK_URL": (
                f"http://{_HOST}:{self.bedrock_port}/?region=us-east-1&bucket={_BUCKET}"
                f"&role=arn:aws:iam::000000000000:role/batch&storage=http://{_HOST}:{self.s3_port}"
            ),
            "LANEHOUSE_SAMPLE_RECEIVER_URL": f"http://{self.receiver}/hooks",
        }

    def specs(self, state: StateDir, url: str) -> tuple[ChildSpec, ...]:
        """Give their children; ``url`` is the product's, for notices."""
        pace = ("--rows-per-second", str(_ROWS_PER_SECOND))
        return (
            # Its notices are signed with a secret of the environment.
            _spec(state, "openai", self.openai_port, *pace, "--notice-url", f"{url}/provider-notices/openai/customer"),
            _spec(state, "anthropic", self.anthropic_port, *pace),
            _spec(state, "bedrock", self.bedrock_port, *pace, "--s3-port", str(self.s3_port), "--bucket", _BUCKET),
            _spec(state, "receiver", self.receiver_port),
        )


def keep_stand_ins(state: StateDir) -> StandIns:
    """Give the stand-ins' ports: those of the last run where they are still free."""
    return StandIns(
        openai_port=state.kept_port("simulator-openai"),
        anthropic_port=state.kept_port("simulator-anthropic"),
        bedrock_port=state.kept_port("simulator-bedrock"),
        s3_port=state.kept_port("simulator-s3"),
        receiver_port=state.kept_port("simulator-receiver"),
    )


def _spec(state: StateDir, name: str, port: int, *more: str) -> ChildSpec:
    return ChildSpec(
        name=f"simulator-{name}",
        command=(
            *(sys.executable, "-m", f"simulators.{name}", "--host", _HOST, "--port", str(port)),
            *("--state-dir", str(state.path / "simulators" / name), *more),
        ),
        stop_seconds=5,
    )
