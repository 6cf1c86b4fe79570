"""Row outcomes as they are read to make result lines: page by page, each a few arrays and no object for any row.

The database packs each column of a page into one value in its binary format: as rows, a driver would make ten objects
of every one (0.84 us a row, so 0.2).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from django.db import connection

from routing.models import Batch

_ROWS_PER_PAGE: Final = 2_000
# Names, what gives them, and their layout in an array: each value has its length before it.
_COLUMNS: Final = (
    ("rows", '"row"', ">i4"),
    ("succeeded", "outcome = 'succeeded'", "?"),
    ("status_codes", "status_code", ">i2"),
    ("job_ids", "job_id", ">i8"),
    ("charges_pico_usd", "charge_pico_usd", ">i8"),
    ("body_offsets", "body_offset", ">i8"),
    ("body_lengths", "body_length", ">i4"),
)
_ARRAY_HEAD_BYTES: Final = 20

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OutcomePage:
    """Row outcomes in row order, as columns of one entry a row.

    ``body_offsets`` and ``body_lengths`` say where the answer's body lies in the blob of the job ``job_ids`` names;
    length 0: there is none. ``codes`` has the code of every row that did not succeed, by its place in the page.
    """

    rows: Numbers
    succeeded: npt.NDArray[np.bool_]
    status_codes: Numbers
    job_ids: Numbers
    charges_pico_usd: Numbers
    body_offsets: Numbers
    body_lengths: Numbers
    codes: dict[int, str]

    def __len__(self) -> int:
        """Give the number of rows."""
        return len(self.rows)


def outcomes_in_row_order(batch: Batch) -> Iterator[OutcomePage]:
    """Give a batch's row outcomes in row order, page by page: no transaction is open between pages."""
    return _pages(batch, "TRUE", [], after_row=-1)


def outcomes_of_job(batch: Batch, job_id: int, *, after_row: int) -> Iterator[OutcomePage]:
    """Give the outcomes that one job gave its rows, in row order, from behind a row, page by page."""
    return _pages(batch, "job_id = %s", [job_id], after_row=after_row)


def outcome_of_row(batch: Batch, row: int) -> OutcomePage | None:
    """Give the outcome of one row; None while it has none."""
    return next(_pages(batch, '"row" = %s', [row], after_row=row - 1), None)


def _pages(batch: Batch, condition: str, values: list[int], *, after_row: int) -> Iterator[OutcomePage]:
    packed = ", ".join(f"array_send(array_agg({name}))" for name, _, _ in _COLUMNS)
    named = ", ".join(f"{what} AS {name}" for name, what, _ in _COLUMNS)
    while True:
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT {packed}, array_agg(code) FILTER (WHERE NOT succeeded) FROM ("  # noqa: S608 -- columns and conditions of ours
                f"SELECT {named}, code FROM routing_rowoutcome"
                f' WHERE accepted_at = %s AND batch_id = %s AND "row" > %s AND {condition} ORDER BY "row" LIMIT %s'
                ") AS page",
                [batch.created_at, batch.pk, after_row, *values, _ROWS_PER_PAGE],
            )
            *columns, codes = cursor.fetchone()
        if columns[0] is None:
            return
        page = _page(columns, codes or ())
        yield page
        if len(page) < _ROWS_PER_PAGE:
            return
        after_row = int(page.rows[-1])


def _page(columns: Sequence[bytes], codes: Sequence[str]) -> OutcomePage:
    rows, succeeded, *numbers = map(_unpacked, columns, (layout for _, _, layout in _COLUMNS))
    assert (np.diff(rows) > 0).all(), "an aggregate keeps the order it is given"
    named = dict(zip((name for name, _, _ in _COLUMNS[2:]), numbers, strict=True))
    is_success = succeeded.astype(np.bool_)
    failed = np.flatnonzero(~is_success).tolist()
    return OutcomePage(rows=rows, succeeded=is_success, codes=dict(zip(failed, codes, strict=True)), **named)


def _unpacked(column: bytes, layout: str) -> Numbers:
    """Give the values of an array in PostgreSQL's binary format; none of them is null."""
    entries = np.frombuffer(column, dtype=[("size", ">i4"), ("value", layout)], offset=_ARRAY_HEAD_BYTES)
    assert (entries["size"] >= 0).all(), "a null has no value"
    return entries["value"].astype(np.int64)
