"""The whole product as people start it, in a folder of its own, and a customer who watches a batch through the API."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import psycopg

from config.postgres import ports
from config.supervisor.state import parse_values
from simulators.remote import SimulatorControl

ROOT = Path(__file__).resolve().parents[2]
# Everything that only makes a person wait is short.
SHORT = {
    "LANEHOUSE_SHOW_SAMPLE": "0",
    "LANEHOUSE_LEASE_SECONDS": "4",
    "LANEHOUSE_POLL_MIN_SECONDS": "1",
    "LANEHOUSE_POLL_MAX_SECONDS": "2",
    "LANEHOUSE_PROVIDER_TIMEOUT_SECONDS": "4",
}
ROWS_PER_JOB = 20
START_SECONDS = 120.0
PATIENCE_SECONDS = 120.0
ENDED = {"completed", "failed", "expired", "cancelled"}


def wait_until(condition: Callable[[], Any], seconds: float, about: Callable[[], str]) -> None:
    """Wait for what other processes do; the one place where these tests wait."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, about()
        time.sleep(0.1)


class Product:
    """One supervised product."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.state = folder / "state"
        self._output = folder / "output"
        self._port = ports.find_free() or 0
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self._known: dict[int, psutil.Process] = {}

    def start(self) -> None:
        """Start the supervisor and wait until everything answers."""
        kept = {name: value for name, value in os.environ.items() if name not in {"DATABASE_URL", "CELERY_BROKER_URL"}}
        own = {
            "DJANGO_SETTINGS_MODULE": "config.settings.base",
            "LANEHOUSE_STATE_DIR": str(self.state),
            "PORT": str(self._port),
        }
        # What a killed supervisor left says nothing about the new one.
        (self.state / "env").unlink(missing_ok=True)
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "config.supervisor"],
                cwd=ROOT,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**kept, **SHORT, **own, **self._environment},
            )
        wait_until(lambda: self._ended() or (self.state / "env").exists(), START_SECONDS, self.said)
        assert not self._ended(), self.said()
        wait_until(self._provider_answers, START_SECONDS, self.said)
        self.remember()

    def stop(self) -> None:
        """Ask for an end, and assert that nothing that ever ran here is left."""
        self.remember()
        if self._process is not None and not self._ended():
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(60)
        self.assert_gone(list(self._known.values()))

    def kill_supervisor(self) -> None:
        """Kill the supervisor, and wait until what it started has followed."""
        self.remember()
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self.assert_gone(list(self._known.values()))

    def remember(self) -> list[psutil.Process]:
        """Give the processes that run now below the supervisor, and keep them in mind."""
        assert self._process is not None
        try:
            found = psutil.Process(self._process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        self._known.update((each.pid, each) for each in found)
        return found

    def child(self, argument: str) -> psutil.Process:
        """Give the supervisor's own child with this argument in its command line, or the server of that name."""
        assert self._process is not None
        for each in psutil.Process(self._process.pid).children():
            with contextlib.suppress(psutil.NoSuchProcess):
                if argument == each.name() or argument in each.cmdline():
                    return each
        raise LookupError(argument)

    def kill_child(self, argument: str) -> None:
        """Kill a child of the supervisor with everything below it, all at once."""
        child = self.child(argument)
        self.kill([child, *child.children(recursive=True)])

    def kill(self, processes: list[psutil.Process]) -> None:
        """Kill processes of ours and wait until they are gone."""
        for each in processes:
            if each.is_running():
                each.kill()
        self.assert_gone(processes)

    def assert_gone(self, processes: list[psutil.Process]) -> None:
        _, left = psutil.wait_procs(processes, timeout=30)
        alive = [each for each in left if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]
        assert not alive, alive

    @property
    def simulator(self) -> SimulatorControl:
        """The control of the stand-in provider, whatever its address is now."""
        port = json.loads((self.state / "ports.json").read_text())["simulator-openai"]
        return SimulatorControl(f"http://127.0.0.1:{port}")

    def values(self) -> dict[str, str]:
        """What scripts are told."""
        return parse_values((self.state / "env").read_text().splitlines())

    def cut_small(self) -> None:
        """Let the lanes take small jobs only, so that a batch has several."""
        with psycopg.connect(self.values()["DATABASE_URL"], autocommit=True) as connection:
            connection.execute(
                "UPDATE catalog_lane SET maximum_rows_per_job = %s WHERE lane_id = 'openai-direct'", [ROWS_PER_JOB]
            )

    def prove(self, batch_id: str) -> None:
        """Assert the global laws of a batch, in a process that has the product's own settings."""
        kept = json.loads((self.state / "keys.json").read_text())
        done = subprocess.run(
            [sys.executable, "-m", "tests.faults.prove", batch_id],
            cwd=ROOT,
            env={
                **os.environ,
                **kept,
                "DJANGO_SETTINGS_MODULE": "config.settings.base",
                "LANEHOUSE_STATE_DIR": str(self.state),
                "DATABASE_URL": self.values()["DATABASE_URL"],
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def said(self) -> str:
        """What the supervisor and its children have written."""
        logs = sorted((self.state / "log").glob("*.log")) if (self.state / "log").exists() else []
        texts = [f"--- {path.name}\n{path.read_text(errors='replace')[-3_000:]}" for path in logs if path.exists()]
        return "\n".join([self._output.read_text(), *texts])

    def _provider_answers(self) -> bool:
        with contextlib.suppress(OSError):
            return bool(self.simulator.settings())
        return False

    def _ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None


class Customer:
    """Somebody with a key."""

    def __init__(self, product: Product) -> None:
        self._product = product
        values = product.values()
        self._url, self._key = values["LANEHOUSE_URL"], values["LANEHOUSE_API_KEY"]

    def send(self, body: bytes) -> str:
        """Quote and accept a file; give the batch."""
        quote = json.loads(self._call("/v1/quotes/model", body, "application/jsonl"))
        wanted = json.dumps({"quote_id": quote["id"]}).encode()
        return str(json.loads(self._call("/v1/batches", wanted, "application/json"))["id"])

    def batch(self, batch_id: str) -> dict[str, Any] | None:
        """Give a batch as it stands, or None while nobody answers."""
        try:
            answer: dict[str, Any] = json.loads(self._call(f"/v1/batches/{batch_id}"))
        except (urllib.error.URLError, OSError):
            return None
        return answer

    def wait_for(self, batch_id: str, condition: Callable[[dict[str, Any]], bool]) -> None:
        """Wait until a batch is as said."""

        def holds() -> bool:
            found = self.batch(batch_id)
            return found is not None and condition(found)

        wait_until(holds, PATIENCE_SECONDS, lambda: f"{self.batch(batch_id)}\n{self._product.said()}")

    def wait_for_the_middle(self, batch_id: str) -> None:
        """Wait until some rows are done and some are not."""
        self.wait_for(
            batch_id, lambda batch: 0 < batch["lanes"][0]["reported_count"] < batch["request_counts"]["total"]
        )

    def wait_for_the_end(self, batch_id: str) -> None:
        self.wait_for(batch_id, lambda batch: batch["status"] in ENDED)

    def results(self, batch_id: str) -> bytes:
        """Give a batch's results, without what is the batch's own and without the time."""
        raw = self._call(f"/v1/batches/{batch_id}/results")
        return re.sub(
            rb'"created":\d+', b'"created":0', raw.replace(batch_id.removeprefix("batch_").encode(), b"BATCH")
        )

    def receipt(self, batch_id: str) -> dict[str, Any]:
        """Give what a batch's receipt says, without what is its own."""
        receipt = json.loads(self._call(f"/v1/batches/{batch_id}/receipt"))
        return {name: value for name, value in receipt.items() if name not in {"id", "batch_id", "settled_at"}}

    def _call(self, path: str, body: bytes | None = None, content_type: str = "") -> bytes:
        headers = {"Authorization": f"Bearer {self._key}", **({"Content-Type": content_type} if content_type else {})}
        request = urllib.request.Request(self._url + path, data=body, headers=headers)  # noqa: S310 -- our own address
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 -- our own address
            content: bytes = answer.read()
        return content
