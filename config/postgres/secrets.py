"""Passwords and port of an embedded server: made once, kept in one file that only its owner reads."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from config.postgres.problem import PostgresProblem

SUPERUSER = "postgres"
OWNER, APP, BROKER = "lanehouse_owner", "lanehouse_app", "lanehouse_broker"
ROLES = (OWNER, APP, BROKER)
FILE_NAME = "secrets.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSecrets:
    """What a client must know to connect."""

    port: int
    socket_dir: str
    passwords: dict[str, str]


def new_passwords() -> dict[str, str]:
    """Make a password for each role; letters and digits only, so that no address needs quoting."""
    return {role: secrets.token_hex(24) for role in (SUPERUSER, *ROLES)}


def load(home: Path) -> ServerSecrets | None:
    """Read what was kept, if anything was."""
    try:
        raw = (home / FILE_NAME).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise PostgresProblem(f"The passwords in {home / FILE_NAME} cannot be read: {error.strerror}.") from error
    try:
        return ServerSecrets(**json.loads(raw))
    except (ValueError, TypeError):
        raise PostgresProblem(
            f"The passwords in {home / FILE_NAME} are damaged; put the file back from a copy."
        ) from None


def keep(home: Path, kept: ServerSecrets) -> None:
    """Write the file at once and privately."""
    fresh = home / f"{FILE_NAME}.{os.getpid()}"
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(asdict(kept), file)
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(home / FILE_NAME)
