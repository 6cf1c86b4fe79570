"""Writing an export's bytes, in flat memory, from one snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from psycopg import Connection

from billing.exports import focus, journal
from billing.exports.columns import PLACES, Column, ColumnKind, Value, csv_lines, json_lines
from billing.exports.scope import ExportFormat, ExportKind, ExportScope
from billing.exports.snapshot import ROWS_PER_FETCH, snapshot, streamed
from billing.exports.tables import Table, table_of
from ground.cells import FORMULA_BEGINNING

Write = Callable[[bytes], None]
Tick = Callable[[int], None]
Rows = Iterator[Sequence[Sequence[Value]]]

_TYPES: Final = {
    ColumnKind.TEXT: pa.string(),
    ColumnKind.INTEGER: pa.int64(),
    ColumnKind.USD: pa.decimal128(38, PLACES[ColumnKind.USD]),
    ColumnKind.EXACT_USD: pa.decimal128(38, PLACES[ColumnKind.EXACT_USD]),
    ColumnKind.INSTANT: pa.timestamp("us", tz="UTC"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What an export holds: its rows, and its control totals in USD by name."""

    row_count: int
    totals: Mapping[str, Decimal]


def write_export(scope: ExportScope, file_format: ExportFormat, write: Write, tick: Tick) -> Written:
    """Write what a scope asks for.

    Args:
        scope: What is exported.
        file_format: One of its kind's.
        write: Takes the bytes in order.
        tick: Is told again and again how many rows are done; what it raises ends the writing.
    """
    with snapshot() as raw:
        if scope.kind is ExportKind.JOURNAL:
            return _journal(raw, scope, write, tick)
        if scope.kind is ExportKind.FOCUS:
            return _focus(raw, scope, file_format, write, tick)
        table = table_of(scope)
        written = _counted(raw, table)
        if file_format is ExportFormat.CSV:
            _copy_csv(raw, table, write, tick)
        else:
            _write_rows(table.columns, _typed_rows(raw, table), file_format, write, tick)
        return written


def rows_up_to(scope: ExportScope, limit: int) -> int:
    """Give how many rows a scope has, counted no further than ``limit``."""
    if scope.kind is ExportKind.JOURNAL:
        body, values = journal.counted(scope)
    elif scope.kind is ExportKind.FOCUS:
        body, values = focus.counted(scope)
    else:
        table = table_of(scope)
        body, values = table.body, dict(table.values)
    with snapshot() as raw:
        row = raw.execute(
            f"SELECT count(*) FROM (SELECT {body} LIMIT %(at_most)s) AS counted",  # noqa: S608 -- names of our own
            {**values, "at_most": limit},
        ).fetchone()
    assert row is not None, "an aggregate always answers"
    return int(row[0])


def _counted(raw: Connection[Any], table: Table) -> Written:
    sums = "".join(f", coalesce({sql}, 0)" for sql in table.totals.values())
    row = raw.execute(f"SELECT count(*){sums} {table.body}", table.values).fetchone()
    assert row is not None, "an aggregate always answers"
    return Written(row_count=row[0], totals=dict(zip(table.totals, row[1:], strict=True)))


def _copy_csv(raw: Connection[Any], table: Table, write: Write, tick: Tick) -> None:
    """Let PostgreSQL write the lines: at a million rows that is several times as fast as any loop here.

    The guard of texts is the one of :func:`ground.cells.text_cell`, in SQL; a test holds them to each other.
    """
    write(csv_lines([[column.name for column in table.columns]]))
    cells = ", ".join(_csv_sql(column.kind, column.sql) for column in table.columns)
    query = f"COPY (SELECT {cells} {table.body} ORDER BY {table.order}) TO STDOUT (FORMAT csv)"
    done_count = 0
    gathered: list[bytes | bytearray | memoryview] = []
    with raw.cursor() as cursor, cursor.copy(query, table.values) as copy:
        for line in copy:
            gathered.append(line)
            done_count += 1
            if len(gathered) == ROWS_PER_FETCH:
                write(b"".join(gathered))
                gathered.clear()
                tick(done_count)
    write(b"".join(gathered))


def _csv_sql(kind: ColumnKind, sql: str) -> str:
    if kind is ColumnKind.TEXT:
        return f"CASE WHEN {sql} ~ '{FORMULA_BEGINNING}' THEN '''' || {sql} ELSE {sql} END"
    if kind is ColumnKind.INSTANT:
        return f"""to_char({sql} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')"""
    return sql


def _typed_rows(raw: Connection[Any], table: Table) -> Rows:
    selected = ", ".join(column.sql for column in table.columns)
    query = f"SELECT {selected} {table.body} ORDER BY {table.order}"
    yield from streamed(raw, query, dict(table.values))


def _write_rows(columns: Sequence[Column], rows: Rows, file_format: ExportFormat, write: Write, tick: Tick) -> None:
    done_count = 0
    if file_format is ExportFormat.PARQUET:
        for count in _write_parquet(columns, rows, write):
            done_count += count
            tick(done_count)
        return
    if file_format is ExportFormat.CSV:
        write(csv_lines([[column.name for column in columns]]))
    for some in rows:
        write(csv_lines(some) if file_format is ExportFormat.CSV else json_lines(columns, some))
        done_count += len(some)
        tick(done_count)


def _write_parquet(columns: Sequence[Column], rows: Rows, write: Write) -> Iterator[int]:
    """Write rows as Parquet, amounts as decimals; give how many each group has."""
    schema = pa.schema(
        [pa.field(column.name, _TYPES[column.kind], nullable=column.may_be_missing) for column in columns]
    )
    with pq.ParquetWriter(pa.PythonFile(_Sink(write), mode="w"), schema, compression="zstd") as writer:
        for some in rows:
            arrays = [
                pa.array(values, type=_TYPES[column.kind])
                for column, values in zip(columns, zip(*some, strict=True), strict=True)
            ]
            writer.write_batch(pa.record_batch(arrays, schema=schema))
            yield len(some)


class _Sink:
    """What Arrow writes to."""

    closed = False

    def __init__(self, write: Write) -> None:
        self._write = write

    def write(self, chunk: bytes) -> int:
        self._write(bytes(chunk))
        return len(chunk)

    def flush(self) -> None:
        """Nothing waits here."""

    def close(self) -> None:
        """The writer behind it is closed by whoever opened it."""


def _focus(raw: Connection[Any], scope: ExportScope, file_format: ExportFormat, write: Write, tick: Tick) -> Written:
    made = focus.FocusRows(raw, scope)
    _write_rows(focus.COLUMNS, iter(made), file_format, write, tick)
    return Written(row_count=made.row_count, totals=made.totals)


def _journal(raw: Connection[Any], scope: ExportScope, write: Write, tick: Tick) -> Written:
    made = journal.Journal(raw, scope)
    for text, leg_count in made.pieces():
        write(text.encode())
        tick(leg_count)
    return Written(row_count=made.leg_count, totals=made.totals)
