"""The task of the queue ``deliveries``. A message has no content."""

from __future__ import annotations

from celery import shared_task
from celery.signals import worker_shutting_down

from webhooks.services import turns


@shared_task(name="webhooks.deliver_due")
def deliver_due() -> None:
    """Send the deliveries that are due."""
    turns.take_turn()


@worker_shutting_down.connect(weak=False)
def end_turns(**_signal: object) -> None:
    """Let a worker that was told to stop only finish what is under way."""
    turns.end_turns()
