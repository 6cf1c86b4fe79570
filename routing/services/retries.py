"""Doing the rows of an ended batch again that were not done: a new quote of them, for another batch."""

from __future__ import annotations

from accounts.selectors import Caller
from catalog.domain.records import Endpoint
from ground.errors import InvalidRequest
from routing.domain.pins import BatchPlan
from routing.domain.scoring import WorkflowProfile
from routing.models import ENDED_STATUSES, Batch, Quote
from routing.quote_room import take_quote_room
from routing.retried_rows import UndoneChoice
from routing.selectors import batch_by_id, quote_by_id
from routing.services.file_quotes import begin_pricing

_EVERY_ROW = UndoneChoice()


def request_retry(
    *,
    caller: Caller,
    public_id: str,
    workflow: WorkflowProfile | None = None,
    choice: UndoneChoice = _EVERY_ROW,
) -> Quote:
    """Ask for rows of an ended batch that failed, expired or were cancelled to be priced, under the ids they had.

    The quote is an ordinary one, pending until its rows were read, and says whose rows it does again. Asked twice it is
    two quotes: an offer costs nothing.

    Args:
        caller: Who asks.
        public_id: The batch.
        workflow: What lanes are judged by; None: what the batch was made under.
        choice: Which of these rows.

    Raises:
        NotFound: The organisation has no such batch.
        InvalidRequest: No row is chosen, or the batch runs, never ran, has no such row, or its files were deleted.
        StoreFull: The organisation's open quotes have no room for it.
    """
    batch = batch_by_id(organisation=caller.organisation, public_id=public_id)
    _check(batch)
    origin = quote_by_id(organisation=caller.organisation, public_id=batch.quote_id)
    # How long the lines are is known when they were read; until then, each is as long as another.
    size_bytes = max(1, origin.body_size_bytes * _chosen_count(batch, choice) // batch.row_count)
    take_quote_room(caller.organisation, size_bytes)
    return begin_pricing(
        caller,
        workflow=workflow or BatchPlan.from_bytes(batch.plan).workflow,
        endpoint=Endpoint(batch.endpoint),
        size_bytes=size_bytes,
        retry_of=batch.public_id,
        choice=choice,
    )


def _chosen_count(batch: Batch, choice: UndoneChoice) -> int:
    if choice == _EVERY_ROW:
        return batch.failed_count
    count = choice.rows_of(batch).count()
    if not count:
        param = "code" if choice.codes else "outcome"
        raise InvalidRequest("No row of the batch that was not done has that code and outcome.", param=param)
    return count


def can_be_retried(batch: Batch) -> bool:
    """Say whether a batch has rows that may be done again."""
    return (
        batch.status in ENDED_STATUSES
        and batch.in_progress_at is not None
        and batch.failed_count > 0
        and batch.files_deleted_at is None
    )


def _check(batch: Batch) -> None:
    if can_be_retried(batch):
        return
    if batch.status not in ENDED_STATUSES:
        reason = f"The batch is {batch.status}; its rows can be done again when it has ended."
    elif batch.in_progress_at is None:
        reason = "The batch never ran: mend its file, or add credit, and make another batch of it."
    elif batch.files_deleted_at is not None:
        reason = "The files of the batch were deleted, and its rows with them."
    else:
        reason = "Every row of the batch succeeded."
    raise InvalidRequest(reason, param="batch_id")
