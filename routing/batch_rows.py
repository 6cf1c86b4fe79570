"""The rows of a batch as people look them up: a page of them at a time, and one whole, however many there are.

Nothing here reads all rows: pages go by row number, and a search for a ``custom_id``, which only the file knows, stops
after so many bytes and says how far it came.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
from django.db import connection
from django.db.models import Count, QuerySet

from ground import clock
from ground.errors import NotFound
from routing.models import Batch, RowOutcome, SubLane
from routing.outcome_pages import OutcomePage, outcome_of_row
from routing.payloads import Payload, open_payload
from routing.result_lines import ResultLines

SUCCEEDED, FAILED, OPEN = "succeeded", "failed", "open"
_SEARCHED_ROWS: Final = 5_000
_SEARCHED_BYTES: Final = 256 * 1024 * 1024
_CODES_MAX_COUNT: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """Which rows of a batch to show; what is empty leaves all.

    Args:
        outcome: ``succeeded``, ``failed`` (also expired and cancelled) or ``open``, which have no outcome yet.
        code: The code of rows that failed.
        lane_id: The lane that gave them their outcome.
        custom_id: Part of their ``custom_id``.
    """

    outcome: str = ""
    code: str = ""
    lane_id: str = ""
    custom_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRow:
    """One row: ``custom_id`` is None where its file is gone, ``outcome`` where it has none yet."""

    row: int
    custom_id: str | None
    lane_id: str
    outcome: RowOutcome | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPage:
    """Rows by number. ``searched_to``: the last row a search for an id came to; None when it came to the end."""

    rows: tuple[BatchRow, ...]
    has_more: bool
    searched_to: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeRow:
    """One row with what was asked and answered, both JSON text; ``line`` is empty until the row has an outcome.

    ``body`` is the row's body in the file and ``line`` the line of it in the results, as a customer gets it. Either is
    None where its bytes are gone.
    """

    entry: BatchRow
    body: bytes | None
    line: bytes | None


def row_page(batch: Batch, chosen: RowFilter, *, after_row: int, limit: int) -> RowPage:
    """Give up to ``limit`` rows behind ``after_row`` (-1: from the first)."""
    try:
        with _payload_of(batch) as payload:
            if chosen.custom_id:
                return _searched(batch, payload, chosen, after_row, limit)
            rows = _numbers(batch, chosen, after_row, limit + 1)
            entries = _rows(batch, rows[:limit], custom_ids(payload, rows[:limit]))
    except FileNotFoundError:
        # Deleted by its owner. An id can no longer be looked for.
        rows = [] if chosen.custom_id else _numbers(batch, chosen, after_row, limit + 1)
        entries = _rows(batch, rows[:limit], [None] * len(rows[:limit]))
    return RowPage(rows=entries, has_more=len(rows) > limit)


def whole_row(batch: Batch, row: int) -> WholeRow:
    """Give one row of a batch with its input and output.

    Raises:
        NotFound: The batch has no such row.
    """
    if not 0 <= row < batch.row_count:
        raise NotFound("The batch has no such row.", param="row")
    custom_id: str | None = None
    body: bytes | None = None
    line: bytes | None = b""
    try:
        with _payload_of(batch) as payload:
            custom_id = custom_ids(payload, [row])[0]
            body = msgspec.json.encode(next(payload.bodies(np.array([row]))))
    except FileNotFoundError:
        pass
    page = outcome_of_row(batch, row)
    if page is not None:
        line = None if body is None or results_are_gone(batch) else _line_of(batch, page)
    return WholeRow(entry=_rows(batch, [row], [custom_id])[0], body=body, line=line)


def results_are_gone(batch: Batch) -> bool:
    """Say whether a batch's files were deleted, or the time is over for which its results are kept."""
    results = batch.results_file
    if batch.files_deleted_at is not None:
        return True
    if results is None:
        return False
    return results.deleted_at is not None or (results.expires_at is not None and results.expires_at <= clock.now())


def codes_of(batch: Batch) -> list[tuple[str, int]]:
    """Give the codes of a batch's failed rows and how many have each, the commonest first; 30 at most."""
    if not batch.failed_count:
        return []
    failed = _outcomes(batch).exclude(outcome=SUCCEEDED).values_list("code")
    return list(failed.annotate(row_count=Count("row")).order_by("-row_count", "code")[:_CODES_MAX_COUNT])


def custom_ids(payload: Payload, rows: Sequence[int]) -> list[str]:
    """Give ascending rows' ``custom_id``."""
    return [msgspec.json.decode(text, type=str) for text in payload.custom_ids_json(np.array(rows, dtype=np.int64))]


@contextmanager
def _payload_of(batch: Batch) -> Iterator[Payload]:
    """Open a batch's copy of its input; what was deleted is gone at once, whenever its bytes go."""
    if batch.files_deleted_at is not None:
        raise FileNotFoundError
    with open_payload(batch.quote_id) as payload:
        yield payload


def _line_of(batch: Batch, page: OutcomePage) -> bytes | None:
    try:
        with ResultLines(batch) as lines:
            return b"".join(piece.text for piece in lines.of(page))
    except FileNotFoundError:
        return None


def _outcomes(batch: Batch) -> QuerySet[RowOutcome]:
    return RowOutcome.objects.filter(accepted_at=batch.created_at, batch_id=batch.pk)


def _numbers(batch: Batch, chosen: RowFilter, after_row: int, limit: int) -> list[int]:
    """Give up to ``limit`` row numbers behind ``after_row`` that match all but the id."""
    if chosen.outcome == OPEN:
        return [] if chosen.code or chosen.lane_id else _open_rows(batch, after_row, limit)
    if not (chosen.outcome or chosen.code or chosen.lane_id):
        return list(range(after_row + 1, min(after_row + 1 + limit, batch.row_count)))
    outcomes = _outcomes(batch).filter(row__gt=after_row)
    if chosen.outcome == SUCCEEDED:
        outcomes = outcomes.filter(outcome=SUCCEEDED)
    elif chosen.outcome == FAILED:
        outcomes = outcomes.exclude(outcome=SUCCEEDED)
    if chosen.code:
        outcomes = outcomes.filter(code=chosen.code)
    if chosen.lane_id:
        lanes = SubLane.objects.filter(batch=batch, lane_id=chosen.lane_id).values_list("pk", flat=True)
        outcomes = outcomes.filter(sub_lane_id__in=list(lanes))
    return list(outcomes.order_by("row").values_list("row", flat=True)[:limit])


def _open_rows(batch: Batch, after_row: int, limit: int) -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT number FROM generate_series(%s, %s) AS number WHERE NOT EXISTS (SELECT FROM routing_rowoutcome"
            ' WHERE accepted_at = %s AND batch_id = %s AND "row" = number) ORDER BY number LIMIT %s',
            [after_row + 1, batch.row_count - 1, batch.created_at, batch.pk, limit],
        )
        return [number for (number,) in cursor.fetchall()]


def _searched(batch: Batch, payload: Payload, chosen: RowFilter, after_row: int, limit: int) -> RowPage:
    """Look for an id in the file, some thousand rows at a time, until a page is full or enough has been read."""
    wanted = chosen.custom_id.casefold()
    found: list[tuple[int, str]] = []
    left_bytes = _SEARCHED_BYTES
    searched_to: int | None = after_row
    while searched_to is not None and len(found) <= limit and left_bytes > 0:
        rows = _numbers(batch, chosen, searched_to, _SEARCHED_ROWS)
        pairs = zip(rows, custom_ids(payload, rows), strict=True)
        found += [(row, custom_id) for row, custom_id in pairs if wanted in custom_id.casefold()]
        if rows:
            left_bytes -= payload.span_bytes(rows[0], rows[-1])
        searched_to = rows[-1] if len(rows) == _SEARCHED_ROWS else None
    has_more = len(found) > limit
    del found[limit:]
    entries = _rows(batch, [row for row, _ in found], [custom_id for _, custom_id in found])
    return RowPage(rows=entries, has_more=has_more, searched_to=None if has_more else searched_to)


def _rows(batch: Batch, rows: Sequence[int], ids: Sequence[str | None]) -> tuple[BatchRow, ...]:
    outcomes = {outcome.row: outcome for outcome in _outcomes(batch).filter(row__in=list(rows))}
    lanes = dict(SubLane.objects.filter(batch=batch).values_list("pk", "lane_id"))
    return tuple(
        BatchRow(
            row=row,
            custom_id=custom_id,
            lane_id=lanes[outcomes[row].sub_lane_id] if row in outcomes else "",
            outcome=outcomes.get(row),
        )
        for row, custom_id in zip(rows, ids, strict=True)
    )
