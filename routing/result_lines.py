"""A batch's result lines, made from its row outcomes, its payload and its jobs' answers; in flat memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import BinaryIO, Self

import numpy as np
import orjson
from django.db import connection

from catalog.selectors import current_catalog
from routing.blobs import open_blob
from routing.domain.stitching import StitchedRow, result_line, success_line
from routing.models import Batch, ProviderJob, SubLane
from routing.payloads import Payload, open_payload
from routing.providers.base import RowCode

_ROWS_PER_FETCH = 2_000
_BLOCK_BYTES = 256 * 1024
_COLUMNS = (
    "\"row\", outcome = 'succeeded', code, status_code, sub_lane_id, job_id, re_dispatch_count, charge_pico_usd,"
    " body_offset, body_length"
)


# A row outcome as it is read, in the order of the columns: no record is made of it, there is one for every row.
OutcomeRow = tuple[int, bool, str, int, int, int, int, int, int, int]


class ResultLines:
    """Makes lines of one batch. Blobs are opened once and read by offset; use it in a ``with``."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._stack = ExitStack()
        self._bodies: dict[int, _Bodies] = {}

    def __enter__(self) -> Self:
        """Open the payload."""
        self._payload: Payload = self._stack.enter_context(open_payload(self._batch.quote_id))
        sub_lanes = SubLane.objects.filter(batch=self._batch).values_list("pk", "lane_id", "model_slug")
        self._lane_ids = {pk: lane_id for pk, lane_id, _ in sub_lanes}
        self._lane_ids_json = {pk: orjson.dumps(lane_id) for pk, lane_id in self._lane_ids.items()}
        models = current_catalog().models
        self._alternatives = {pk: models[slug].successor_slug if slug in models else None for pk, _, slug in sub_lanes}
        self._blob_names = dict(ProviderJob.objects.filter(batch=self._batch).values_list("pk", "results_blob"))
        return self

    def __exit__(self, *exception: object) -> None:
        """Close what was opened."""
        self._stack.close()

    def of(self, page: Sequence[OutcomeRow]) -> Iterator[bytes]:
        """Give the line of each outcome, LF included; the page is in row order."""
        rows = np.array([outcome[0] for outcome in page], dtype=np.int64)
        batch_number = self._batch.public_id.removeprefix("batch_").encode()
        for outcome, custom_id_json in zip(page, self._payload.custom_ids_json(rows), strict=True):
            row, succeeded, _, status_code, sub_lane_id, job_id, re_dispatch_count, charge_pico_usd, start, length = (
                outcome
            )
            if succeeded and length:
                yield success_line(
                    batch_number,
                    row,
                    custom_id_json,
                    status_code,
                    self._bodies_of(job_id).read(start, length),
                    self._lane_ids_json[sub_lane_id],
                    re_dispatch_count,
                    charge_pico_usd,
                )
            else:
                yield self._line(outcome, custom_id_json)

    def _line(self, outcome: OutcomeRow, custom_id_json: bytes) -> bytes:
        row, succeeded, code, status_code, sub_lane_id, job_id, re_dispatch_count, charge_pico_usd, start, length = (
            outcome
        )
        return result_line(
            StitchedRow(
                batch_public_id=self._batch.public_id,
                row=row,
                custom_id_json=custom_id_json,
                succeeded=succeeded,
                code=code,
                status_code=status_code,
                body=self._bodies_of(job_id).read(start, length) if length else b"",
                lane_id=self._lane_ids[sub_lane_id],
                re_dispatch_count=re_dispatch_count,
                charge_pico_usd=charge_pico_usd,
                alternative=self._alternatives[sub_lane_id] if code == RowCode.MODEL_GONE else None,
            )
        )

    def _bodies_of(self, job_id: int) -> _Bodies:
        bodies = self._bodies.get(job_id)
        if bodies is None:
            bodies = _Bodies(self._stack.enter_context(open_blob(self._blob_names[job_id])))
            self._bodies[job_id] = bodies
        return bodies


class _Bodies:
    """Reads bodies from one job's blob.

    A provider that keeps the order of its input has them one behind another: then a whole block is read at once. Where
    they lie anywhere, only the body itself is read, in one call to the system: a seek and a read through the file
    objects take 4 us, it takes 1.
    """

    def __init__(self, blob: BinaryIO) -> None:
        self._descriptor = blob.fileno()
        self._block = b""
        self._block_start = 0
        self._next_start = 0

    def read(self, start: int, length: int) -> bytes:
        """Give the bytes of one body."""
        offset = start - self._block_start
        if offset >= 0 and offset + length <= len(self._block):
            self._next_start = start + length
            return self._block[offset : offset + length]
        is_next = start == self._next_start
        self._next_start = start + length
        if not is_next or length >= _BLOCK_BYTES:
            return os.pread(self._descriptor, length, start)
        self._block = os.pread(self._descriptor, _BLOCK_BYTES, start)
        self._block_start = start
        return self._block[:length]


def outcomes_in_row_order(batch: Batch) -> Iterator[list[OutcomeRow]]:
    """Give a batch's row outcomes in row order, page by page: no transaction is open between pages."""
    return _pages(batch, "TRUE", [], after_row=-1)


def outcomes_of_job(batch: Batch, job_id: int, *, after_row: int) -> Iterator[list[OutcomeRow]]:
    """Give the outcomes that one job gave its rows, in row order, from behind a row, page by page."""
    return _pages(batch, "job_id = %s", [job_id], after_row=after_row)


def _pages(batch: Batch, condition: str, values: list[int], *, after_row: int) -> Iterator[list[OutcomeRow]]:
    while True:
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT {_COLUMNS} FROM routing_rowoutcome"  # noqa: S608 -- columns and conditions of ours
                f' WHERE accepted_at = %s AND batch_id = %s AND "row" > %s AND {condition} ORDER BY "row" LIMIT %s',
                [batch.created_at, batch.pk, after_row, *values, _ROWS_PER_FETCH],
            )
            page: list[OutcomeRow] = cursor.fetchall()
        if page:
            yield page
        if len(page) < _ROWS_PER_FETCH:
            return
        after_row = page[-1][0]
