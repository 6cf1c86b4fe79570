"""Attempts that come when their month is closed: the next open month of their account takes them, as a break."""

from __future__ import annotations

from datetime import date

from django.db import connection

from billing.domain.records import CollectedJob
from billing.reconciliation.models import ProviderInvoice
from billing.reconciliation.period_models import AttemptRecording, Period, PeriodState
from billing.reconciliation.services.matching import match_is_due
from ground import clock
from ground.errors import InvalidRequest
from ground.ids import new_public_id
from ground.wake import wake

# What whoever records holds shared (0022_late_attempts.sql), a close holds alone.
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('attempts are recorded', 0))"
_NOTE = """
INSERT INTO billing_attemptrecording
    (job_id, batch_public_id, completed_at, recorded_at, provider, provider_account, is_test, attempt_count,
     cost_pico_usd)
VALUES (%s, %s, %s, lanehouse_now(), %s, %s, %s, %s, %s) RETURNING carried_to
"""


def note_recording(job: CollectedJob, *, attempt_count: int, cost_pico_usd: int) -> None:
    """Note what was recorded of a job, in the transaction of that; what is late gets its place in an open month."""
    with connection.cursor() as cursor:
        cursor.execute(
            _NOTE,
            [
                job.job_id,
                job.terms.batch_public_id if job.terms else "",
                job.completed_at,
                job.provider,
                job.provider_account,
                job.terms is not None and job.terms.is_test,
                attempt_count,
                cost_pico_usd,
            ],
        )
        row = cursor.fetchone()
    assert row is not None, "an insert gives its row"
    if row[0] is not None:
        _match_again(job.provider, job.provider_account, row[0])


def hold_recording() -> None:
    """Let nobody record attempts until this transaction ends; before a lock of a period, which recording waits for."""
    with connection.cursor() as cursor:
        cursor.execute(_LOCK)


def take_late_back(month: date) -> None:
    """Let attempts that were late for a month count in it again, for it is opened; where they were, they go.

    Raises:
        InvalidRequest: A month that is closed has taken some of them.
    """
    late = AttemptRecording.objects.filter(late_for=month)
    closed = Period.objects.filter(state=PeriodState.CLOSED, month__in=late.values("carried_to"))
    taken = closed.order_by("-month").first()
    if taken is not None:
        raise InvalidRequest(f"{taken.month:%B %Y} is closed and has taken attempts of this month. Reopen it first.")
    found = list(late.only("provider", "provider_account", "carried_to"))
    late.update(late_for=None, carried_to=None)
    for provider, account, moved in {
        (each.provider, each.provider_account, place)
        for each in found
        for place in (each.carried_to, month)
        if place is not None
    }:
        _match_again(provider, account, moved)


def _match_again(provider: str, account: str, month: date) -> None:
    at = clock.now()
    invoice, _ = ProviderInvoice.objects.get_or_create(
        provider=provider,
        provider_account=account,
        period=month,
        defaults={"public_id": new_public_id("inv_", at), "created_at": at},
    )
    ProviderInvoice.objects.filter(pk=invoice.pk).update(**match_is_due(at))
    wake("billing.match_invoices")
