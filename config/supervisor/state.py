"""The state directory: everything this installation keeps, private to its owner."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import secrets
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from cryptography.fernet import Fernet
from django.core.management.utils import get_random_secret_key

from config.postgres.ports import find_free

LOG_MAX_BYTES: Final = 10 * 1024 * 1024


class StartRefused(Exception):
    """The start cannot go on; the message is one sentence that says what is in the way."""


class AlreadyRunning(Exception):
    """Another supervisor runs this state directory."""


@dataclass(frozen=True, slots=True)
class StateDir:
    """Paths and kept values of one installation."""

    path: Path

    @property
    def env_file(self) -> Path:
        """What scripts read: ``. ./.lanehouse/env``; there only while everything runs."""
        return self.path / "env"

    @property
    def sample_file(self) -> Path:
        """What the sample organisation's set-up printed: keys and logins."""
        return self.path / "sample.env"

    @property
    def postgres_dir(self) -> Path:
        """The embedded server's folder."""
        return self.path / "postgres"

    def make(self) -> None:
        """Make the folder, for its owner alone."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.path / "log").mkdir(mode=0o700, exist_ok=True)

    def lock(self, about: str) -> IO[str]:
        """Take the start lock; it is held as long as the file stays open.

        Args:
            about: what the next starter is told, e.g. the address.

        Raises:
            AlreadyRunning: Another supervisor has it; the message says where it is.
        """
        file = (self.path / "supervisor.lock").open("a+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            told = file.read().strip()
            file.close()
            raise AlreadyRunning(f"Lanehouse already runs here: {told or 'it is just starting'}.") from None
        file.seek(0)
        file.truncate()
        file.write(about)
        file.flush()
        return file

    def keys(self) -> dict[str, str]:
        """Give what is secret here, and kept: our keys, the token of ``/metrics``, the stand-in's signing secret."""
        path = self.path / "keys.json"
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            kept = {
                "LANEHOUSE_SECRET_KEY": get_random_secret_key(),
                "LANEHOUSE_ENCRYPTION_KEYS": Fernet.generate_key().decode(),
            }
        except ValueError:
            raise StartRefused(f"{path} is damaged; put it back from a copy.") from None
        # Newer than the file may be.
        newer = {
            "LANEHOUSE_METRICS_TOKEN": secrets.token_urlsafe(24),
            "LANEHOUSE_SIMULATOR_NOTICE_SECRET": f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}",
        }
        if newer.keys() - kept.keys():
            kept = {**newer, **kept}
            write_private(path, json.dumps(kept))
        return {str(name): str(value) for name, value in kept.items()}

    def kept_port(self, name: str) -> int:
        """Give a free port of 127.0.0.1, the same as last time if that is still free."""
        path = self.path / "ports.json"
        kept: dict[str, int] = {}
        with contextlib.suppress(OSError, ValueError):
            kept = json.loads(path.read_text(encoding="utf-8"))
        port = find_free(kept.get(name, 0))
        if port is None:
            raise StartRefused(f"No free port was found on 127.0.0.1 for {name}.")
        if port != kept.get(name):
            write_private(path, json.dumps({**kept, name: port}))
        return port

    def open_log(self, name: str) -> IO[bytes]:
        """Open a child's log to append."""
        return (self.path / "log" / f"{name}.log").open("ab")

    def trim_logs(self) -> None:
        """Set big logs aside while they are written: they are only appended to, so they may be emptied."""
        for path in (self.path / "log").glob("*.log"):
            with contextlib.suppress(OSError):
                if path.stat().st_size > LOG_MAX_BYTES:
                    shutil.copyfile(path, path.with_suffix(".log.1"))
                    os.truncate(path, 0)

    def sample_values(self) -> dict[str, str]:
        """Give what the sample's set-up printed at an earlier start."""
        try:
            lines = self.sample_file.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return {}
        return parse_values(lines)


def parse_values(lines: list[str]) -> dict[str, str]:
    """Read ``NAME=value`` lines as a shell would, leaving out everything else."""
    values = {}
    for line in lines:
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and name.isidentifier() and name.isupper():
            values[name] = " ".join(shlex.split(value))
    return values


def write_values(path: Path, values: dict[str, str]) -> None:
    """Write ``export NAME=value`` lines for a shell."""
    write_private(path, "".join(f"export {name}={shlex.quote(value)}\n" for name, value in values.items()))


def write_private(path: Path, text: str) -> None:
    """Write a file at once, readable by its owner alone."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    fresh.rename(path)
