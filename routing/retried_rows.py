"""The rows of an ended batch that were not done, as a file of their own: the customer's lines as they came."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from django.db.models import QuerySet

from ground.blobs import BlobWriter, delete_blob, size_of_blob
from routing.models import Batch, RowOutcome
from routing.payloads import Rows, open_payload, payload_name

_ROWS_PER_PAGE: Final = 10_000
UNDONE_OUTCOMES: Final = ("failed", "expired", "cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoneChoice:
    """Which of the rows that were not done; what is empty leaves all."""

    codes: tuple[str, ...] = ()
    outcomes: tuple[str, ...] = ()

    def rows_of(self, batch: Batch) -> QuerySet[RowOutcome]:
        """Give a batch's rows that were not done and match."""
        undone = RowOutcome.objects.filter(
            accepted_at=batch.created_at, batch_id=batch.pk, outcome__in=self.outcomes or UNDONE_OUTCOMES
        )
        return undone.filter(code__in=self.codes) if self.codes else undone


def store_undone_rows(batch: Batch, choice: UndoneChoice, quote_id: str, keep: Callable[[], None]) -> int:
    """Write the payload of a quote that does rows of a batch again that were not done; give its bytes.

    What a killed run has stored is whole and the same, so it is taken as it is.

    Args:
        batch: Ended; its rows all have their outcome.
        choice: Which of them.
        quote_id: Names the payload.
        keep: Called again and again while it is written.

    Raises:
        FileNotFoundError: The batch's own payload is gone.
    """
    name = payload_name(quote_id)
    try:
        return size_of_blob(name)
    except FileNotFoundError:
        pass
    with open_payload(batch.quote_id) as payload, BlobWriter(name, is_hashed=False) as writer:
        for rows in _pages(choice.rows_of(batch)):
            keep()
            for line in payload.lines(rows):
                writer.write(line)
                writer.write(b"\n")
        saved = writer.save()
    if saved.name != name:
        # Another run was quicker.
        delete_blob(saved.name)
    return saved.size_bytes


def _pages(undone: QuerySet[RowOutcome]) -> Iterator[Rows]:
    """Give the numbers of rows, ascending, page by page."""
    after_row = -1
    while numbers := list(
        undone.filter(row__gt=after_row).order_by("row").values_list("row", flat=True)[:_ROWS_PER_PAGE]
    ):
        yield np.array(numbers, dtype=np.int64)
        after_row = numbers[-1]
