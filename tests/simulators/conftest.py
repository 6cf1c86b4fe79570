"""Simulated providers for each test, on a thread, with a clock that stands still."""

from collections.abc import Iterator
from pathlib import Path

import boto3  # type: ignore[import-untyped]  # it comes without types
import pytest
from anthropic import Anthropic
from botocore.client import Config  # type: ignore[import-untyped]
from openai import OpenAI

from simulators.anthropic.running import running_simulator as running_anthropic
from simulators.bedrock.running import RunningBedrock
from simulators.bedrock.running import running_simulator as running_bedrock
from simulators.openai.running import running_simulator
from tests.simulators.claude import OLD_VERSION, AnthropicDriver, BedrockDriver
from tests.simulators.driver import FROZEN_AT, Driver

# One session reads the large service models once.
_SESSION = boto3.session.Session()


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    with running_simulator(tmp_path / "openai", rows_per_second=10.0) as simulator:
        simulator.control.freeze(FROZEN_AT)
        with OpenAI(base_url=simulator.base_url, api_key="sk-driver", max_retries=0) as client:
            yield Driver(simulator, client)


@pytest.fixture
def claude(tmp_path: Path) -> Iterator[AnthropicDriver]:
    with running_anthropic(tmp_path / "anthropic", rows_per_second=10.0) as simulator:
        simulator.control.freeze(FROZEN_AT)
        with Anthropic(
            base_url=simulator.base_url, api_key="sk-ant-driver", max_retries=0, default_headers=OLD_VERSION
        ) as client:
            yield AnthropicDriver(simulator, client)


@pytest.fixture
def bedrock(tmp_path: Path) -> Iterator[BedrockDriver]:
    with running_bedrock(tmp_path / "bedrock", rows_per_second=10.0, min_record_count=2) as simulator:
        simulator.control.freeze(FROZEN_AT)
        yield from driving_bedrock(simulator)


def driving_bedrock(simulator: RunningBedrock, access_key: str = "AKIADRIVER") -> Iterator[BedrockDriver]:
    """boto3 on a simulated Bedrock, with a bucket."""
    clients = [
        _SESSION.client(
            name,
            endpoint_url=url,
            region_name="us-east-1",
            aws_access_key_id=access_key,
            aws_secret_access_key="secret",
            config=Config(retries={"total_max_attempts": 1}),
        )
        for name, url in (("bedrock", simulator.base_url), ("s3", simulator.s3_url))
    ]
    driver = BedrockDriver(simulator, *clients)
    driver.s3.create_bucket(Bucket="lane")
    yield driver
    for client in clients:
        client.close()
