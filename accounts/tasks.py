"""The sweeps of accounts. A message has no content."""

from __future__ import annotations

from celery import shared_task

from accounts.services import kept_calls


@shared_task(name="accounts.sweep_kept_calls")
def sweep_kept_calls() -> None:
    """Remove the answers of calls that need no longer be repeated."""
    while kept_calls.sweep_kept_calls():
        pass
