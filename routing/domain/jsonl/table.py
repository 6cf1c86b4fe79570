"""The rows of a file as parallel columns: no object per row on the hot path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import UNSET

from catalog.domain.records import Endpoint
from routing.domain.estimate.tokens import RowExtras
from routing.domain.estimate.weights import RowLiterals, RowTexts

MAXIMUM_ROWS = 50_000
MAXIMUM_ROWS_BY_FILE = 1_000_000
MAXIMUM_ROW_BYTES = 4 * 1_024 * 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLimits:
    """How many rows a file may have and how many bytes a row."""

    maximum_rows: int = MAXIMUM_ROWS
    maximum_row_bytes: int = MAXIMUM_ROW_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainRows:
    """What chat rows hold that have messages of text, a limit and a temperature, and nothing else.

    One entry a row: whether it is such a row, and what it was decoded to, for the roles and the temperature.
    """

    are_plain: npt.NDArray[np.bool_]
    bodies: Sequence[Any]

    def roles_of(self, row: int) -> tuple[str, ...]:
        """Give who speaks in a plain row, in order."""
        return tuple([message.role for message in self.bodies[row].messages])

    def temperature_of(self, row: int) -> float | None:
        """Give a plain row's temperature; None where it sets none."""
        given = self.bodies[row].temperature
        return None if given is UNSET else given


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTable:
    """Every column has one entry a row, in file order.

    ``offsets`` and ``lengths`` are bytes in the body, without line end; ``lines`` are physical, from 1; ``limits`` are
    output tokens, 0 where a row sets none; ``choices`` is ``n``; ``message_counts`` is 0 for embeddings; ``extras``
    holds only rows with tools, images or token lists. ``model_names`` alone has each name once, in the order in which
    they first appear; ``model_indexes`` says which one a row has, and ``texts`` lie in the order of that index.
    ``plain`` is None where no row is known to hold nothing but text.
    """

    endpoint: Endpoint
    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    lines: npt.NDArray[np.int64]
    custom_ids: Sequence[str]
    model_names: Sequence[str]
    model_indexes: npt.NDArray[np.int32]
    literals: RowLiterals
    texts: RowTexts
    message_counts: npt.NDArray[np.int64]
    limits: npt.NDArray[np.int64]
    choices: npt.NDArray[np.int64]
    extras: dict[int, RowExtras]
    plain: PlainRows | None = None

    def __len__(self) -> int:
        """Give the number of rows."""
        return len(self.custom_ids)
