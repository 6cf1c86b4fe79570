"""The task of the queue ``deliveries``. A message has no content."""

from __future__ import annotations

from celery import shared_task

from webhooks.services import turns


@shared_task(name="webhooks.deliver_due")
def deliver_due() -> None:
    """Send the deliveries that are due."""
    turns.deliver_due()
