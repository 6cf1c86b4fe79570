"""Who runs the embedded server, and where its files then lie.

PostgreSQL refuses root. Started by root, it runs as the service user ``lanehouse``, with its files in that user's state
directory, because nothing guarantees that this user may enter the checkout; the checkout has a link. Started by an
ordinary user, it runs as that user, in the checkout.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import secrets
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from config.postgres.problem import PostgresProblem

SERVICE_USER = "lanehouse"
SERVICE_HOME = Path("/var/lib/lanehouse")
# Names the checkout whose link points here; without its link, a folder is a left-over.
ORIGIN_FILE = "origin"
NOT_DURABLE_PREFIX = "test-"
ABANDONED_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The operating system user that the server runs as."""

    name: str
    uid: int
    gid: int

    def command(self, *arguments: str | Path, dies_with_parent: bool = False) -> list[str]:
        """Give the command line that runs a program as this user."""
        prefix: list[str] = []
        if self.uid != os.geteuid():
            prefix += [f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups"]
        if dies_with_parent:
            # The kernel sends it when the starting process ends, even by kill -9: PostgreSQL's fast shutdown.
            prefix += ["--pdeathsig", "INT"]
        command = [str(argument) for argument in arguments]
        return ["setpriv", *prefix, *command] if prefix else command


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the server's files lie, and who owns them."""

    home: Path
    account: Account


def settle(data_dir: Path, *, durable: bool) -> Place:
    """Find or make the folder of a server; the caller holds its lock."""
    if os.geteuid() != 0:
        return _own_place(data_dir)
    if data_dir.is_symlink():
        target = data_dir.readlink()
        if target.is_dir():
            return Place(home=target, account=_owner_of(target))
        data_dir.unlink()
    elif data_dir.is_dir() and any(data_dir.iterdir()):
        return Place(home=data_dir, account=_owner_of(data_dir))
    elif data_dir.is_dir():
        data_dir.rmdir()
    account = _service_account()
    _remove_abandoned()
    home = SERVICE_HOME / f"{'' if durable else NOT_DURABLE_PREFIX}{_slug(data_dir)}-{secrets.token_hex(4)}"
    home.mkdir(mode=0o700)
    (home / ORIGIN_FILE).write_text(f"{data_dir}\n", encoding="utf-8")
    os.chown(home, account.uid, account.gid)
    data_dir.symlink_to(home)
    return Place(home=home, account=account)


def _own_place(data_dir: Path) -> Place:
    """Give an ordinary user's place: the folder itself."""
    entry = _user(os.geteuid())
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        home = data_dir.resolve(strict=True)
        owner = home.stat().st_uid
        readable = os.access(home, os.R_OK | os.W_OK | os.X_OK)
    except PermissionError:
        owner, readable = -1, False
    except OSError as error:
        raise PostgresProblem(f"The folder {data_dir} cannot be made: {error.strerror}.") from error
    if not readable or owner != entry.uid:
        raise PostgresProblem(
            f"The database in {data_dir} belongs to another user; start as that user (or as root, if root made it)."
        )
    return Place(home=home, account=entry)


def _owner_of(folder: Path) -> Account:
    """Give the account that owns existing files; as root we run the server as their owner."""
    uid = folder.stat().st_uid
    if uid == 0:
        raise PostgresProblem(
            f"The folder {folder} belongs to root, and PostgreSQL refuses to run as root; move it away."
        )
    return _user(uid)


def _user(uid: int) -> Account:
    """Look a user up; PostgreSQL itself needs its name."""
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        raise PostgresProblem(f"User {uid} has no name on this machine, and PostgreSQL needs one.") from None
    return Account(name=entry.pw_name, uid=entry.pw_uid, gid=entry.pw_gid)


def _service_account() -> Account:
    """Find or create the service user and its state directory."""
    try:
        entry = pwd.getpwnam(SERVICE_USER)
    except KeyError:
        useradd = shutil.which("useradd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
        if useradd is None:
            raise PostgresProblem(
                f"PostgreSQL refuses to run as root, and useradd is missing to create the user {SERVICE_USER}."
            ) from None
        options = ["--system", "--user-group", "--home-dir", str(SERVICE_HOME), "--shell", "/usr/sbin/nologin"]
        subprocess.run([useradd, *options, SERVICE_USER], check=False, capture_output=True)  # noqa: S603 -- our own command
        try:
            entry = pwd.getpwnam(SERVICE_USER)
        except KeyError:
            raise PostgresProblem(
                f"The user {SERVICE_USER}, which runs PostgreSQL for root, cannot be created."
            ) from None
    # Others may pass through to what is theirs, and list nothing.
    SERVICE_HOME.mkdir(mode=0o711, parents=True, exist_ok=True)
    return Account(name=entry.pw_name, uid=entry.pw_uid, gid=entry.pw_gid)


def _remove_abandoned() -> None:
    """Delete folders of tests that were killed: no link leads to them any more. What is durable is never deleted."""
    for home in SERVICE_HOME.glob(f"{NOT_DURABLE_PREFIX}*"):
        with contextlib.suppress(OSError):
            origin = Path((home / ORIGIN_FILE).read_text(encoding="utf-8").strip())
            linked = origin.is_symlink() and origin.readlink() == home
            # One that is just being made has no link yet.
            if not linked and time.time() - home.stat().st_ctime > ABANDONED_SECONDS:
                shutil.rmtree(home, ignore_errors=True)


def _slug(data_dir: Path) -> str:
    """Name a folder after the checkout that it serves."""
    words = re.sub(r"[^A-Za-z0-9]+", "-", str(data_dir.absolute().parent)).strip("-").lower()
    return words[-40:].strip("-") or "data"
