"""Batches of rows on disk: their records, rows, and results as they grow."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from sqlite3 import Row as SqlRow
from typing import Generic, TypeVar

from simulators.database import Database
from simulators.seen import SeenRows
from simulators.tables import table_schema, upsert_statement


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A batch with everything its next state is derived from; instants are Unix seconds of the simulator's clock.

    `paced_at`, `paced_rows` and `rows_per_second` are the current stretch of work: a change of speed starts another.
    `stop_after_rows` is where an early expiry strikes. `result_bytes` are what is surely written: whatever a killed
    process left beyond them is cut off.
    """

    id: str
    account: str
    status: str
    created_at: float
    expires_at: float
    content_seed: int
    shuffled: bool
    row_count: int = 0
    paced_at: float = 0.0
    paced_rows: int = 0
    rows_per_second: float | None = None
    stop_after_rows: int | None = None
    answered_rows: int = 0
    succeeded_rows: int = 0
    errored_rows: int = 0
    unrun_rows: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    result_bytes: int = 0


W = TypeVar("W", bound=Work)


class WorkStore(Generic[W]):
    """The state directory: `state.sqlite3`, and `rows/`, `offsets/`, `results/` by batch id."""

    def __init__(self, directory: Path, database: Database, record: type[W], ended: Sequence[str]) -> None:
        """Open or create the state under `directory`; a batch whose status is in `ended` is not worked on."""
        self.database = database
        self.seen = SeenRows(database)
        self._directory = directory
        self._record = record
        self._ended = ", ".join(f"'{each}'" for each in ended)
        self._upsert = upsert_statement("work", record)
        for name in ("rows", "offsets", "results"):
            (directory / name).mkdir(parents=True, exist_ok=True)
        with database.transaction() as connection:
            connection.execute(table_schema("work", record))

    def rows_path(self, work_id: str) -> Path:
        """The rows as they were sent."""
        return self._directory / "rows" / work_id

    def offsets_path(self, work_id: str) -> Path:
        """Where each row starts."""
        return self._directory / "offsets" / work_id

    def results_path(self, work_id: str) -> Path:
        """The results so far."""
        return self._directory / "results" / work_id

    def save(self, work: W) -> None:
        """Insert or replace a batch."""
        values = tuple(getattr(work, each.name) for each in fields(self._record))
        with self.database.transaction() as connection:
            connection.execute(self._upsert, values)

    def find(self, work_id: str) -> W | None:
        """A batch of whatever account."""
        found = self.select("id = ?", (work_id,))
        return found[0] if found else None

    def select(
        self, condition: str, arguments: tuple[object, ...], *, ascending: bool = True, limit: int = -1
    ) -> list[W]:
        """Up to `limit` batches (-1: all) that meet an SQL condition, by age."""
        order = "ASC" if ascending else "DESC"
        rows = self.database.rows(
            f"SELECT * FROM work WHERE {condition} ORDER BY number {order} LIMIT ?",  # noqa: S608  # our own conditions
            (*arguments, limit),
        )
        return [self._restored(row) for row in rows]

    def open(self) -> list[W]:
        """Every batch that has not ended, oldest first."""
        return self.select(f"status NOT IN ({self._ended})", ())

    def delete(self, work_id: str) -> None:
        """Forget a batch and its results."""
        with self.database.transaction() as connection:
            connection.execute("DELETE FROM work WHERE id = ?", (work_id,))
        self.results_path(work_id).unlink(missing_ok=True)

    def discard_rows(self, work_id: str) -> None:
        """Throw away what only a running batch needs."""
        self.rows_path(work_id).unlink(missing_ok=True)
        self.offsets_path(work_id).unlink(missing_ok=True)

    def counts(self) -> dict[str, object]:
        """Batches by status, as last derived."""
        rows = self.database.rows("SELECT status, COUNT(*) AS batch_count FROM work GROUP BY status")
        return {"batches_by_status": {row["status"]: row["batch_count"] for row in rows}}

    def _restored(self, row: SqlRow) -> W:
        values = {each.name: row[each.name] for each in fields(self._record)}
        values["shuffled"] = bool(values["shuffled"])
        return self._record(**values)
