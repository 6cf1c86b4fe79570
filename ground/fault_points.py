"""Places where a test may have the running process killed: named, and asleep unless the start names one.

``LANEHOUSE_FAULT_POINT`` names points, each with the number of the passage that is meant (``collect.half_read:40``; 1
where none is said). The process that makes this passage kills itself with SIGKILL, once in a state directory: a marker
file remembers it, so that the process which is started in its place goes on.

A point stands wherever a kill leaves something behind that another process must see to: after a claim, around each call
of a provider or receiver, around each commit, in the middle of each file. Always holds: each point is reached somewhere
(``tests/ground/test_fault_points.py``) and is killed at in a test (``tests/faults``).
"""

from __future__ import annotations

import enum
import os
import signal
from collections.abc import Iterable
from pathlib import Path


class FaultPoint(enum.StrEnum):
    """Every point, in the order in which a batch comes by."""

    PRICE_CLAIMED = "price.claimed"
    PRICE_READ = "price.read"
    PRICE_BEFORE_COMMIT = "price.before_commit"
    PRICE_AFTER_COMMIT = "price.after_commit"
    VALIDATE_CLAIMED = "validate.claimed"
    VALIDATE_BEFORE_COMMIT = "validate.before_commit"
    VALIDATE_AFTER_COMMIT = "validate.after_commit"
    ACCEPT_BEFORE_COMMIT = "accept.before_commit"
    ACCEPT_AFTER_COMMIT = "accept.after_commit"
    START_CLAIMED = "start.claimed"
    START_BEFORE_COMMIT = "start.before_commit"
    START_AFTER_COMMIT = "start.after_commit"
    SUBMIT_CLAIMED = "submit.claimed"
    SUBMIT_NOTED = "submit.noted"
    SUBMIT_HALF_ENCODED = "submit.half_encoded"
    SUBMIT_ENCODED = "submit.encoded"
    SUBMIT_UPLOADED = "submit.uploaded"
    SUBMIT_ANSWERED = "submit.answered"
    SUBMIT_BEFORE_COMMIT = "submit.before_commit"
    SUBMIT_AFTER_COMMIT = "submit.after_commit"
    FIND_UNSENT = "find.unsent"
    FIND_CLAIMED = "find.claimed"
    FIND_ANSWERED = "find.answered"
    FIND_FOUND = "find.found"
    FIND_ADOPTED = "find.adopted"
    FIND_ABSENT = "find.absent"
    POLL_CLAIMED = "poll.claimed"
    POLL_ANSWERED = "poll.answered"
    POLL_BEFORE_COMMIT = "poll.before_commit"
    POLL_AFTER_COMMIT = "poll.after_commit"
    COLLECT_CLAIMED = "collect.claimed"
    COLLECT_HALF_READ = "collect.half_read"
    COLLECT_BLOB_WRITTEN = "collect.blob_written"
    COLLECT_BEFORE_COMMIT = "collect.before_commit"
    COLLECT_AFTER_COMMIT = "collect.after_commit"
    MOVE_PLANNED = "move.planned"
    MOVE_BEFORE_COMMIT = "move.before_commit"
    MOVE_AFTER_COMMIT = "move.after_commit"
    CANCEL_BEFORE_COMMIT = "cancel.before_commit"
    CANCEL_AFTER_COMMIT = "cancel.after_commit"
    CLOSE_UNSENT_ENDED = "close.unsent_ended"
    CLOSE_ANSWERED = "close.answered"
    CLOSE_NOTED = "close.noted"
    CLOSE_AFTER_COMMIT = "close.after_commit"
    FINISH_CLAIMED = "finish.claimed"
    FINISH_FINALIZING = "finish.finalizing"
    FINISH_HALF_WRITTEN = "finish.half_written"
    FINISH_ONE_FILE_WRITTEN = "finish.one_file_written"
    FINISH_FILES_WRITTEN = "finish.files_written"
    FINISH_BEFORE_COMMIT = "finish.before_commit"
    FINISH_AFTER_COMMIT = "finish.after_commit"
    LEARN_CLAIMED = "learn.claimed"
    LEARN_READ = "learn.read"
    LEARN_BEFORE_COMMIT = "learn.before_commit"
    GATHER_BEFORE_COMMIT = "gather.before_commit"
    GATHER_AFTER_COMMIT = "gather.after_commit"
    DELIVER_CLAIMED = "deliver.claimed"
    DELIVER_SENT = "deliver.sent"
    DELIVER_BEFORE_COMMIT = "deliver.before_commit"
    DELIVER_AFTER_COMMIT = "deliver.after_commit"


# How many passages are left before the kill; empty in every process that no test has started.
_armed: dict[FaultPoint, int] = {}
_folder = Path()


def arm(wanted: Iterable[str], folder: Path) -> None:
    """Let this process, and those it forks, kill itself at some points.

    Args:
        wanted: ``name`` or ``name:passage``.
        folder: Where the markers are; made when the first one is.

    Raises:
        ValueError: A name is not that of a point, or a passage is no number.
    """
    global _folder  # noqa: PLW0603 -- of this process, as the points are
    _folder = folder
    _armed.clear()
    for each in wanted:
        name, _, passage = each.partition(":")
        _armed[FaultPoint(name)] = int(passage or 1)


def reach(point: FaultPoint) -> None:
    """Come by a point; nothing happens unless it is armed."""
    if _armed and point in _armed:
        _pass(point)


def marker_of(point: FaultPoint, folder: Path) -> Path:
    """Give the file that says that a process was killed at a point."""
    return folder / point


def _pass(point: FaultPoint) -> None:
    _armed[point] -= 1
    if _armed[point] > 0:
        return
    del _armed[point]
    _folder.mkdir(parents=True, exist_ok=True)
    try:
        # Of several processes that come by, the one that makes the file is killed.
        marker_of(point, _folder).touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)
