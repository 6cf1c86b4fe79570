"""Which lane each row of a group goes to: one lane, or two when the best one has no room for all.

Law: every row of the group is in exactly one share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from routing.domain.scoring import Candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The part of a group that one lane gets: the rows ``start`` up to but not including ``stop``, in group order."""

    candidate: Candidate
    start: int
    stop: int


def split_group(
    eligible: Sequence[Candidate], input_tokens: npt.NDArray[np.int64], *, fan_out: bool, fill_percent: int
) -> tuple[Share, ...]:
    """Give the rows of a group to the best lane, or fill it and give the rest to the next lane that has room.

    A lane is filled to ``fill_percent`` of its enqueued-token limit (a limit of 0 is no limit). Fan-out happens only
    when both parts have at least their lane's minimum of rows and the second lane takes the whole rest; otherwise the
    best lane takes all and its sub-lane waits: a full lane is never a refusal.

    Args:
        eligible: Candidates, best first; at least one.
        input_tokens: Estimated input tokens of each row, in group order.
        fan_out: Whether the workflow allows a second lane.
        fill_percent: How full a lane may be made, in percent of its limit.
    """
    best, row_count = eligible[0], len(input_tokens)
    whole = (Share(candidate=best, start=0, stop=row_count),)
    room = _room_tokens(best, fill_percent)
    if not fan_out or room is None or int(input_tokens.sum()) <= room:
        return whole
    filled = np.cumsum(input_tokens)
    kept_count = int(np.searchsorted(filled, room, side="right"))
    if kept_count < max(1, best.lane.minimum_rows):
        return whole
    rest_tokens = int(filled[-1] - filled[kept_count - 1])
    for other in eligible[1:]:
        other_room = _room_tokens(other, fill_percent)
        if row_count - kept_count >= other.lane.minimum_rows and (other_room is None or rest_tokens <= other_room):
            first = Share(candidate=best, start=0, stop=kept_count)
            return first, Share(candidate=other, start=kept_count, stop=row_count)
    return whole


def _room_tokens(candidate: Candidate, fill_percent: int) -> int | None:
    """Tokens the lane can still take, or None where it has no limit."""
    limit_tokens = candidate.lane.enqueued_tokens_limit
    if limit_tokens <= 0:
        return None
    return limit_tokens * fill_percent // 100 - candidate.health.enqueued_tokens
