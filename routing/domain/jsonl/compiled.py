"""The compiled pass over a file: ``rows.c`` as WebAssembly, in a memory of its own.

A :class:`Machine` holds one file at a time. It reads the rows of the common shapes and weighs their strings without the
interpreter lock, at about 0.5 ns a byte. The code runs in a sandbox: it can reach its own memory and nothing else,
whatever a file holds, and a mistake in it ends in a trap, never in a wrong read. ``scripts/build_rows`` makes
``rows.wasm``; a test holds the two together.
"""

from __future__ import annotations

import ctypes
import functools
import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import wasmtime

from routing.domain.estimate.tables import PAIR_COUNT, Vocabulary
from routing.domain.estimate.tokens import Weighed

MODULE_PATH = Path(__file__).resolve().parent.parent / "data" / "rows.wasm"
KNOWN, PLAIN, HAS_IMAGES = 1, 2, 4
_LINE_FEED = 0x0A
_PADDING_BYTES, _PAGE_BYTES, _ALIGNED_BYTES = 64, 65_536, 64
_NAMES_AT_MOST = _PATTERNS_AT_MOST = 64
# No content takes fewer bytes than `{"role":"tool","content":""},`, and no known row fewer than an embeddings row of
# one letter: a file whose rows are shorter is for the plain way.
_BYTES_A_STRING, _BYTES_A_ROW = 24, 64
_TABLES_KEPT = 16
_TABLE_BYTES = PAIR_COUNT * 2
_HAS_ESCAPES, _IS_IMAGE, _SIZE = 1 << 31, 1 << 30, (1 << 30) - 1
_SPAN_BYTES, _HASH_BYTES, _SUM_BYTES = 8, 4, 16

_ROW = np.dtype(
    [
        *((name, "<i4") for name in ("offset", "length", "line", "flags", "endpoint", "model", "id_start", "id_bytes")),
        *((name, "<i4") for name in ("limit", "choices", "message_count", "span_first", "span_count", "pattern")),
        *((name, "<i4") for name in ("tools_start", "tools_bytes", "shape_start", "shape_bytes")),
    ]
)
_GIVEN = ("body", "rows", "spans", "ids", "body_size", "row_room", "span_room", "id_mask")
_COUNTED = ("row_count", "span_count", "name_count", "pattern_count")
_FILE = np.dtype(
    [
        *((name, "<u4") for name in (*_GIVEN, "is_doubtful", *_COUNTED)),
        *((name, "<u4") for name in ("which_count", "which", "weights", "sums")),
        ("seed", "<u8"),
        ("names", [("start", "<i4"), ("length", "<i4")], _NAMES_AT_MOST),
        ("patterns", [("roles", "<u8"), ("temperature", "<f8")], _PATTERNS_AT_MOST),
    ],
    align=True,
)

_PADDING = np.zeros(_PADDING_BYTES, dtype=np.uint8)
_PADDING[0] = _LINE_FEED
# which ids fall together is not to be foreseen
_SEED = secrets.randbits(64)

Columns = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadFile:
    """A column for each member of ``Row`` in ``rows.c``, and each model's name and each pattern once."""

    columns: Columns
    model_names: tuple[str, ...]
    patterns: tuple[tuple[int, float], ...]


class Machine:
    """One instance of the compiled pass; used by one thread at a time.

    It is not ``is_sound`` after a trap, which leaves its stack where it was.
    """

    def __init__(self) -> None:
        engine, module = _compiled()
        self._store = wasmtime.Store(engine)
        exports = wasmtime.Instance(self._store, module, []).exports(self._store)
        self._memory = cast(wasmtime.Memory, exports["memory"])
        self._read_rows = cast(wasmtime.Func, exports["read_rows"])
        self._weigh_rows = cast(wasmtime.Func, exports["weigh_rows"])
        self._file_begin: int = cast(wasmtime.Func, exports["file"])(self._store)
        self._tables_begin = _aligned(int(cast(wasmtime.Global, exports["__heap_base"]).value(self._store)))
        self._body_begin = self._tables_begin + _TABLES_KEPT * _TABLE_BYTES
        self._tables: list[npt.NDArray[np.int16]] = []
        self._scratch_begin = self._address = 0
        self._bytes = np.zeros(0, dtype=np.uint8)
        self.is_sound = True
        self._make_room(self._body_begin)

    def read(self, body: bytes, *, maximum_rows: int) -> ReadFile | None:
        """Read a file; None where it must be read the plain way: too many rows, or an id that may stand twice.

        Until the next file is read, its strings can be weighed.
        """
        try:
            return self._read(body, maximum_rows)
        except (wasmtime.WasmtimeError, wasmtime.Trap):
            return None

    def _read(self, body: bytes, maximum_rows: int) -> ReadFile | None:
        self._lay_out(len(body), min(maximum_rows, len(body) // _BYTES_A_ROW) + 1, len(body) // _BYTES_A_STRING + 2)
        end = self._body_begin + len(body)
        ctypes.memmove(self._address + self._body_begin, body, len(body))
        self._bytes[end : end + _PADDING_BYTES] = _PADDING
        self._run(self._read_rows)
        file = self._file()
        if file["is_doubtful"]:
            return None
        rows_begin = int(file["rows"])
        columns = self._bytes[rows_begin : rows_begin + int(file["row_count"]) * _ROW.itemsize].view(_ROW).copy()
        names = file["names"][: int(file["name_count"])].tolist()
        return ReadFile(
            columns=columns,
            model_names=tuple(body[start : start + length].decode() for start, length in names),
            patterns=tuple(file["patterns"][: int(file["pattern_count"])].tolist()),
        )

    def add_string(self, rows: Sequence[int], literal: bytes) -> None:
        """Give known rows that have a place left for it one more string, a JSON literal."""
        begin, text = self._scratch_begin, literal[1:-1]
        end = _aligned(begin + len(text) + _PADDING_BYTES)
        self._make_room(end)
        self._bytes[begin : begin + len(text)] = np.frombuffer(text, dtype=np.uint8)
        self._scratch_begin = end
        file, spans = self._file(), self._spans()
        columns = self._bytes[int(file["rows"]) :][: int(file["row_count"]) * _ROW.itemsize].view(_ROW)
        places = columns["span_first"][rows] + columns["span_count"][rows] - 1
        spans[places, 0] = begin - self._body_begin
        spans[places, 1] = len(text) | (_HAS_ESCAPES if b"\\" in text else 0)

    def images(self) -> tuple[npt.NDArray[np.int64], list[tuple[int, int, bool]]]:
        """Give the spans that are images' addresses: their places among all, where in the body, bytes, and if low."""
        spans = self._spans()
        places = np.flatnonzero(spans[:, 1] & _IS_IMAGE)
        found = [(start, packed & _SIZE, bool(packed & _HAS_ESCAPES)) for start, packed in spans[places].tolist()]
        return places, found

    def _spans(self) -> npt.NDArray[np.uint32]:
        file = self._file()
        begin, end = int(file["spans"]), int(file["spans"]) + int(file["span_count"]) * _SPAN_BYTES
        return self._bytes[begin:end].view(np.uint32).reshape(-1, 2)

    def first_strings(self, rows: npt.NDArray[np.int64]) -> tuple[list[int], list[int]]:
        """Give where the first string of known rows begins in the file, and where it stops, without its quotes."""
        file = self._file()
        columns = self._bytes[int(file["rows"]) :][: int(file["row_count"]) * _ROW.itemsize].view(_ROW)
        spans = self._bytes[int(file["spans"]) :][: int(file["span_count"]) * _SPAN_BYTES].view(np.uint32)
        places = 2 * columns["span_first"][rows]
        starts = spans[places]
        return starts.tolist(), (starts + (spans[places + 1] & ~np.uint32(_HAS_ESCAPES))).tolist()

    def weigh(self, rows: npt.NDArray[np.int64], vocabulary: Vocabulary) -> Weighed:
        """Weigh the strings of known rows of the file that was read."""
        which_end = self._scratch_begin + 4 * len(rows)
        sums_begin = _aligned(which_end)
        sums_end = sums_begin + len(rows) * _SUM_BYTES
        self._make_room(sums_end)
        self._bytes[self._scratch_begin : which_end] = rows.astype(np.int32).view(np.uint8)
        file = self._file()
        file["which"], file["which_count"], file["sums"] = self._scratch_begin, len(rows), sums_begin
        file["weights"] = self._table_of(vocabulary.weights)
        self._run(self._weigh_rows)
        sums = self._bytes[sums_begin:sums_end].view(np.int64).reshape(-1, 2).copy()
        return Weighed(scaled=sums[:, 0], text_bytes=sums[:, 1])

    def _run(self, function: wasmtime.Func) -> None:
        try:
            function(self._store)
        except wasmtime.Trap:
            self.is_sound = False
            raise

    def _file(self) -> Any:  # noqa: ANN401 -- numpy has no type for one record
        """Give the record by which we and the pass tell each other things."""
        return self._bytes[self._file_begin : self._file_begin + _FILE.itemsize].view(_FILE)[0]

    def _lay_out(self, body_bytes: int, row_room: int, span_room: int) -> None:
        """Lay out the buffers behind the body, and tell the pass where they lie."""
        id_room = 1 << (2 * row_room).bit_length()
        rows_begin = _aligned(self._body_begin + body_bytes + _PADDING_BYTES)
        spans_begin = _aligned(rows_begin + row_room * _ROW.itemsize)
        ids_begin = _aligned(spans_begin + span_room * _SPAN_BYTES)
        self._scratch_begin = _aligned(ids_begin + id_room * _HASH_BYTES)
        self._make_room(self._scratch_begin)
        self._bytes[ids_begin : self._scratch_begin] = 0
        file = self._file()
        places = (self._body_begin, rows_begin, spans_begin, ids_begin, body_bytes, row_room, span_room, id_room - 1)
        for name, value in zip(_GIVEN, places, strict=True):
            file[name] = value
        for name in _COUNTED:
            file[name] = 0
        file["seed"] = _SEED

    def _table_of(self, weights: npt.NDArray[np.int16]) -> int:
        """Give where a table lies, after laying it there if it is not yet."""
        place = next((index for index, known in enumerate(self._tables) if known is weights), None)
        if place is None:
            if len(self._tables) == _TABLES_KEPT:
                self._tables.clear()
            place = len(self._tables)
            self._tables.append(weights)
            begin = self._tables_begin + place * _TABLE_BYTES
            self._bytes[begin : begin + _TABLE_BYTES] = weights.view(np.uint8)
        return self._tables_begin + place * _TABLE_BYTES

    def _make_room(self, end: int) -> None:
        """Grow the memory until it has so many bytes. It never moves, and what was not written takes none of ours."""
        if end <= len(self._bytes):
            return
        size = self._memory.data_len(self._store)
        if end > size:
            self._memory.grow(self._store, -(-(end - size) // _PAGE_BYTES))
            size = self._memory.data_len(self._store)
        address = ctypes.addressof(self._memory.data_ptr(self._store).contents)
        self._address = address
        self._bytes = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def _aligned(place: int) -> int:
    return -(-place // _ALIGNED_BYTES) * _ALIGNED_BYTES


@functools.cache
def _compiled() -> tuple[wasmtime.Engine, wasmtime.Module]:
    """Compile the module, once a process: 20 ms."""
    engine = wasmtime.Engine()
    return engine, wasmtime.Module(engine, MODULE_PATH.read_bytes())


_idle: list[Machine] = []
_idle_lock = threading.Lock()


@contextmanager
def borrowed_machine() -> Iterator[Machine]:
    """Lend a machine; there are as many as threads ever read at once, and each keeps the memory of its largest file."""
    with _idle_lock:
        machine = _idle.pop() if _idle else None
    machine = machine or Machine()
    try:
        yield machine
    finally:
        if machine.is_sound:
            with _idle_lock:
                _idle.append(machine)
