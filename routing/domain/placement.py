"""Where each row of a quoted file lies in its payload and which lane it goes to: arrays, packed beside the payload."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

MAGIC = b"LHRP"
VERSION = 1
_HEADER = struct.Struct("<4sHHQ")
_COLUMNS = (
    ("offsets", "<i8"),
    ("lengths", "<i4"),
    ("input_tokens", "<i4"),
    ("group_indexes", "<i4"),
    ("lane_indexes", "<i4"),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowPlacement:
    """One entry a row, in file order.

    ``offsets`` and ``lengths`` are bytes of the row's line in the payload, without its line end; ``input_tokens`` are
    estimates; ``group_indexes`` and ``lane_indexes`` are positions in the quote's groups and lanes.
    """

    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int32]
    input_tokens: npt.NDArray[np.int32]
    group_indexes: npt.NDArray[np.int32]
    lane_indexes: npt.NDArray[np.int32]

    def __len__(self) -> int:
        """Give the number of rows."""
        return len(self.offsets)

    def rows_of_group(self, group_index: int) -> npt.NDArray[np.int64]:
        """Give the rows (from 0) of a group, ascending."""
        return np.flatnonzero(self.group_indexes == group_index)

    def rows_of_lane(self, lane_index: int) -> npt.NDArray[np.int64]:
        """Give the rows (from 0) of a quoted lane, ascending."""
        return np.flatnonzero(self.lane_indexes == lane_index)

    def line_of(self, payload: bytes, row: int) -> bytes:
        """Give the bytes of a row's line."""
        start = int(self.offsets[row])
        return payload[start : start + int(self.lengths[row])]

    def pack(self) -> bytes:
        """Give a header (magic, version, column count, row count) and the columns, little-endian: 24 bytes a row."""
        columns = [getattr(self, name).astype(kind, copy=False).tobytes() for name, kind in _COLUMNS]
        return b"".join((_HEADER.pack(MAGIC, VERSION, len(_COLUMNS), len(self)), *columns))

    @classmethod
    def unpack(cls, packed: bytes) -> Self:
        """Read what :meth:`pack` wrote.

        Raises:
            ValueError: Not such bytes, another version, or cut short.
        """
        if len(packed) < _HEADER.size:
            raise ValueError("packed row placement is cut short")
        magic, version, column_count, row_count = _HEADER.unpack_from(packed)
        if (magic, version, column_count) != (MAGIC, VERSION, len(_COLUMNS)):
            raise ValueError("not a packed row placement of a known version")
        columns, position = {}, _HEADER.size
        for name, kind in _COLUMNS:
            columns[name] = np.frombuffer(packed, dtype=kind, count=row_count, offset=position)
            position += columns[name].nbytes
        if position != len(packed):
            raise ValueError("packed row placement has a wrong length")
        return cls(**columns)
