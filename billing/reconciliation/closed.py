"""The database's word that a month is closed, as an error for callers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from typing import Final

from django.db import IntegrityError

from ground.errors import InvalidRequest

_RULE: Final = "period_is_closed"


class PeriodClosed(InvalidRequest):
    """The month is closed: nothing of it changes until it is opened again."""

    code = "period_closed"


@contextmanager
def refusing_what_is_closed(month: date) -> Iterator[None]:
    """Say in our words what the triggers refuse; to be put around a transaction.

    Raises:
        PeriodClosed: Something of a closed month would have been written.
    """
    try:
        yield
    except IntegrityError as error:
        if getattr(getattr(error.__cause__, "diag", None), "constraint_name", None) != _RULE:
            raise
        raise PeriodClosed(f"{month:%B %Y} is closed. Reopen it first.") from error
