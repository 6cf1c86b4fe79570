"""The whole product as ``make run`` starts it. Each test ends with an empty process tree."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from config.embedded_postgres import EmbeddedPostgres
from config.postgres import ports
from config.supervisor.state import parse_values

pytestmark = [pytest.mark.faults, pytest.mark.timeout(600), pytest.mark.xdist_group("product")]
ROOT = Path(__file__).resolve().parents[2]
# A start from nothing takes some ten seconds; this only ends one that hangs, also where other tests have the cores.
START_SECONDS = 240


class Product:
    """One supervised product in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        self.port = ports.find_free() or 0
        self.output = folder / "output"
        self.process: subprocess.Popen[bytes] | None = None

    def command(self, **environment: str) -> subprocess.Popen[bytes]:
        kept = {name: value for name, value in os.environ.items() if name not in {"DATABASE_URL", "CELERY_BROKER_URL"}}
        with self.output.open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "config.supervisor"],
                cwd=ROOT,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={
                    **kept,
                    "DJANGO_SETTINGS_MODULE": "config.settings.base",
                    "LANEHOUSE_STATE_DIR": str(self.state),
                    "LANEHOUSE_SHOW_SAMPLE": "no",
                    "PORT": str(self.port),
                    **environment,
                },
            )

    def start(self, **environment: str) -> None:
        self.process = self.command(**environment)
        self.wait_for(lambda: (self.state / "env").exists() and self.answers("healthz"), START_SECONDS)

    def wait_for(self, condition: Any, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert self.process is not None
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.2)

    def answers(self, path: str) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{path}", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def show_sample(self) -> subprocess.CompletedProcess[str]:
        values = parse_values((self.state / "env").read_text().splitlines())
        return subprocess.run(
            [sys.executable, "manage.py", "show_sample"],
            cwd=ROOT,
            env={**os.environ, **values, "DJANGO_SETTINGS_MODULE": "config.settings.base"},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def said(self) -> str:
        return self.output.read_text()

    def tree(self) -> list[psutil.Process]:
        assert self.process is not None
        return list(psutil.Process(self.process.pid).children(recursive=True))

    def child(self, argument: str) -> psutil.Process | None:
        """Give the child with this argument in its command line, or the server of that name."""
        assert self.process is not None
        for child in psutil.Process(self.process.pid).children():
            with contextlib.suppress(psutil.NoSuchProcess):
                if argument == child.name() or argument in child.cmdline():
                    return child
        return None

    def kill(self, argument: str) -> list[psutil.Process]:
        self.wait_for(lambda: self.child(argument) is not None, 40)
        killed = self.child(argument)
        assert killed is not None
        tree = [killed, *killed.children(recursive=True)]
        killed.kill()
        return tree


def all_gone(processes: list[psutil.Process], seconds: float = 20) -> bool:
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    return all(process.status() == psutil.STATUS_ZOMBIE for process in alive if process.is_running())


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Product]:
    made = Product(tmp_path)
    yield made
    if made.process is not None and made.process.poll() is None:
        made.process.terminate()
        made.process.wait(60)
    EmbeddedPostgres(made.state / "postgres").destroy()


def test_it_starts_says_where_it_is_and_stops_without_a_trace(product: Product) -> None:
    product.start()
    read_env = ["sh", "-c", f". {product.state}/env; echo $LANEHOUSE_URL"]
    told = subprocess.run(read_env, capture_output=True, text=True, check=True).stdout.strip()
    assert told == f"http://127.0.0.1:{product.port}"

    second = product.command()
    assert second.wait(30) == 0
    assert f"already runs here: http://127.0.0.1:{product.port}" in product.said()

    product.wait_for(lambda: product.answers("readyz"), 60)
    tree = product.tree()
    assert len(tree) > 5
    assert product.process is not None
    product.process.send_signal(signal.SIGINT)
    assert product.process.wait(45) == 0
    assert all_gone(tree, 1)
    assert not (product.state / "env").exists()


def test_a_killed_supervisor_leaves_nothing_and_the_next_start_is_clean(product: Product) -> None:
    product.start()
    tree = product.tree()
    assert product.process is not None
    product.process.kill()
    product.process.wait()
    assert all_gone(tree)
    product.start()


def test_a_killed_postgresql_comes_back_at_the_same_address(product: Product) -> None:
    product.start()
    product.kill("postgres")
    product.wait_for(lambda: "PostgreSQL is up again" in product.said(), 40)
    product.wait_for(lambda: product.answers("healthz") and product.answers("readyz"), 60)


def test_each_killed_child_comes_back_and_its_own_children_are_gone(product: Product) -> None:
    product.start()
    for name, argument in (
        ("web", "config.web"),
        ("engine", "engine@%h"),
        ("deliveries", "deliveries@%h"),
        ("beat", "beat"),
        ("simulator-openai", "simulators.openai"),
    ):
        tree = product.kill(argument)
        product.wait_for(lambda name=name: f"{name} was ended by SIGKILL; it starts again" in product.said(), 10)
        product.wait_for(lambda argument=argument: product.answers("healthz") and bool(product.child(argument)), 40)
        assert all_gone(tree, 5)


def test_a_taken_port_is_said_before_anything_is_started(product: Product) -> None:
    with socket.create_server(("127.0.0.1", product.port)):
        product.process = product.command()
        assert product.process.wait(30) == 1
    assert f"Port {product.port} on 127.0.0.1 is taken by another program" in product.said()
    assert "PostgreSQL" not in product.said()


@pytest.mark.parametrize("broker_url", ["", "amqp://guest:guest@127.0.0.1:9//"])
def test_without_a_broker_a_batch_is_finished_by_sweeps_alone(product: Product, broker_url: str) -> None:
    product.start(CELERY_BROKER_URL=broker_url)
    shown = product.show_sample()
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "Receipt rcpt_" in shown.stdout
