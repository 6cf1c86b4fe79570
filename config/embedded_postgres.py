"""The embedded PostgreSQL 18: one private server per state directory, under a start script of our own.

``EmbeddedPostgres(folder).start()`` gives a running server with our roles and database; ``stop()`` ends it completely.
Always holds: a lock file makes sure that only one process runs a folder's server; the server listens on 127.0.0.1 and
on a socket in a private folder; it ends when its starter ends, even by kill -9, and what still runs from an earlier
starter is ended before the next start, known by process id and data folder together.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from config.postgres import ports, processes, secrets
from config.postgres.account import Account, Place, settle
from config.postgres.installation import binaries_for
from config.postgres.problem import PostgresProblem
from config.postgres.roles import DATABASE, make_roles_and_database

# A socket's whole path may have 107 bytes; ".s.PGSQL.12345.lock" takes 20 of them.
SOCKET_DIR_MAX_BYTES = 80
NEW_CLUSTER_MIN_BYTES = 120 * 1024 * 1024
START_SECONDS = 60.0
STOP_SECONDS = 30.0
LAST_BACKENDS_SECONDS = 20.0
START_ATTEMPTS = 5
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_permissions": "0700",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "shared_buffers": "128MB",
    "jit": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "log_min_duration_statement": "2s",
}
# For tests: a crash of the machine may lose everything, but a crash of the server loses nothing committed.
NOT_DURABLE = {
    "fsync": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "shared_buffers": "64MB",
}


class EmbeddedPostgres:
    """A private PostgreSQL server.

    Args:
        data_dir: its folder; as root this becomes a link to a folder of the service user.
        durable: False turns fsync off, for tests.
        port: a fixed TCP port; None chooses a free one and keeps it.
        max_connections: how many clients it takes (the connection budget is in ``docs/operations.md``).

    Call ``start`` from a thread that lives as long as the server should: the kernel ends it with that thread.
    """

    def __init__(
        self, data_dir: Path, *, durable: bool = True, port: int | None = None, max_connections: int = 100
    ) -> None:
        self.data_dir = data_dir.absolute()
        self.durable = durable
        self.fixed_port = port
        self.max_connections = max_connections
        self._lock: IO[str] | None = None
        self._place: Place | None = None
        self._kept: secrets.ServerSecrets | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()

    @property
    def home(self) -> Path:
        """The folder that really holds the server's files."""
        if self._place is None:
            raise PostgresProblem("The embedded PostgreSQL was not started.")
        return self._place.home

    @property
    def log_path(self) -> Path:
        """The server's log."""
        return self.home / "server.log"

    @property
    def port(self) -> int:
        """The TCP port on 127.0.0.1."""
        return self._secrets.port

    @property
    def socket_dir(self) -> Path:
        """The private folder of the server's socket."""
        return Path(self._secrets.socket_dir)

    @property
    def pid(self) -> int | None:
        """The server's process id while it runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @property
    def superuser_dsn(self) -> str:
        """The address for the superuser, in the database ``postgres``."""
        return self.dsn(secrets.SUPERUSER, "postgres")

    def dsn(self, role: str, database: str = DATABASE) -> str:
        """Give the address of a database for one of our roles."""
        return f"postgresql://{role}:{self._secrets.passwords[role]}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start the server and wait until it answers; does nothing while it runs.

        Raises:
            PostgresProblem: with one sentence that says what is in the way.
        """
        if self.pid is not None:
            return
        self._take_lock()
        try:
            place = self._place = settle(self.data_dir, durable=self.durable)
            binaries = binaries_for(place.account)
            self._end_leftover()
            self._kept = self._load_or_make_cluster(binaries)
            self._launch(binaries)
            make_roles_and_database(self.superuser_dsn, self._secrets.passwords)
        except BaseException:
            self.stop(immediately=True)
            raise

    def stop(self, *, immediately: bool = False) -> None:
        """Stop the server and wait until all of it is gone; clients are disconnected.

        Args:
            immediately: without a last checkpoint, as after a crash.
        """
        process, self._process = self._process, None
        if process is not None:
            for number, seconds in ((signal.SIGINT, STOP_SECONDS), (signal.SIGQUIT, 10.0), (signal.SIGKILL, 10.0)):
                if immediately and number is signal.SIGINT:
                    continue
                process.send_signal(number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(seconds)
                    break
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()

    def destroy(self) -> None:
        """Stop the server and delete its files: for tests.

        Raises:
            PostgresProblem: Another process runs it.
        """
        self.stop(immediately=True)
        self._take_lock()
        home = self.data_dir.resolve()
        if (kept := secrets.load(home)) is not None and kept.socket_dir:
            shutil.rmtree(kept.socket_dir, ignore_errors=True)
        shutil.rmtree(home, ignore_errors=True)
        if self.data_dir.is_symlink():
            self.data_dir.unlink()
        self._lock_path.unlink(missing_ok=True)
        self.stop()

    @property
    def _secrets(self) -> secrets.ServerSecrets:
        if self._kept is None:
            raise PostgresProblem("The embedded PostgreSQL was not started.")
        return self._kept

    @property
    def _lock_path(self) -> Path:
        return self.data_dir.with_name(f"{self.data_dir.name}.lock")

    @property
    def _cluster(self) -> Path:
        return self.home / "data"

    def _take_lock(self) -> None:
        """Hold the folder's lock for as long as the server may run."""
        if self._lock is not None:
            return
        try:
            self._lock_path.parent.mkdir(parents=True, exist_ok=True)
            lock = self._lock_path.open("a+", encoding="utf-8")
        except OSError as error:
            raise PostgresProblem(f"The lock file {self._lock_path} cannot be opened: {error.strerror}.") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            lock.close()
            raise PostgresProblem(f"The database in {self.data_dir} is already run by process {holder}.") from None
        with contextlib.suppress(OSError):  # a full disk: the number is only for people
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
        self._lock = lock

    def _end_leftover(self) -> None:
        """End a server that an earlier starter left behind, and drop the pid file of a stranger.

        Proven to be ours by both: the id in our data folder's pid file, and that process's own ``-D`` argument. An id
        that another program has since been given must not stop the start.
        """
        pid_file = self._cluster / "postmaster.pid"
        try:
            pid = int(pid_file.read_text(encoding="utf-8").split("\n", 1)[0])
        except (OSError, ValueError):
            return
        if not processes.is_alive(pid):
            return
        if str(self._cluster) in processes.command_line(pid):
            processes.end([pid], polite=signal.SIGINT, seconds=STOP_SECONDS)
        else:
            pid_file.unlink(missing_ok=True)

    def _load_or_make_cluster(self, binaries: Path) -> secrets.ServerSecrets:
        """Give what clients must know, after making the data folder if there is none."""
        kept = secrets.load(self.home)
        if (self._cluster / "PG_VERSION").exists():
            if kept is None:
                raise PostgresProblem(f"The passwords in {self.home / secrets.FILE_NAME} are missing; put it back.")
        else:
            passwords = secrets.new_passwords()
            self._initialise(binaries, passwords[secrets.SUPERUSER])
            kept = secrets.ServerSecrets(port=0, socket_dir="", passwords=passwords)
            secrets.keep(self.home, kept)
            (self.home / "data.new").rename(self._cluster)
        return kept

    def _initialise(self, binaries: Path, password: str) -> None:
        """Run initdb into a folder beside the final one, so that a half-made cluster is never used."""
        fresh = self.home / "data.new"
        shutil.rmtree(fresh, ignore_errors=True)
        if shutil.disk_usage(self.home).free < NEW_CLUSTER_MIN_BYTES:
            raise self._disk_full()
        account = self._account
        with tempfile.TemporaryDirectory(dir=self.home) as folder:
            password_file = Path(folder) / "password"
            password_file.write_text(password, encoding="utf-8")
            for path in (Path(folder), password_file):
                os.chown(path, account.uid, account.gid)
            arguments: list[str | Path] = [
                "-D",
                fresh,
                "-U",
                secrets.SUPERUSER,
                f"--pwfile={password_file}",
                "--auth=scram-sha-256",
            ]
            arguments += ["--locale=C.UTF-8", "-E", "UTF8", *(() if self.durable else ("--no-sync",))]
            done = subprocess.run(  # noqa: S603 -- our own command
                account.command(binaries / "initdb", *arguments),
                check=False, capture_output=True, text=True, cwd="/", env=_environment(),
            )  # fmt: skip
        if done.returncode != 0:
            shutil.rmtree(fresh, ignore_errors=True)
            raise self._explain(done.stderr, "The database cannot be made")

    def _launch(self, binaries: Path) -> None:
        """Start the server process; another port is tried when a chosen one is taken in the meantime."""
        patient_until = time.monotonic() + LAST_BACKENDS_SECONDS
        attempt_count = 0
        while attempt_count < START_ATTEMPTS:
            kept = self._secrets
            port = self._choose_port(kept.port if attempt_count == 0 else 0)
            self._kept = secrets.ServerSecrets(
                port=port, socket_dir=str(self._make_socket_dir(kept.socket_dir)), passwords=kept.passwords
            )
            written = self._run_server(binaries)
            if self.pid is not None:
                if self._kept != kept:
                    self._keep()
                return
            if "pre-existing shared memory block" in written and time.monotonic() < patient_until:
                # Its main process was killed and its last backends are about to notice.
                time.sleep(0.3)
                continue
            attempt_count += 1
            if "could not bind" not in written or self.fixed_port is not None:
                raise self._explain(written, "PostgreSQL did not start")
        raise PostgresProblem("PostgreSQL found no free port on 127.0.0.1.")

    def _keep(self) -> None:
        try:
            secrets.keep(self.home, self._secrets)
        except OSError as error:
            raise PostgresProblem(f"{self.home / secrets.FILE_NAME} cannot be written: {error.strerror}.") from error

    def _run_server(self, binaries: Path) -> str:
        """Run the server until it is ready or has ended; give what it wrote to its log."""
        settings = {**SETTINGS, **({} if self.durable else NOT_DURABLE)}
        settings |= {
            "port": str(self.port),
            "unix_socket_directories": str(self.socket_dir),
            "max_connections": str(self.max_connections),
        }
        options = [f"--{name}={value}" for name, value in settings.items()]
        command = self._account.command(binaries / "postgres", "-D", self._cluster, *options, dies_with_parent=True)
        try:
            log = self.log_path.open("ab")
        except OSError as error:
            raise PostgresProblem(f"The log {self.log_path} cannot be written: {error.strerror}.") from error
        with log:
            start_bytes = log.tell()
            self._process = process = subprocess.Popen(  # noqa: S603 -- our own command
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", env=_environment(),
                start_new_session=True,
            )  # fmt: skip
        finished = processes.wait_until(
            lambda: process.poll() is not None or self._is_ready(process), seconds=START_SECONDS
        )
        if not finished:
            self._process = None
            processes.end([process.pid], polite=signal.SIGQUIT, seconds=10)
            process.wait()
        with self.log_path.open("rb") as written:
            written.seek(start_bytes)
            return written.read().decode(errors="replace")

    def _is_ready(self, process: subprocess.Popen[bytes]) -> bool:
        """Read the server's own word, as pg_ctl does."""
        try:
            lines = (self._cluster / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        except OSError:
            return False
        return lines[:1] == [str(process.pid)] and [line.strip() for line in lines[7:8]] == ["ready"]

    def _choose_port(self, wanted: int) -> int:
        """Give the fixed port, the one kept from before, or a free one."""
        if self.fixed_port is not None:
            if not ports.is_free(self.fixed_port):
                raise PostgresProblem(f"Port {self.fixed_port} on 127.0.0.1, which PostgreSQL was given, is taken.")
            return self.fixed_port
        port = ports.find_free(wanted)
        if port is None:
            raise PostgresProblem("PostgreSQL found no free port on 127.0.0.1.")
        return port

    def _make_socket_dir(self, kept: str) -> Path:
        """Give the private folder for the socket: among the server's files, or a temporary one if that is too long."""
        account, folder = self._account, self.home / "run"
        if len(os.fsencode(folder)) > SOCKET_DIR_MAX_BYTES:
            folder = Path(kept) if kept else Path()
            if not kept or not folder.is_dir() or folder.stat().st_uid != account.uid:
                folder = Path(tempfile.mkdtemp(prefix="lanehouse-"))
        folder.mkdir(mode=0o700, exist_ok=True)
        os.chown(folder, account.uid, account.gid)
        return folder

    @property
    def _account(self) -> Account:
        assert self._place is not None
        return self._place.account

    def _explain(self, written: str, what: str) -> PostgresProblem:
        """Turn the server's own words into one sentence."""
        if "No space left on device" in written or "could not write lock file" in written:
            return self._disk_full()
        lines = [line for line in written.splitlines() if "FATAL" in line or "PANIC" in line or "error:" in line]
        reason = (lines or written.strip().splitlines() or ["it said nothing"])[-1]
        return PostgresProblem(f"{what}: {reason.strip()} (log: {self.log_path}).")

    def _disk_full(self) -> PostgresProblem:
        return PostgresProblem(f"The disk that holds {self.home} is full; PostgreSQL needs at least 120 MB to begin.")


def _environment() -> dict[str, str]:
    """Give the server an environment without variables that would change what it does."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8", "TZ": "UTC"}
