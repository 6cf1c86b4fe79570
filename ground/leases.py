"""Claiming a due row: a lease with a fencing token.

A worker that is paused past its lease finds at the end that the fence has moved, and its work is dropped whole; so a
step may be killed at any instruction, or run twice at once, and is still done once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from django.conf import settings
from django.db import connection, models, transaction


class Claimable(models.Model):
    """A row that workers claim. ``due_at`` null: nothing is due."""

    due_at = models.DateTimeField(null=True, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    fence = models.PositiveBigIntegerField(default=0)

    class Meta:
        abstract = True


Row = TypeVar("Row", bound=Claimable)


class LeaseLost(Exception):
    """The lease ran out and another worker has claimed the row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A claim on one row."""

    table: str
    row_id: int
    fence: int

    def renew(self) -> None:
        """Hold the row for a full lease from now.

        Raises:
            LeaseLost: Somebody else has it.
        """
        with connection.cursor() as cursor:
            cursor.execute(
                f"UPDATE {self.table} SET lease_until = lanehouse_now() + make_interval(secs => %s)"  # noqa: S608 -- a table of ours
                " WHERE id = %s AND fence = %s",
                [settings.LEASE_SECONDS, self.row_id, self.fence],
            )
            if cursor.rowcount != 1:
                raise LeaseLost


class Keeper:
    """Keeps a lease while long work goes on: called as often as one likes, it renews when a quarter has passed.

    By time and not by rows done: rows that come slowly must not cost the lease.
    """

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._renews_at = time.monotonic() + settings.LEASE_SECONDS / 4

    def __call__(self) -> None:
        """Renew the lease if it is time.

        Raises:
            LeaseLost: Somebody else has the row.
        """
        if time.monotonic() >= self._renews_at:
            self._lease.renew()
            self._renews_at = time.monotonic() + settings.LEASE_SECONDS / 4


def claim(model: type[Row], *, state_field: str, states: tuple[str, ...]) -> Lease | None:
    """Claim the row of ``model`` that has been due longest in one of ``states``, or give None."""
    table = model._meta.db_table  # noqa: SLF001 -- Django's documented model API
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            UPDATE {table} SET lease_until = lanehouse_now() + make_interval(secs => %s), fence = fence + 1
            WHERE id = (
                SELECT id FROM {table}
                WHERE {state_field} = ANY(%s) AND due_at <= lanehouse_now()
                  AND (lease_until IS NULL OR lease_until <= lanehouse_now())
                ORDER BY due_at, id LIMIT 1 FOR UPDATE SKIP LOCKED
            ) RETURNING id, fence
            """,  # noqa: S608 -- a table and a column of ours
            [settings.LEASE_SECONDS, list(states)],
        )
        found = cursor.fetchone()
    return Lease(table=table, row_id=found[0], fence=found[1]) if found else None


@contextmanager
def moving_on(model: type[Row], lease: Lease, *, keep_lease: bool = False) -> Iterator[Row]:
    """Give the claimed row, locked, in the one transaction that moves it on; the lease ends with it.

    The caller sets the row's fields and ``due_at``; they are saved here. With ``keep_lease`` the step goes on after
    this transaction and the row stays claimed.

    Raises:
        LeaseLost: Another worker has claimed the row; nothing was written.
    """
    # Inside a transaction it is a part of it: whatever fails here ends the whole.
    with transaction.atomic(savepoint=False):
        row = model._default_manager.select_for_update().filter(pk=lease.row_id, fence=lease.fence).first()  # noqa: SLF001 -- the manager of a model given as argument
        if row is None:
            raise LeaseLost
        yield row
        if not keep_lease:
            row.lease_until = None
        row.save()


class unless_lost:  # noqa: N801 -- a context manager that reads as a phrase
    """Swallows the news that another worker has the row now: its work counts, ours is dropped."""

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        """Say that a lost lease is no error."""
        return kind is not None and issubclass(kind, LeaseLost)
