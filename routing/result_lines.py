"""A batch's result lines, made from its row outcomes, its payload and its jobs' answers; in flat memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import BinaryIO, Self

from django.db import connection

from catalog.selectors import current_catalog
from routing.blobs import open_blob
from routing.domain.stitching import StitchedRow, result_line
from routing.models import Batch, ProviderJob, SubLane
from routing.payloads import Payload, open_payload
from routing.providers.base import RowCode

_ROWS_PER_FETCH = 2_000
_COLUMNS = (
    "\"row\", outcome = 'succeeded', code, status_code, sub_lane_id, job_id, re_dispatch_count, charge_pico_usd,"
    " body_offset, body_length"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a result line needs of one row outcome."""

    row: int
    succeeded: bool
    code: str
    status_code: int
    sub_lane_id: int
    job_id: int | None
    re_dispatch_count: int
    charge_pico_usd: int
    body_offset: int
    body_length: int


class ResultLines:
    """Makes lines of one batch. Blobs are opened once and read by offset; use it in a ``with``."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._stack = ExitStack()
        self._bodies: dict[int, BinaryIO] = {}

    def __enter__(self) -> Self:
        """Open the payload."""
        self._payload: Payload = self._stack.enter_context(open_payload(self._batch.quote_id))
        sub_lanes = SubLane.objects.filter(batch=self._batch).values_list("pk", "lane_id", "model_slug")
        self._lane_ids = {pk: lane_id for pk, lane_id, _ in sub_lanes}
        models = current_catalog().models
        self._alternatives = {pk: models[slug].successor_slug if slug in models else None for pk, _, slug in sub_lanes}
        self._blob_names = dict(ProviderJob.objects.filter(batch=self._batch).values_list("pk", "results_blob"))
        return self

    def __exit__(self, *exception: object) -> None:
        """Close what was opened."""
        self._stack.close()

    def line(self, outcome: Outcome) -> bytes:
        """Give the line of one row, LF included."""
        return result_line(
            StitchedRow(
                batch_public_id=self._batch.public_id,
                row=outcome.row,
                custom_id_json=self._payload.custom_id_json(outcome.row),
                succeeded=outcome.succeeded,
                code=outcome.code,
                status_code=outcome.status_code,
                body=self._body(outcome),
                lane_id=self._lane_ids[outcome.sub_lane_id],
                re_dispatch_count=outcome.re_dispatch_count,
                charge_pico_usd=outcome.charge_pico_usd,
                alternative=self._alternatives[outcome.sub_lane_id] if outcome.code == RowCode.MODEL_GONE else None,
            )
        )

    def _body(self, outcome: Outcome) -> bytes:
        if not outcome.body_length or outcome.job_id is None:
            return b""
        blob = self._bodies.get(outcome.job_id)
        if blob is None:
            blob = self._stack.enter_context(open_blob(self._blob_names[outcome.job_id]))
            self._bodies[outcome.job_id] = blob
        blob.seek(outcome.body_offset)
        return blob.read(outcome.body_length)


def outcomes_in_row_order(batch: Batch) -> Iterator[Outcome]:
    """Give a batch's row outcomes in row order, a page at a time: no transaction is open between pages."""
    return _pages(batch, "TRUE", [], after_row=-1)


def outcomes_of_job(batch: Batch, job_id: int, *, after_row: int) -> Iterator[Outcome]:
    """Give the outcomes that one job gave its rows, in row order, from behind a row."""
    return _pages(batch, "job_id = %s", [job_id], after_row=after_row)


def _pages(batch: Batch, condition: str, values: list[int], *, after_row: int) -> Iterator[Outcome]:
    while True:
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT {_COLUMNS} FROM routing_rowoutcome"  # noqa: S608 -- columns and conditions of ours
                f' WHERE accepted_at = %s AND batch_id = %s AND "row" > %s AND {condition} ORDER BY "row" LIMIT %s',
                [batch.created_at, batch.pk, after_row, *values, _ROWS_PER_FETCH],
            )
            page = cursor.fetchall()
        for found in page:
            yield Outcome(
                row=found[0],
                succeeded=found[1],
                code=found[2],
                status_code=found[3],
                sub_lane_id=found[4],
                job_id=found[5],
                re_dispatch_count=found[6],
                charge_pico_usd=found[7],
                body_offset=found[8],
                body_length=found[9],
            )
        if len(page) < _ROWS_PER_FETCH:
            return
        after_row = page[-1][0]
