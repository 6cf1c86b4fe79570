"""An account's statement as a CSV file."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from django.http import StreamingHttpResponse

from accounts.audit import record_reading
from billing.books.selectors import AccountStatement, account_statement, cursor_of
from billing.domain.cells import usd_cell
from billing.models import LedgerAccount
from ground.cells import csv_lines, text_cell

_COLUMNS = (
    "booked_at_utc",
    "effective_at_utc",
    "entry",
    "kind",
    "reference",
    "debit_usd",
    "credit_usd",
    "balance_usd",
    "balance_side",
)


def statement_csv(account: LedgerAccount, since: datetime, until: datetime, name: str) -> StreamingHttpResponse:
    """Give an account's statement as a CSV file: opening, each movement, closing; a credit balance is positive."""
    record_reading("ledger.statement_downloaded", object_type="account", object_id=account.code)
    return StreamingHttpResponse(
        csv_lines(_COLUMNS, _cells(account, since, until)),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _cells(account: LedgerAccount, since: datetime, until: datetime) -> Iterator[list[str]]:
    after: str | None = None
    while True:
        page: AccountStatement = account_statement(account, since=since, until=until, after=after, limit=1_000)
        if after is None:
            yield [_stamp(since), "", "", "opening", "", "", "", *_balance(page.opening_micro_usd)]
        for movement in page.movements:
            leg, entry = movement.leg, movement.leg.transaction
            yield [
                _stamp(entry.booked_at),
                _stamp(entry.effective_at),
                text_cell(entry.business_key),
                entry.kind,
                text_cell(entry.reference),
                usd_cell(-leg.amount_micro_usd) if leg.amount_micro_usd < 0 else "",
                usd_cell(leg.amount_micro_usd) if leg.amount_micro_usd >= 0 else "",
                *_balance(movement.balance_micro_usd),
            ]
        if not page.has_more:
            yield [_stamp(until), "", "", "closing", "", "", "", *_balance(page.closing_micro_usd)]
            return
        after = cursor_of(page.movements[-1].leg)


def _balance(micro_usd: int) -> list[str]:
    return [usd_cell(micro_usd), "Cr" if micro_usd > 0 else "Dr" if micro_usd < 0 else ""]


def _stamp(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
