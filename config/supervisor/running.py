"""The order of things: prepare, start, show, watch, stop."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from http import HTTPStatus
from types import FrameType
from typing import Final, NoReturn

import psycopg

from config import env
from config.embedded_postgres import EmbeddedPostgres
from config.postgres import ports
from config.postgres.problem import PostgresProblem
from config.supervisor import environment as told
from config.supervisor.children import Child, end_leftovers, how_it_ended
from config.supervisor.stand_ins import keep_stand_ins
from config.supervisor.state import StartRefused, StateDir, parse_values, write_values

LOOK_SECONDS: Final = 0.2
TRIM_SECONDS: Final = 60.0
HEALTHY_SECONDS: Final = 90.0
GIVE_UP_FAILURES: Final = 3
MIGRATION_LOCK: Final = 7_265_150_301
EMBEDDED_MAX_CONNECTIONS: Final = 100


class Stop(BaseException):
    """Someone asked us to stop (a signal); nothing else may catch it."""


class Supervisor:
    """One run of the product."""

    def __init__(self, state: StateDir, options: told.Options) -> None:
        self.state = state
        self.options = options
        self._postgres: EmbeddedPostgres | None = None
        self._postgres_due = 0.0
        self._trim_due = 0.0
        self._children: list[Child] = []
        self._sample: subprocess.Popen[bytes] | None = None
        self._stopping = False
        self._hurry = False

    def run(self) -> None:
        """Run until a signal comes.

        Raises:
            StartRefused: Something is in the way; the message says what.
            PostgresProblem: The embedded PostgreSQL cannot run.
        """
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        try:
            self._prepare()
            self._wait_until_healthy()
            self._show()
            while True:
                self._look()
                time.sleep(LOOK_SECONDS)
        except Stop:
            say("Stopping.")
        finally:
            self._stopping = True
            self._stop_everything()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self._stopping:
            self._hurry = True
            return
        self._stopping = True
        raise Stop

    def _prepare(self) -> None:
        """Bring up the database, its contents and the children."""
        self.state.env_file.unlink(missing_ok=True)
        if count := end_leftovers(f"{told.MARKER}={self.state.path}"):
            say(f"Ended {count} processes that an earlier run left behind.")
        if not ports.is_free(self.options.port, self.options.host):
            raise StartRefused(
                f"Port {self.options.port} on {self.options.host} is taken by another program;"
                f" choose another: PORT=8001 make run"
            )
        if not env.text("DATABASE_URL"):
            self._start_postgres()
        found = told.addresses(self._postgres)
        stand_ins = keep_stand_ins(self.state)
        environment = told.child_environment(self.state, found, self.options, stand_ins)
        self._migrate(environment, found.owner_url)
        self._manage(environment, "collectstatic", "--no-input", "-v", "0")
        values = self._make_sample(environment) if self.options.make_sample else {}
        specs = told.child_specs(self.state, found, self.options, stand_ins)
        self._children = [Child(spec, self.state, environment) for spec in specs]
        for child in self._children:
            child.start()
        self._values = {
            "LANEHOUSE_URL": self.options.url,
            "DATABASE_URL": found.app_url,
            "LANEHOUSE_METRICS_TOKEN": environment["LANEHOUSE_METRICS_TOKEN"],
            **values,
            told.ENV_FILE: str(self.state.env_file),
        }
        self._environment = environment
        if not found.broker_url:
            say("The broker is switched off: sweeps do the work.")

    def _start_postgres(self) -> None:
        started_at = time.monotonic()
        self._postgres = EmbeddedPostgres(self.state.postgres_dir, max_connections=EMBEDDED_MAX_CONNECTIONS)
        self._postgres.start()
        # Children keep the address, so a restart must come back to it.
        self._postgres.fixed_port = self._postgres.port
        link = self.state.path / "log" / "postgres.log"
        link.unlink(missing_ok=True)
        link.symlink_to(self._postgres.log_path)
        say(f"PostgreSQL is up on 127.0.0.1:{self._postgres.port} ({time.monotonic() - started_at:.1f} s).")

    def _migrate(self, environment: dict[str, str], owner_url: str) -> None:
        """Migrate and load the catalog as the owner; one supervisor of a shared database at a time."""
        try:
            connection = psycopg.connect(owner_url, autocommit=True, connect_timeout=10)
        except psycopg.OperationalError as error:
            raise StartRefused(f"The database does not answer: {str(error).strip()}") from None
        as_owner = {**environment, "DATABASE_URL": owner_url, "LANEHOUSE_DATABASE_POOL_MAX_SIZE": "0"}
        started_at = time.monotonic()
        with connection:
            connection.execute("SELECT pg_advisory_lock(%s)", [MIGRATION_LOCK])
            self._manage(as_owner, "migrate", "--no-input", "-v", "0")
            self._manage(as_owner, "load_catalog")
        say(f"The database is migrated and the catalog loaded ({time.monotonic() - started_at:.1f} s).")

    def _make_sample(self, environment: dict[str, str]) -> dict[str, str]:
        """Make the sample organisation; it is told what it printed before, because keys are kept only as hashes."""
        kept = self.state.sample_values()
        printed = self._manage({**environment, **kept}, "bootstrap_sample")
        values = {**kept, **parse_values(printed.splitlines())}
        write_values(self.state.sample_file, values)
        return values

    def _manage(self, environment: dict[str, str], *arguments: str) -> str:
        """Run a management command and give what it printed."""
        with self.state.open_log("setup") as log:
            done = subprocess.run(  # noqa: S603 -- our own command
                [sys.executable, "manage.py", *arguments],
                cwd=told.BASE_DIR, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                text=True, check=False,
            )  # fmt: skip
            log.write(f"$ manage.py {arguments[0]}\n{done.stderr}".encode())
        if done.returncode != 0:
            tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-12:])
            raise StartRefused(f"manage.py {arguments[0]} {how_it_ended(done.returncode)}:\n{tail}")
        return done.stdout

    def _wait_until_healthy(self) -> None:
        deadline = time.monotonic() + HEALTHY_SECONDS
        while not self._is_healthy():
            self._look()
            failing = next((child for child in self._children if child.failure_count >= GIVE_UP_FAILURES), None)
            if failing is not None:
                raise StartRefused(f"{failing.spec.name} does not start:\n{failing.log_end()}")
            if time.monotonic() > deadline:
                raise StartRefused(f"The web did not become healthy in {HEALTHY_SECONDS:.0f} s (log/web.log).")
            time.sleep(LOOK_SECONDS)
        write_values(self.state.env_file, self._values)

    def _is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.options.url}/healthz", timeout=3) as answer:  # noqa: S310 -- http
                return bool(answer.status == HTTPStatus.OK) and all(child.is_running for child in self._children)
        except (urllib.error.URLError, OSError):
            return False

    def _show(self) -> None:
        """Say where everything is, and start the demonstration that goes through the public API."""
        say(f"Lanehouse is up: {self.options.url}  (for scripts: . {self.state.env_file})")
        if self.options.show_sample:
            self._sample = subprocess.Popen(
                [sys.executable, "manage.py", "show_sample"],
                cwd=told.BASE_DIR, env={**self._environment, **self._values}, stdin=subprocess.DEVNULL,
            )  # fmt: skip

    def _look(self) -> None:
        """Restart what has ended, PostgreSQL first."""
        if time.monotonic() >= self._trim_due:
            self._trim_due = time.monotonic() + TRIM_SECONDS
            self.state.trim_logs()
        self._look_at_postgres()
        for child in self._children:
            if sentence := child.look():
                say(sentence)
        if self._sample is not None and (code := self._sample.poll()) is not None:
            self._sample = None
            if code != 0:
                say(f"The sample {how_it_ended(code)}; Lanehouse goes on serving.")

    def _look_at_postgres(self) -> None:
        postgres = self._postgres
        if postgres is None or postgres.pid is not None or time.monotonic() < self._postgres_due:
            return
        say("PostgreSQL has ended; it starts again.")
        try:
            postgres.start()
        except PostgresProblem as problem:
            self._postgres_due = time.monotonic() + 5
            say(f"{problem} Trying again in 5 s.")
        else:
            say("PostgreSQL is up again.")

    def _stop_everything(self) -> None:
        """Stop in the reverse order of the start, PostgreSQL last; a second signal kills what is slow."""
        with contextlib.suppress(OSError):
            self.state.env_file.unlink(missing_ok=True)
        if self._sample is not None:
            self._sample.kill()
            self._sample.wait()
        for child in reversed(self._children):
            child.ask_to_stop()
        for child in reversed(self._children):
            child.wait_stopped(lambda: self._hurry)
        if self._postgres is not None:
            self._postgres.stop(immediately=self._hurry)
        if self._children or self._postgres is not None:
            say("Stopped.")


def say(text: str) -> None:
    """Tell the person at the terminal; a terminal that is gone is no reason to stop differently."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


def refuse(text: str) -> NoReturn:
    """Say why the start cannot go on, and end."""
    sys.stderr.write(f"{text}\n")
    sys.exit(1)
