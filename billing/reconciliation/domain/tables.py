"""Tables as rows of text: CSV (also gzipped) and Parquet, streamed, with their line numbers."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from billing.reconciliation.domain.records import BadLine, ReadOptions, UnreadableFile
from billing.reconciliation.domain.values import raw_text, row_hash

_ROWS_AT_ONCE: Final = 4_096
_COLUMNS_MAX: Final = 1_000
_CELL_MAX_CHARACTERS: Final = 1_000_000
# A gzip file of a few megabytes may hold a line of gigabytes.
_LINE_MAX_CHARACTERS: Final = 16_000_000
# What a damaged gzip file raises: its frame, its end, its content.
_DAMAGED: Final = (OSError, EOFError, zlib.error)
# What AWS, FOCUS tools and databases write for "no value".
_NULLS: Final = frozenset({"", "null", "NULL", "Null", "\\N"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """A row by its columns' names; a cell without a value is absent."""

    line: int
    cells: dict[str, str]
    raw: str
    row_hash: bytes


def rows_of(
    stream: BinaryIO, options: ReadOptions, *, needed: Sequence[str], known: Sequence[str] = (), delimiter: str = ","
) -> Iterator[TableRow | BadLine]:
    """Give the rows of a table, or what is wrong with them.

    A column that is not spelled as in ``known``, but would be in other case, has that name.

    Raises:
        UnreadableFile: It is no table, lacks a column of ``needed``, holds too much, or the delimiter is no character.
    """
    if len(delimiter) != 1:
        raise UnreadableFile("Columns are split by one character.")
    if options.is_parquet:
        return _parquet_rows(stream, needed, known)
    return _csv_rows(_unpacked(stream, options.unpacked_max_bytes), needed, known, delimiter)


def _csv_rows(
    stream: BinaryIO, needed: Sequence[str], known: Sequence[str], delimiter: str
) -> Iterator[TableRow | BadLine]:
    text = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="")
    # One field may not be without end: a quote that is never closed would swallow the file.
    csv.field_size_limit(_CELL_MAX_CHARACTERS)
    reader = csv.reader(_lines(text), delimiter=delimiter, strict=True)
    try:
        header = _as_known([name.strip() for name in next(filter(_is_written, reader), [])], known)
    except csv.Error as error:
        raise UnreadableFile(f"The header cannot be read: {error}.") from None
    except _DAMAGED:
        raise UnreadableFile("The gzip file is damaged.") from None
    _check_header(header, needed)
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield BadLine(line=line, code="invalid_csv", message=f"The line is no CSV: {error}.", raw="")
            continue
        except _DAMAGED:
            yield BadLine(line=line, code="truncated_file", message="The gzip file ends here, damaged.", raw="")
            return
        if _is_written(row):
            yield _csv_row(line, header, row, delimiter)


def _is_written(row: list[str]) -> bool:
    """Say whether a row holds anything: spreadsheets end with rows of nothing but delimiters."""
    return any(not cell.isspace() for cell in row if cell)


def _as_known(header: list[str], known: Sequence[str]) -> list[str]:
    spelled = {name.lower(): name for name in known if name not in header}
    return [name if name in known else spelled.get(name.lower(), name) for name in header]


def _lines(text: io.TextIOWrapper) -> Iterator[str]:
    while line := text.readline(_LINE_MAX_CHARACTERS):
        if len(line) == _LINE_MAX_CHARACTERS and line[-1] not in "\r\n":
            raise UnreadableFile(f"A line has more than {_LINE_MAX_CHARACTERS:,} characters.")
        yield line


def _csv_row(line: int, header: list[str], row: list[str], delimiter: str) -> TableRow | BadLine:
    joined = delimiter.join(row)
    if len(row) != len(header):
        message = f"The line has {len(row)} cells, the header {len(header)}."
        return BadLine(line=line, code="invalid_csv", message=message, raw=raw_text(joined))
    if any("\udc80" <= character <= "\udcff" for character in joined):
        return BadLine(line=line, code="invalid_encoding", message="The line is not UTF-8.", raw=raw_text(joined))
    cells = {name: cell for name, cell in zip(header, row, strict=True) if cell.strip() not in _NULLS}
    return TableRow(line=line, cells=cells, raw=raw_text(joined), row_hash=row_hash(*row))


class _BoundedGzip(gzip.GzipFile):
    """A gzip file that is given up where it holds more than it may: few bytes can hold a disk full of them."""

    def __init__(self, stream: BinaryIO, max_bytes: int) -> None:
        super().__init__(fileobj=stream)
        self._max_bytes = max_bytes

    def read1(self, size: int = -1) -> bytes:
        """Give what comes next: by this alone text is read.

        Raises:
            UnreadableFile: It was too much.
        """
        piece = super().read1(size)
        if self.tell() > self._max_bytes:
            raise UnreadableFile(f"The gzip file unpacks to more than {self._max_bytes:,} bytes.")
        return piece


def _unpacked(stream: BinaryIO, max_bytes: int) -> BinaryIO:
    buffered = io.BufferedReader(stream) if isinstance(stream, io.RawIOBase) else stream
    magic = buffered.read(2)
    buffered.seek(0)
    return _BoundedGzip(buffered, max_bytes) if magic == b"\x1f\x8b" else buffered  # type: ignore[return-value]  # reads alike


def _check_header(header: Sequence[str], needed: Sequence[str]) -> None:
    if not header:
        raise UnreadableFile("The file is empty.")
    if any("\udc80" <= character <= "\udcff" for character in "".join(header)):
        raise UnreadableFile("The header is not UTF-8.")
    if len(header) > _COLUMNS_MAX:
        raise UnreadableFile(f"The file has more than {_COLUMNS_MAX} columns.")
    twice = next((name for name in header if name and header.count(name) > 1), None)
    if twice is not None:
        raise UnreadableFile(f"The column {twice[:60]!r} stands there twice.")
    missing = [name for name in needed if name not in header]
    if missing:
        raise UnreadableFile(f"The file has no column {', '.join(missing)}.")


def _parquet_rows(stream: BinaryIO, needed: Sequence[str], known: Sequence[str]) -> Iterator[TableRow | BadLine]:
    try:
        table = pq.ParquetFile(stream)
        header = _as_known(table.schema_arrow.names, known)
        _check_header(header, needed)
        line = 0
        for batch in table.iter_batches(batch_size=_ROWS_AT_ONCE):
            for row in zip(*(_values(column) for column in batch.columns), strict=True):
                line += 1
                texts = [cell_text(value) for value in row]
                cells = {name: text for name, text in zip(header, texts, strict=True) if text not in _NULLS}
                yield TableRow(line=line, cells=cells, raw=raw_text(",".join(texts)), row_hash=row_hash(*texts))
    # Beside its own, Arrow raises what Python's dates, texts and zones do.
    except (pa.ArrowException, OSError, ValueError, OverflowError, LookupError) as error:
        raise UnreadableFile(f"The file is no readable Parquet: {str(error)[:120]}") from None


def _values(column: pa.Array) -> list[Any]:
    """Give a column's values: instants to the microsecond, as Python has them, and small floats by their shortest text.

    0.06 of 32 bits, widened to 64, would be 0.05999999865889549.
    """
    if pa.types.is_float32(column.type) or pa.types.is_float16(column.type):
        column = column.cast(pa.float32()).cast(pa.string())
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    values: list[Any] = column.to_pylist()
    return values


def cell_text(value: Any) -> str:  # noqa: ANN401 -- what a file holds
    """Give a Parquet value as a CSV would hold it; a double by its shortest text, which is exact for its reader."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        # Without an offset its zone is the reader's to say.
        return value.isoformat()
    if isinstance(value, bytes):
        # Some writers do not mark their texts as such.
        return value.decode("utf-8", "replace")
    if isinstance(value, date | Decimal):
        return str(value)
    return repr(value) if isinstance(value, float) else str(value)
