"""The API as its callers meet it: by Django's client, and over real HTTP."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.test.testcases import LiveServerThread, _StaticFilesHandler

from simulators.openai.app import create_app
from simulators.running import RunningSimulator, running_on_thread
from tests.api.world import PROMPT_WORD, Api, Left, left
from tests.harness.clock import Clock
from tests.harness.world import Tenant, do_due_steps, make_tenant, use_simulator


@pytest.fixture
def tenant(db: None) -> Tenant:
    """An organisation with 100 USD and a key."""
    return make_tenant()


@pytest.fixture
def api(tenant: Tenant) -> Api:
    """The tenant's client program."""
    return Api(tenant)


@pytest.fixture
def other(db: None) -> Api:
    """Another tenant's client program."""
    return Api(make_tenant("globex"))


@pytest.fixture
def nothing_done(tenant: Tenant) -> Iterator[Left]:
    """Asserts at the end that the test left no quote, batch, hold or blob, and the wallet as it was."""
    before = left(tenant)
    yield before
    assert left(tenant) == before


@pytest.fixture(autouse=True)
def clean_logs(request: pytest.FixtureRequest) -> Iterator[None]:
    """Asserts after every test that the logs hold no prompt and no key."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    logging.getLogger().addHandler(handler)
    yield
    logging.getLogger().removeHandler(handler)
    text = written.getvalue()
    assert PROMPT_WORD not in text
    assert "sk-lh-" not in text


@pytest.fixture
def simulator(db: None, tmp_path: Path) -> Iterator[RunningSimulator]:
    """An OpenAI stand-in, used by every organisation's OpenAI lanes."""
    with running_on_thread(create_app(tmp_path / "simulator")) as running:
        use_simulator(running.base_url)
        yield running


@pytest.fixture
def run(simulator: RunningSimulator, clock: Clock) -> Callable[[], None]:
    """Lets the engine work until nothing is left to do, with the provider's time and ours moving on."""

    def run_to_the_end() -> None:
        for _ in range(8):
            do_due_steps()
            simulator.control.advance(3_600)
            clock.advance(seconds=61)

    return run_to_the_end


@pytest.fixture
def live_api(db: None) -> Iterator[str]:
    """The address of the API on a real socket, each request on its own thread and connection."""
    server = LiveServerThread("127.0.0.1", _StaticFilesHandler)
    server.daemon = True
    server.start()
    server.is_ready.wait()
    assert server.error is None, server.error
    yield f"http://127.0.0.1:{server.port}/v1"
    server.terminate()
