"""Billing's tasks. A message has no content: each task does due steps until there is none, or its turn is over."""

from __future__ import annotations

import time
from collections.abc import Callable

from celery import shared_task

from billing.adjustments import services as adjustments
from billing.alerts import services as alerts
from billing.books import services as books
from billing.reconciliation.services import matching, reading
from billing.services import exports

_TURN_SECONDS = 20.0


def _while_due(step: Callable[[], bool]) -> None:
    started = time.monotonic()
    while step() and time.monotonic() - started < _TURN_SECONDS:
        pass


@shared_task(name="billing.read_invoices")
def read_invoices() -> None:
    """Read providers' reports that were handed in."""
    _while_due(reading.read_next_file)


@shared_task(name="billing.match_invoices")
def match_invoices() -> None:
    """Match invoices whose reports have been read."""
    _while_due(matching.match_next_invoice)


@shared_task(name="billing.expire_grants")
def expire_grants() -> None:
    """Post the breakage of grants that have expired."""
    while adjustments.expire_grants():
        pass


@shared_task(name="billing.take_snapshot")
def take_snapshot() -> None:
    """Keep the balances of an hour ago, once an hour."""
    books.take_due_snapshot()


@shared_task(name="billing.prove_ledger")
def prove_ledger() -> None:
    """Prove all books each day, and when it was asked for."""
    books.prove_when_due()


@shared_task(name="billing.write_exports")
def write_exports() -> None:
    """Write exports that are too large to be waited for."""
    _while_due(exports.write_next_export)


@shared_task(name="billing.sweep_exports")
def sweep_exports() -> None:
    """Remove the bytes of exports whose time is over."""
    _while_due(exports.sweep_exports)


@shared_task(name="billing.sweep_orphan_exports")
def sweep_orphan_exports() -> None:
    """Remove files of exports that never got their row."""
    exports.sweep_orphans()


@shared_task(name="billing.tell_low_balances")
def tell_low_balances() -> None:
    """Tell of wallets that fell below their owner's threshold, and mail what is due."""
    alerts.rearm_alerts()
    while alerts.tell_next_crossing():
        pass
    while alerts.mail_next_crossing():
        pass
