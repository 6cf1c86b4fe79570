"""The sweeps of billing. A message has no content."""

from __future__ import annotations

from celery import shared_task

from billing.adjustments import services as adjustments


@shared_task(name="billing.expire_grants")
def expire_grants() -> None:
    """Post the breakage of grants that have expired."""
    while adjustments.expire_grants():
        pass
