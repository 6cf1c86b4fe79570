"""The quote path of a long file: read piece by piece in flat memory, then priced as any other.

A row keeps its place, its group and its tokens, whatever it holds. The same answer as the path of a body in memory, to
the last digit; a property in the tests proves it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Raw

from catalog.domain.records import Endpoint
from routing.domain.asks import decode_body
from routing.domain.estimate.tokens import RowTokens
from routing.domain.jsonl import exact, fast
from routing.domain.jsonl.checks import check_custom_id
from routing.domain.jsonl.compiled import borrowed_machine
from routing.domain.jsonl.known import KnownTable
from routing.domain.jsonl.pieces import Piece, cut_pieces
from routing.domain.jsonl.table import RowTable
from routing.domain.offering import FileRows, Pricing, RowGroups, RowPlace, Rows, Stopwatch, Timer, price_rows
from routing.domain.parameters.needs import Alike, each_alone
from routing.domain.plan import QuotePlan
from routing.domain.quoting import file_of, group_rows, model_check, read_table
from routing.domain.resolve import ModelRefused, ResolvedModel, resolve_model

_READ_BYTES = 1024 * 1024
_TOKEN_COLUMNS = (
    "input_tokens",
    "output_tokens",
    "output_high_tokens",
    "ceiling_input_tokens",
    "ceiling_output_tokens",
)

Column: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class LongFile:
    """A file that is read where it lies.

    ``blocks`` gives all its bytes in order, each time it is called; ``read`` gives as many bytes from an offset on.
    """

    blocks: Callable[[], Iterable[bytes]]
    read: Callable[[int, int], bytes]


def make_long_quote_plan(
    file: LongFile, pricing: Pricing, *, endpoint: Endpoint | None = None, timer: Timer = lambda: 0
) -> QuotePlan:
    """Price a JSONL file of any length in flat memory.

    Args:
        file: Where it lies.
        pricing: By what it is priced.
        endpoint: Where its rows must go; None where the first one decides.
        timer: Gives nanoseconds for ``timings_ns``; without one all steps are 0.

    Raises:
        RowErrors: Something is wrong with rows; every fault of the file is in it.
        InvalidRequest: ``lane_minimum`` or ``lane_unavailable`` when a group has no lane that can take it.
    """
    watch = Stopwatch(timer=timer, started=timer())
    limits = pricing.settings.limits
    pieces = partial(_pieces, file, limits.maximum_row_bytes)
    reader = _Reader(pricing=pricing, endpoint=endpoint)
    is_read = False
    try:
        for piece in pieces():
            reader.take(piece)
        is_read = reader.row_count > 0
    except (fast.Trouble, ModelRefused):
        pass
    if not is_read or reader.may_repeat_an_id():
        # An id's hash that stands twice is no proof: this reading raises only what is really wrong.
        exact.report_long_file(pieces, limits, model_check(pricing.catalog, pricing.at), endpoint=endpoint)
        assert is_read, "the fast path refused a file that the exact path accepts"
    watch.lap("parse")
    rows = reader.rows_of(file)
    groups = RowGroups.of(tuple(reader.models.values()), np.concatenate(reader.group_indexes))
    watch.lap("resolve")
    return price_rows(rows, groups, pricing, watch)


def _pieces(file: LongFile, maximum_row_bytes: int) -> Iterator[Piece]:
    return cut_pieces(file.blocks(), maximum_row_bytes=maximum_row_bytes)


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Gathers the columns of piece after piece. ``models`` are by snapshot, in the order of first appearance."""

    pricing: Pricing
    endpoint: Endpoint | None = None
    row_count: int = 0
    resolved: dict[str, ResolvedModel] = field(default_factory=dict)
    models: dict[str, ResolvedModel] = field(default_factory=dict)
    offsets: list[Column] = field(default_factory=list)
    lengths: list[npt.NDArray[np.int32]] = field(default_factory=list)
    lines: list[Column] = field(default_factory=list)
    id_hashes: list[Column] = field(default_factory=list)
    group_indexes: list[npt.NDArray[np.int32]] = field(default_factory=list)
    tokens: dict[str, list[Column]] = field(default_factory=lambda: {name: [] for name in _TOKEN_COLUMNS})

    def take(self, piece: Piece) -> None:
        """Read one piece.

        Raises:
            Trouble: Something is wrong in it, or with it and the pieces before.
            ModelRefused: It names a model that cannot be quoted.
        """
        if not piece.has_rows():
            return
        limits = self.pricing.settings.limits
        if piece.overlong_bytes:
            raise fast.Trouble
        with borrowed_machine() as machine:
            self._take_rows(piece, read_table(piece.text, limits, machine))

    def _take_rows(self, piece: Piece, table: RowTable | KnownTable) -> None:
        limits = self.pricing.settings.limits
        self.endpoint = self.endpoint or table.endpoint
        self.row_count += len(table)
        if table.endpoint is not self.endpoint or self.row_count > limits.maximum_rows:
            raise fast.Trouble
        groups = group_rows(table, {name: self._resolve(name) for name in table.model_names})
        for resolved in groups.models:
            self.models.setdefault(resolved.model_snapshot, resolved)
        places = {snapshot: index for index, snapshot in enumerate(self.models)}
        index_of = np.array([places[each.model_snapshot] for each in groups.models], dtype=np.int32)
        self.offsets.append(table.offsets + piece.offset)
        self.lengths.append(table.lengths.astype(np.int32))
        self.lines.append(table.lines + (piece.first_line - 1))
        self.id_hashes.append(np.fromiter(map(hash, table.custom_ids), dtype=np.int64, count=len(table)))
        self.group_indexes.append(index_of[groups.indexes])
        self._estimate(file_of(piece.text, table, groups, self.pricing.learned), groups)

    def _resolve(self, name: str) -> ResolvedModel:
        found = self.resolved.get(name)
        if found is None:
            assert self.endpoint is not None, "a piece was read"
            found = resolve_model(self.pricing.catalog, name, self.endpoint, self.pricing.at)
            self.resolved[name] = found
        return found

    def _estimate(self, rows: FileRows, groups: RowGroups) -> None:
        row_count = len(groups.indexes)
        columns = {name: np.zeros(row_count, dtype=np.int64) for name in _TOKEN_COLUMNS}
        for index, resolved in enumerate(groups.models):
            own = groups.rows_of(index)
            tokens = rows.tokens_of(resolved, groups.firsts[index], own)
            for name, column in columns.items():
                column[own] = getattr(tokens, name)
        for name, column in columns.items():
            self.tokens[name].append(column)

    def may_repeat_an_id(self) -> bool:
        """Say whether two ids have the same hash."""
        hashes = np.sort(np.concatenate(self.id_hashes))
        self.id_hashes.clear()
        return bool((hashes[1:] == hashes[:-1]).any())

    def rows_of(self, file: LongFile) -> _LongRows:
        """Give the rows that were read; the columns are moved there."""
        assert self.endpoint is not None, "a file that was read has rows"
        tokens: dict[str, Column] = {}
        for name in _TOKEN_COLUMNS:
            tokens[name] = np.concatenate(self.tokens.pop(name))
        rows = _LongRows(
            file=file,
            endpoint=self.endpoint,
            offsets=np.concatenate(self.offsets),
            lengths=np.concatenate(self.lengths),
            lines=np.concatenate(self.lines),
            tokens=tokens,
        )
        for parts in (self.offsets, self.lengths, self.lines):
            parts.clear()
        return rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _LongRows:
    """The rows of a long file: what was kept of them is in memory, their text is read again where it is asked for."""

    file: LongFile
    endpoint: Endpoint
    offsets: Column
    lengths: npt.NDArray[np.int32]
    lines: Column
    tokens: dict[str, Column]

    def tokens_of(self, _resolved: ResolvedModel, _first: int, rows: Rows) -> RowTokens:
        """Give the tokens of a group's rows."""
        return RowTokens(**{name: column[rows] for name, column in self.tokens.items()})

    def asks_of(self, rows: Rows) -> Iterator[Alike]:
        """Give what ascending rows ask by."""
        return each_alone(self._bodies_of(rows))

    def _bodies_of(self, rows: Rows) -> Iterator[Mapping[str, Raw]]:
        """Give ascending rows' bodies by name; neighbours are read together."""
        starts = self.offsets[rows]
        stops = starts + self.lengths[rows]
        first = 0
        while first < len(rows):
            start = int(starts[first])
            last = max(first + 1, int(np.searchsorted(stops, start + _READ_BYTES, side="right")))
            text = self.file.read(start, int(stops[last - 1]) - start)
            for begin, end in zip(
                (starts[first:last] - start).tolist(), (stops[first:last] - start).tolist(), strict=True
            ):
                yield decode_body(text[begin:end])
            first = last

    def place_of(self, row: int) -> RowPlace:
        """Give a row's line and ``custom_id``."""
        line = self.file.read(int(self.offsets[row]), int(self.lengths[row]))
        return RowPlace(line=int(self.lines[row]), custom_id=check_custom_id(exact.decode_line(line)))
