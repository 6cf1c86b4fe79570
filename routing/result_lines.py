"""A batch's result lines, made from its row outcomes, its payload and its jobs' answers; in flat memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple, Self

import numpy as np

from catalog.selectors import current_catalog
from ground.blobs import open_on_disk
from routing.bodies import read_bodies
from routing.domain.stitching import StitchedRow, SuccessFrame, result_line, success_frame, success_lines
from routing.models import Batch, ProviderJob
from routing.outcome_pages import OutcomePage
from routing.payloads import Payload, open_payload
from routing.providers.base import RowCode

# Bodies that are in memory at once, and a body more.
_PART_BYTES: Final = 1024 * 1024


class StitchedLines(NamedTuple):
    """Lines of rows that follow one another and all succeeded, or all did not; LF included."""

    succeeded: bool
    text: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """What lines say of the job that gave a row its outcome."""

    blob_name: str
    lane_id: str
    re_dispatch_count: int
    # The successor of its model, for rows whose pin is gone.
    alternative: str | None


class ResultLines:
    """Makes lines of one batch. Blobs are opened once and read by offset; use it in a ``with``."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._batch_number = batch.public_id.removeprefix("batch_").encode()
        self._stack = ExitStack()
        self._descriptors: dict[int, int] = {}
        self._frames: dict[tuple[int, int], SuccessFrame] = {}

    def __enter__(self) -> Self:
        """Open the payload."""
        self._payload: Payload = self._stack.enter_context(open_payload(self._batch.quote_id))
        jobs = ProviderJob.objects.filter(batch=self._batch).values_list(
            "pk", "results_blob", "attempt_number", "sub_lane__lane_id", "sub_lane__model_slug"
        )
        models = current_catalog().models
        self._jobs = {
            pk: _Job(
                blob_name=blob_name,
                lane_id=lane_id,
                re_dispatch_count=attempt_number - 1,
                alternative=models[slug].successor_slug if slug in models else None,
            )
            for pk, blob_name, attempt_number, lane_id, slug in jobs
        }
        return self

    def __exit__(self, *exception: object) -> None:
        """Close what was opened."""
        self._stack.close()

    def of(self, page: OutcomePage) -> Iterator[StitchedLines]:
        """Give the lines of a page's outcomes, in row order: rows that succeeded as many together as there are."""
        custom_ids = list(self._payload.custom_ids_json(page.rows))
        for first, last in pairwise(_parts(page)):
            yield from self._lines(_Part(page, first, last, custom_ids[first:last], self._bodies(page, first, last)))

    def _bodies(self, page: OutcomePage, first: int, last: int) -> list[bytes]:
        """Give the bodies of some rows of a page, empty where there is none."""
        lengths = page.body_lengths[first:last]
        offsets = page.body_offsets[first:last]
        job_ids = page.job_ids[first:last]
        bodies = [b""] * len(lengths)
        for job_id in np.unique(job_ids).tolist():
            places = np.flatnonzero((job_ids == job_id) & (lengths > 0))
            if len(places):
                found = read_bodies(self._descriptor(job_id), offsets[places], lengths[places])
                for place, body in zip(places.tolist(), found, strict=True):
                    bodies[place] = body
        return bodies

    def _descriptor(self, job_id: int) -> int:
        if job_id not in self._descriptors:
            blob = self._stack.enter_context(open_on_disk(self._jobs[job_id].blob_name))
            self._descriptors[job_id] = blob.fileno()
        return self._descriptors[job_id]

    def _lines(self, part: _Part) -> Iterator[StitchedLines]:
        is_plain = part.page.succeeded[part.first : part.last] & (part.page.body_lengths[part.first : part.last] > 0)
        stops = (np.flatnonzero(np.diff(is_plain)) + 1).tolist()
        for start, stop in pairwise((0, *stops, len(is_plain))):
            if is_plain[start]:
                yield StitchedLines(succeeded=True, text=self._successes(part, start, stop))
            else:
                for position in range(start, stop):
                    yield self._line(part, position)

    def _successes(self, part: _Part, start: int, stop: int) -> bytes:
        page, chosen = part.page, slice(part.first + start, part.first + stop)
        pairs = zip(page.job_ids[chosen].tolist(), page.status_codes[chosen].tolist(), strict=True)
        return success_lines(
            self._batch_number,
            page.rows[chosen].tolist(),
            part.custom_ids_json[start:stop],
            [self._frames.get(pair) or self._new_frame(pair) for pair in pairs],
            part.bodies[start:stop],
            page.charges_pico_usd[chosen].tolist(),
        )

    def _new_frame(self, pair: tuple[int, int]) -> SuccessFrame:
        job_id, status_code = pair
        job = self._jobs[job_id]
        self._frames[pair] = success_frame(
            batch_number=self._batch_number,
            status_code=status_code,
            lane_id=job.lane_id,
            re_dispatch_count=job.re_dispatch_count,
        )
        return self._frames[pair]

    def _line(self, part: _Part, position: int) -> StitchedLines:
        """Give the line of a row that did not succeed, or did without a body."""
        page, place = part.page, part.first + position
        job = self._jobs[int(page.job_ids[place])]
        succeeded = bool(page.succeeded[place])
        code = page.codes.get(place, "")
        line = result_line(
            StitchedRow(
                batch_public_id=self._batch.public_id,
                row=int(page.rows[place]),
                custom_id_json=part.custom_ids_json[position],
                succeeded=succeeded,
                code=code,
                status_code=int(page.status_codes[place]),
                body=part.bodies[position],
                lane_id=job.lane_id,
                re_dispatch_count=job.re_dispatch_count,
                charge_pico_usd=int(page.charges_pico_usd[place]),
                alternative=job.alternative if code == RowCode.MODEL_GONE else None,
            )
        )
        return StitchedLines(succeeded=succeeded, text=line)


class _Part(NamedTuple):
    """Rows of a page, from ``first`` to before ``last``, with what their lines are made of."""

    page: OutcomePage
    first: int
    last: int
    custom_ids_json: list[bytes]
    bodies: list[bytes]


def _parts(page: OutcomePage) -> list[int]:
    """Give where a page is cut so that each part's bodies fit into memory; a part has at least one row."""
    ends = np.cumsum(page.body_lengths)
    bounds = [0]
    while bounds[-1] < len(page):
        first = bounds[-1]
        before = int(ends[first - 1]) if first else 0
        bounds.append(max(first + 1, int(np.searchsorted(ends, before + _PART_BYTES, side="right"))))
    return bounds
