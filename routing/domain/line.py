"""Who goes next where not all can: deficit round robin by tokens between organisations, the earliest finish inside one.

The organisation that is furthest behind, by the tokens it has been given, gives its next piece; a piece that is larger
than its share makes the organisation wait until the others have caught up. Laws: everything that waits stands in the
line once; an organisation's own pieces stand in it by :func:`urgency`; between two organisations with something
waiting, neither is ahead of the other by more than one piece.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

# Inside one organisation a small piece goes before a large one that is to be finished a little earlier: ten million
# tokens count like an hour. So a few rows never stand behind the hundreds of thousands sent just before them.
SECONDS_LATER_BY_TOKEN: Final = 3_600 / 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What waits: a job with its estimated input tokens, and when its batch is to be finished (aware)."""

    job_id: int
    organisation_id: int
    tokens: int
    finish_by: datetime


def urgency(piece: Piece) -> tuple[datetime, int]:
    """Give what an organisation's own pieces are ordered by."""
    return piece.finish_by + timedelta(seconds=piece.tokens * SECONDS_LATER_BY_TOKEN), piece.job_id


def in_line(pieces: Sequence[Piece], had_tokens: Mapping[int, int]) -> list[Piece]:
    """Give pieces in the order in which they should go.

    Args:
        pieces: All that wait for one place.
        had_tokens: What each organisation was given there before, as far as it counts.
    """
    queues: dict[int, list[Piece]] = {}
    # The last is the next: taken from the end.
    for piece in sorted(pieces, key=urgency, reverse=True):
        queues.setdefault(piece.organisation_id, []).append(piece)
    turns = [
        (had_tokens[organisation_id], urgency(queue[-1]), organisation_id) for organisation_id, queue in queues.items()
    ]
    heapq.heapify(turns)
    line: list[Piece] = []
    while turns:
        tokens, _, organisation_id = turns[0]
        queue = queues[organisation_id]
        piece = queue.pop()
        line.append(piece)
        if queue:
            heapq.heapreplace(turns, (tokens + piece.tokens, urgency(queue[-1]), organisation_id))
        else:
            heapq.heappop(turns)
    return line


def fitting(line: Sequence[Piece], *, room_tokens: int, is_empty: bool) -> list[Piece]:
    """Give the pieces at the head of a line that fit into what room there is; nobody overtakes one that does not.

    Args:
        line: From :func:`in_line`.
        room_tokens: What is free; may be negative.
        is_empty: Nothing is there: the first goes whatever its size, because it cannot be made smaller.
    """
    chosen: list[Piece] = []
    for piece in line:
        room_tokens -= piece.tokens
        if room_tokens < 0 and not (is_empty and not chosen):
            break
        chosen.append(piece)
    return chosen
