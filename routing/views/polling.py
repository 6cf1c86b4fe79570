"""When the page of a batch asks again, and whether there is anything new to answer."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings

from routing.models import Batch, BatchStatus, SubLane, SubLaneState
from routing.services.room import places_in_line

ENDED = frozenset({BatchStatus.COMPLETED, BatchStatus.FAILED, BatchStatus.EXPIRED, BatchStatus.CANCELLED})
_SOON_MS, _NORMAL_MS, _SELDOM_MS = 2_000, 5_000, 15_000
_YOUNG = timedelta(minutes=2)
_LONG = timedelta(minutes=30)
_NEAR_THE_END_PERCENT = 90
_QUEUES = frozenset({SubLaneState.QUEUED, SubLaneState.WAITING})
_SUB_LANE_ENDED = frozenset({SubLaneState.COMPLETED, SubLaneState.FAILED, SubLaneState.EXPIRED, SubLaneState.CANCELLED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """``version`` names all that the page shows; ``every_ms`` is None once the batch has ended."""

    version: str
    every_ms: int | None


def poll_of(batch: Batch, sub_lanes: Sequence[SubLane], at: datetime) -> Poll:
    """Give what a page shown at ``at`` polls with. The wait is part of the version, so that a new wait is told."""
    every_ms = None if batch.status in ENDED else _every_ms(batch, sub_lanes, at)
    shown = (
        every_ms,
        batch.status,
        batch.completed_count,
        batch.failed_count,
        batch.charge_micro_usd,
        batch.cancelling_at,
        batch.finalizing_at,
        [
            (
                sub_lane.number,
                sub_lane.state,
                sub_lane.reason,
                sub_lane.row_count,
                sub_lane.completed_count,
                sub_lane.failed_count,
                sub_lane.moved_out_count,
                sub_lane.re_dispatched_count,
                sub_lane.reported_count,
            )
            for sub_lane in sub_lanes
        ],
        places_in_line(sub_lanes),
    )
    return Poll(version=hashlib.blake2b(repr(shown).encode(), digest_size=8).hexdigest(), every_ms=every_ms)


def reported_count(sub_lane: SubLane) -> int:
    """Give how many rows the provider says it has done and we have not collected yet; within what is left."""
    collected_count = sub_lane.completed_count + sub_lane.failed_count
    return max(0, min(sub_lane.reported_count, sub_lane.row_count) - collected_count)


def likely_end(batch: Batch, sub_lanes: Sequence[SubLane], at: datetime) -> datetime | None:
    """Give when the batch ends if it goes on at its pace so far; None while it has none. Never after its window."""
    done_count = batch.completed_count + batch.failed_count + sum(map(reported_count, sub_lanes))
    if batch.status in ENDED or not 0 < done_count < batch.row_count:
        return None
    return min(batch.expires_at, batch.created_at + (at - batch.created_at) * batch.row_count / done_count)


def _every_ms(batch: Batch, sub_lanes: Sequence[SubLane], at: datetime) -> int:
    if settings.PAGE_POLL_MILLISECONDS:
        return int(settings.PAGE_POLL_MILLISECONDS)
    open_states = {sub_lane.state for sub_lane in sub_lanes} - _SUB_LANE_ENDED
    if open_states and open_states <= _QUEUES and at - batch.created_at >= _YOUNG:
        return _SELDOM_MS
    done_count = batch.completed_count + batch.failed_count + sum(map(reported_count, sub_lanes))
    near_the_end = not open_states or done_count * 100 >= batch.row_count * _NEAR_THE_END_PERCENT
    if near_the_end or at - batch.created_at < _YOUNG:
        return _SOON_MS
    ends_at = likely_end(batch, sub_lanes, at)
    return _SELDOM_MS if ends_at is not None and ends_at - at > _LONG else _NORMAL_MS
