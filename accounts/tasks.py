"""The sweeps of accounts. A message has no content."""

from __future__ import annotations

from celery import shared_task

from accounts.services import kept_calls, sign_in


@shared_task(name="accounts.sweep_kept_calls")
def sweep_kept_calls() -> None:
    """Remove the answers of calls that need no longer be repeated."""
    while kept_calls.sweep_kept_calls():
        pass


@shared_task(name="accounts.sweep_sign_ins")
def sweep_sign_ins() -> None:
    """Remove sessions that have ended, and what is no longer needed to count tries to sign in."""
    while sign_in.sweep_sign_ins():
        pass
