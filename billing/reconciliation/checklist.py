"""What has to be met before a month is closed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from django.db import connection
from django.db.models import Q

from billing.reconciliation.models import (
    UNDECIDED,
    Break,
    Bucket,
    FileState,
    InvoiceFile,
    MatchState,
    ProviderInvoice,
)
from billing.selectors import prove_ledger
from ground import clock

# What a provider gives late, and what is settled over midnight, is in by then.
GRACE: Final = timedelta(hours=24)
_ACCOUNTS = """
SELECT DISTINCT fact.provider, fact.provider_account FROM (
    SELECT provider, provider_account, min(job_id) AS job_id FROM attempt_fact
    WHERE completed_at >= %s AND completed_at < %s AND cost_pico_usd > 0 GROUP BY 1, 2
) fact LEFT JOIN billing_collectedjobfact terms ON terms.job_id = fact.job_id
WHERE terms.is_test IS NOT TRUE ORDER BY 1, 2
"""


# Invoices whose match does not count all that was recorded of their account and month, and came in time.
_BEHIND = """
SELECT count(*) FROM billing_providerinvoice invoice
LEFT JOIN billing_invoicefile file ON file.invoice_id = invoice.id AND file.state = 'read' AND file.has_money
CROSS JOIN LATERAL (SELECT coalesce(file.mapping ->> 'zone', 'UTC') AS zone) days
CROSS JOIN LATERAL (
    SELECT coalesce(sum(cost_pico_usd), 0) AS pico_usd FROM billing_attemptrecording recording
    WHERE recording.provider = invoice.provider AND recording.provider_account = invoice.provider_account
      AND NOT recording.is_test
      AND (recording.carried_to = invoice.period OR recording.late_for IS NULL
           AND recording.completed_at >= invoice.period::timestamp AT TIME ZONE days.zone
           AND recording.completed_at < (invoice.period + interval '1 month') AT TIME ZONE days.zone)
) recorded
WHERE invoice.period = %s AND invoice.matched_at IS NOT NULL AND invoice.match_state = 'idle'
  AND recorded.pico_usd <> invoice.ours_pico_usd
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One condition: ``said`` in words with its figures; ``filter_query`` narrows the list of what is unmet."""

    key: str
    said: str
    is_met: bool
    filter_query: str = ""


def month_span(month: date) -> tuple[datetime, datetime]:
    """Give a month's first instant and the one after its last, UTC."""
    following = (month + timedelta(days=32)).replace(day=1)
    return datetime.combine(month, time(), UTC), datetime.combine(following, time(), UTC)


def expected_accounts(month: date) -> list[tuple[str, str]]:
    """Give the (provider, account) pairs on which something of customers' was run in a month: each has an invoice."""
    with connection.cursor() as cursor:
        cursor.execute(_ACCOUNTS, list(month_span(month)))
        rows: list[tuple[str, str]] = cursor.fetchall()
    return rows


def checklist(month: date) -> list[Item]:
    """Give every condition of a close, in the order in which they are worked off. Not inside a transaction."""
    return [*conditions(month), ledger_item()]


def ledger_item() -> Item:
    """Give whether the ledger proves itself; a snapshot of its own, so not inside a transaction."""
    return Item(key="ledger", said="The ledger proves itself", is_met=prove_ledger().holds)


def conditions(month: date) -> list[Item]:
    """Give the conditions of the month's own rows; inside the transaction of a close too."""
    invoices = ProviderInvoice.objects.filter(period=month)
    billed = set(
        invoices.filter(files__has_money=True, files__state=FileState.READ).values_list("provider", "provider_account")
    )
    missing = [
        f"{provider} / {account}" for provider, account in expected_accounts(month) if (provider, account) not in billed
    ]
    files = InvoiceFile.objects.filter(invoice__period=month)
    incomplete = files.filter(Q(bad_line_count__gt=0) | ~Q(incomplete_reason=""), state=FileState.READ).count()
    unread = files.filter(state=FileState.UPLOADED).count()
    unmatched = invoices.filter(~Q(match_state=MatchState.IDLE) | Q(matched_at=None)).count() + _behind_count(month)
    undecided = Break.objects.filter(invoice__period=month, state__in=UNDECIDED).count()
    waiting = Bucket.objects.filter(invoice__period=month, state="waiting").count()
    query = f"period={month:%Y-%m}"
    return [
        Item(key="ended", said="The month is over by a day", is_met=clock.now() >= month_span(month)[1] + GRACE),
        Item(
            key="invoices",
            said=f"No invoice of {', '.join(missing)}" if missing else "Every account in use has its invoice",
            is_met=not missing,
        ),
        Item(key="read", said=_counted(unread, "file", "to be read") or "Every file is read", is_met=not unread),
        Item(
            key="complete",
            said=_counted(incomplete, "file", "incomplete or with bad lines")
            or "Every file proves that it is complete",
            is_met=not incomplete,
        ),
        Item(
            key="matched",
            said=_counted(unmatched, "invoice", "to be matched") or "Every invoice is matched",
            is_met=not unmatched,
        ),
        Item(
            key="breaks",
            said=_counted(undecided, "break", "undecided") or "Every break is decided",
            is_met=not undecided,
            filter_query=f"?{query}&state=undecided",
        ),
        Item(
            key="waiting",
            said=_counted(waiting, "place", "that the provider may still bill") or "Nothing waits for the provider",
            is_met=not waiting,
        ),
    ]


def _behind_count(month: date) -> int:
    with connection.cursor() as cursor:
        cursor.execute(_BEHIND, [month])
        row = cursor.fetchone()
    assert row is not None, "an aggregate gives a row"
    return int(row[0])


def _counted(count: int, noun: str, rest: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'} {rest}" if count else ""
