"""Backup and restore: the database by PostgreSQL's own programs, the blobs as files, and a manifest that both match.

The database goes first: a blob is written before the row that names it, so whatever the rows name is there when the
blobs are copied. A restore is done when the ledger proves on the other side.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.db import connection, transaction

from accounts.audit import record
from billing.models import LedgerLeg, Receipt
from billing.selectors import prove_ledger
from config.postgres.installation import client_program
from ground import clock

DUMP: Final = "database.dump"
BLOBS: Final = "blobs"
MANIFEST: Final = "manifest.json"


class BackupProblem(Exception):
    """A backup cannot be made or does not match what it says of itself."""


def back_up(folder: Path, database_url: str) -> dict[str, Any]:
    """Write dump, blobs and manifest into a new folder; it appears whole or not at all. Give the manifest.

    Args:
        folder: Where; must not exist.
        database_url: The owner's address: the application's role does not see everything.

    Raises:
        BackupProblem: The folder is there, or a program of PostgreSQL failed.
    """
    if folder.exists():
        raise BackupProblem(f"{folder} is there already.")
    fresh = folder.with_name(f"{folder.name}.{os.getpid()}.part")
    fresh.mkdir(parents=True, mode=0o700)
    try:
        before = _figures()
        _run("pg_dump", "--format=custom", f"--file={fresh / DUMP}", database_url)
        blobs = _blob_folder()
        if blobs is not None and blobs.is_dir():
            shutil.copytree(blobs, fresh / BLOBS)
        manifest = {
            "made_at": clock.now().isoformat(),
            "dump_sha256": _sha256(fresh / DUMP),
            "blobs": "copied" if blobs is not None else "not here: the object storage keeps its own",
            "blob_count": sum(1 for path in (fresh / BLOBS).rglob("*") if path.is_file()),
            # What was there at least: work may have gone on.
            "at_least": before,
        }
        (fresh / MANIFEST).write_text(json.dumps(manifest, indent=2), encoding="utf-8")
        _note("backup.made", manifest)
        fresh.rename(folder)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    return manifest


def restore(folder: Path, database_url: str) -> dict[str, Any]:
    """Restore a backup into the empty database that the settings name, and prove it. Give what is there then.

    Args:
        folder: What :func:`back_up` made.
        database_url: The owner's address of the same database.

    Raises:
        BackupProblem: The backup is damaged, the database is not empty, a program failed, or the books do not hold.
    """
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    if _sha256(folder / DUMP) != manifest["dump_sha256"]:
        raise BackupProblem("The dump is not what the manifest says: the backup is damaged.")
    if connection.introspection.table_names():
        raise BackupProblem("The database is not empty.")
    _run(
        "pg_restore",
        "--exit-on-error",
        "--single-transaction",
        f"--dbname={database_url}",
        str(folder / DUMP),
    )
    blobs = _blob_folder()
    if blobs is not None and (folder / BLOBS).is_dir():
        shutil.copytree(folder / BLOBS, blobs, dirs_exist_ok=True)
    figures = _figures()
    for name, least in manifest["at_least"].items():
        if figures[name] < least:
            raise BackupProblem(f"There are {figures[name]} {name}; the backup was made with {least}.")
    proof = prove_ledger()
    if not proof.holds:
        broken = ", ".join(check.rule for check in proof.checks if check.violation_count)
        raise BackupProblem(f"The books do not hold: {broken}.")
    _note("backup.restored", manifest)
    return figures


@transaction.atomic
def _note(action: str, manifest: dict[str, Any]) -> None:
    record(action, object_type="backup", object_id=manifest["made_at"])


def _figures() -> dict[str, int]:
    return {"legs": LedgerLeg.objects.count(), "receipts": Receipt.objects.count()}


def _blob_folder() -> Path | None:
    options = settings.STORAGES["default"].get("OPTIONS", {})
    return Path(options["location"]) if "location" in options else None


def _run(program: str, *arguments: str) -> None:
    try:
        done = subprocess.run([client_program(program), *arguments], capture_output=True, text=True, check=False)  # noqa: S603 -- PostgreSQL's own program
    except OSError as error:
        raise BackupProblem(f"{program} cannot be run: {error}.") from error
    if done.returncode:
        # Its messages name objects, never the address with its password.
        raise BackupProblem(f"{program} failed: {done.stderr.strip()[-500:]}")


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1024 * 1024):
            digest.update(piece)
    return digest.hexdigest()
