"""The engine's tasks. A message has no content: each task does due steps until there is none, or its turn is over."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from celery import shared_task
from django.db import InterfaceError, OperationalError

from routing.services import (
    closing,
    collect,
    dispatch,
    file_batches,
    file_quotes,
    finish,
    lanes,
    learned_states,
    learning,
    notices,
    retention,
)

_log = logging.getLogger(__name__)

# A turn ends so that a long queue of one kind does not keep a worker from the others; the sweep calls again.
_TURN_SECONDS = 5.0
# So many rows that fail one after another are no fault of theirs.
_FAILURES_PER_TURN = 5


def _while_due(step: Callable[[], bool]) -> None:
    """Do a step's due rows. One that fails is told of and left to its lease; the others are done all the same."""
    started = time.monotonic()
    failure_count = 0
    while time.monotonic() - started < _TURN_SECONDS:
        try:
            if not step():
                return
        except (OperationalError, InterfaceError):
            # Without a database nothing can be done.
            raise
        except Exception:
            failure_count += 1
            if failure_count == _FAILURES_PER_TURN:
                raise
            _log.exception("a row failed in %s; it is tried again when its lease is over", step.__qualname__)


@shared_task(name="routing.price_files")
def price_files() -> None:
    """Price uploaded files that quotes were asked for."""
    _while_due(file_quotes.price_next_file)


@shared_task(name="routing.validate_batches")
def validate_batches() -> None:
    """Accept batches whose files are priced, or let them fail."""
    _while_due(file_batches.validate_next_batch)


@shared_task(name="routing.start_sub_lanes")
def start_sub_lanes() -> None:
    """Cut queued sub-lanes into provider jobs."""
    _while_due(dispatch.start_next_sub_lane)


@shared_task(name="routing.submit_jobs")
def submit_jobs() -> None:
    """Send intended jobs, and look for those whose sending is unclear."""
    _while_due(dispatch.submit_next_job)


@shared_task(name="routing.poll_jobs")
def poll_jobs() -> None:
    """Ask providers how running jobs are doing."""
    _while_due(collect.poll_next_job)


@shared_task(name="routing.collect_jobs")
def collect_jobs() -> None:
    """Read the results of ended jobs."""
    _while_due(collect.collect_next_job)


@shared_task(name="routing.finish_batches")
def finish_batches() -> None:
    """End batches: begin with those whose window is over, stitch and settle those whose rows have their outcome."""
    closing.expire_batches()
    _while_due(finish.finish_next_batch)


@shared_task(name="routing.learn_from_batches")
def learn_from_batches() -> None:
    """Let settled batches teach the estimator."""
    _while_due(learning.learn_from_next_batch)


@shared_task(name="routing.sweep_learned_history")
def sweep_learned_history() -> None:
    """Remove what was learned so long ago that nobody goes back to it."""
    learned_states.sweep_history()


@shared_task(name="routing.measure_lanes")
def measure_lanes() -> None:
    """Take the SLA snapshot."""
    lanes.measure_lanes()


@shared_task(name="routing.ensure_partitions")
def ensure_partitions() -> None:
    """Keep partitions ahead of the calendar."""
    lanes.ensure_partitions()


@shared_task(name="routing.gather_notices")
def gather_notices() -> None:
    """Tell of low-cost batches that have ended."""
    notices.gather_notices()


@shared_task(name="routing.sweep_files")
def sweep_files() -> None:
    """Remove the bytes of files that are no longer kept."""
    _while_due(retention.sweep_files)


@shared_task(name="routing.sweep_payloads")
def sweep_payloads() -> None:
    """Remove the bytes of quotes that nobody accepted in time."""
    _while_due(retention.sweep_payloads)


@shared_task(name="routing.sweep_batches")
def sweep_batches() -> None:
    """Remove what is kept of batches whose files were deleted."""
    _while_due(retention.sweep_batches)


@shared_task(name="routing.sweep_orphans")
def sweep_orphans() -> None:
    """Remove blobs that never got a row."""
    retention.sweep_orphans()
