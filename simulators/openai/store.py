"""Files and batches of the simulated OpenAI on disk."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from sqlite3 import Connection, Row

import orjson

from simulators.database import Database
from simulators.openai.records import BatchRecord, FileRecord
from simulators.seen import SeenRows
from simulators.tables import table_schema, upsert_statement

_JSON_COLUMNS = frozenset({"metadata", "errors"})
_TERMINAL = "('completed', 'failed', 'expired', 'cancelled')"


_SAVE_FILE = upsert_statement("files", FileRecord)
_SAVE_BATCH = upsert_statement("batches", BatchRecord)


class Store:
    """The state directory: `state.sqlite3`, `files/` (contents by file id), `batches/` (what running batches need)."""

    def __init__(self, directory: Path, database: Database) -> None:
        """Open or create the state under `directory`."""
        self.database = database
        self.seen = SeenRows(database)
        self.files_path = directory / "files"
        self.work_path = directory / "batches"
        self.files_path.mkdir(parents=True, exist_ok=True)
        self.work_path.mkdir(parents=True, exist_ok=True)
        for left_over in self.files_path.glob("upload-*"):
            left_over.unlink()
        with database.transaction() as connection:
            connection.execute(table_schema("files", FileRecord))
            connection.execute(table_schema("batches", BatchRecord))

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """One transaction over files, batches and everything else in the database."""
        with self.database.transaction() as connection:
            yield connection

    def content_path(self, file_id: str) -> Path:
        """Where a file's bytes are."""
        return self.files_path / file_id

    def input_path(self, batch_id: str) -> Path:
        """A batch's own link to its input, which outlives the file."""
        return self.work_path / f"{batch_id}.jsonl"

    def offsets_path(self, batch_id: str) -> Path:
        """Where each row of a batch's input starts."""
        return self.work_path / f"{batch_id}.offsets"

    def save_file(self, record: FileRecord) -> None:
        """Insert or replace a file."""
        with self.transaction() as connection:
            connection.execute(_SAVE_FILE, tuple(asdict(record).values()))

    def file(self, account: str, file_id: str, now: float) -> FileRecord | None:
        """A file of `account` that has not expired at `now`."""
        rows = self.database.rows(
            "SELECT * FROM files WHERE id = ? AND account = ? AND (expires_at IS NULL OR expires_at > ?)",
            (file_id, account, now),
        )
        return _file_record(rows[0]) if rows else None

    def file_page(
        self, account: str, *, purpose: str | None, after: str | None, ascending: bool, limit: int, now: float
    ) -> list[FileRecord]:
        """Up to `limit` files of `account` behind the file `after`."""
        order, beyond = ("ASC", ">") if ascending else ("DESC", "<")
        rows = self.database.rows(
            "SELECT * FROM files WHERE account = ? AND (expires_at IS NULL OR expires_at > ?) "  # noqa: S608
            "AND (? IS NULL OR purpose = ?) "
            f"AND (? IS NULL OR number {beyond} (SELECT number FROM files WHERE id = ?)) "
            f"ORDER BY number {order} LIMIT ?",
            (account, now, purpose, purpose, after, after, limit),
        )
        return [_file_record(row) for row in rows]

    def delete_file(self, file_id: str) -> None:
        """Forget a file and its bytes."""
        with self.transaction() as connection:
            connection.execute("DELETE FROM files WHERE id = ?", (file_id,))
        self.content_path(file_id).unlink(missing_ok=True)

    def save_batch(self, record: BatchRecord) -> None:
        """Insert or replace a batch."""
        values = asdict(record)
        for name in _JSON_COLUMNS:
            values[name] = None if values[name] is None else orjson.dumps(values[name])
        with self.transaction() as connection:
            connection.execute(_SAVE_BATCH, tuple(values.values()))

    def batch(self, batch_id: str) -> BatchRecord | None:
        """A batch of whatever account."""
        rows = self.database.rows("SELECT * FROM batches WHERE id = ?", (batch_id,))
        return _batch_record(rows[0]) if rows else None

    def batch_ids(self, account: str, *, after: str | None, limit: int) -> list[str]:
        """Up to `limit` batch ids of `account`, newest first, behind the batch `after`."""
        rows = self.database.rows(
            "SELECT id FROM batches WHERE account = ? "
            "AND (? IS NULL OR number < (SELECT number FROM batches WHERE id = ?)) ORDER BY number DESC LIMIT ?",
            (account, after, after, limit),
        )
        return [row["id"] for row in rows]

    def open_batch_ids(self) -> list[str]:
        """Every batch that has not ended, oldest first."""
        rows = self.database.rows(f"SELECT id FROM batches WHERE status NOT IN {_TERMINAL} ORDER BY number")  # noqa: S608
        return [row["id"] for row in rows]

    def older_open_batch_ids(self, batch: BatchRecord) -> list[str]:
        """The account's batches made before `batch` that have not ended, oldest first."""
        rows = self.database.rows(
            f"SELECT id FROM batches WHERE account = ? AND status NOT IN {_TERMINAL} "  # noqa: S608
            "AND number < (SELECT number FROM batches WHERE id = ?) ORDER BY number",
            (batch.account, batch.id),
        )
        return [row["id"] for row in rows]

    def counts(self) -> dict[str, object]:
        """How many files there are, and batches by status, as last derived."""
        files = self.database.rows("SELECT COUNT(*) FROM files")
        batches = self.database.rows("SELECT status, COUNT(*) AS batch_count FROM batches GROUP BY status")
        return {"file_count": files[0][0], "batches_by_status": {row["status"]: row["batch_count"] for row in batches}}


def _file_record(row: Row) -> FileRecord:
    return FileRecord(**{each.name: row[each.name] for each in fields(FileRecord)})


def _batch_record(row: Row) -> BatchRecord:
    values = {each.name: row[each.name] for each in fields(BatchRecord)}
    values["metadata"] = None if values["metadata"] is None else orjson.loads(values["metadata"])
    values["errors"] = tuple(orjson.loads(values["errors"]))
    values["shuffled"] = bool(values["shuffled"])
    return BatchRecord(**values)
