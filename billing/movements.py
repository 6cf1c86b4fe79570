"""Reads of a wallet's movements: its statement."""

from __future__ import annotations

from django.db import connection

from accounts.models import Organisation
from billing.domain.records import StatementLine
from billing.models import AccountKind, LedgerLeg
from ground.errors import NotFound
from ground.filters import EVER, Span

# Legs of one wallet are written under its lock, so their ids are in the order of the bookings. A line's balance is what
# is posted now less all that came later: the first page reads as many legs as it shows, however old the wallet is.
_STATEMENT = """
WITH wallet AS (
    SELECT account.id FROM billing_ledgeraccount account
    WHERE account.organisation_id = %(organisation_id)s AND account.kind = 'customer_wallet'
), page AS MATERIALIZED (
    SELECT leg.id, leg.amount_micro_usd, header.business_key, header.kind, header.reference, header.booked_at,
           header.effective_at, receipt.public_id AS receipt_public_id, receipt.total_micro_usd
    FROM billing_ledgerleg leg
    JOIN billing_ledgertransaction header ON header.id = leg.transaction_id
    LEFT JOIN billing_receipt receipt ON receipt.transaction_id = header.id
    WHERE leg.account_id = (SELECT id FROM wallet)
      AND (%(before_leg)s::bigint IS NULL OR leg.id < %(before_leg)s)
      AND (%(kind)s = '' OR header.kind = %(kind)s)
      AND (%(since)s::timestamptz IS NULL OR header.booked_at >= %(since)s)
      AND (%(until)s::timestamptz IS NULL OR header.booked_at < %(until)s)
    ORDER BY leg.id DESC LIMIT %(line_count)s
), later AS (
    SELECT leg.id, sum(leg.amount_micro_usd) OVER (ORDER BY leg.id DESC) - leg.amount_micro_usd AS later_micro_usd
    FROM billing_ledgerleg leg
    WHERE leg.account_id = (SELECT id FROM wallet) AND leg.id >= (SELECT min(id) FROM page)
)
SELECT page.business_key, page.kind, page.reference, page.booked_at, page.effective_at, page.receipt_public_id,
       page.total_micro_usd, page.amount_micro_usd, (balance.posted_micro_usd - later.later_micro_usd)::bigint
FROM page JOIN later ON later.id = page.id
JOIN billing_customerbalance balance ON balance.organisation_id = %(organisation_id)s
ORDER BY page.id DESC
"""


def statement(
    organisation: Organisation, *, after: str | None, limit: int, kind: str = "", span: Span = EVER
) -> tuple[list[StatementLine], bool]:
    """Give up to ``limit`` movements of an organisation's wallet, newest first, and whether there are more.

    Only legs of the wallet's own account; the running balance counts every movement, shown or not.

    Args:
        organisation: Whose wallet it is.
        after: ``key`` of the last line of the page before.
        limit: How many lines a page has.
        kind: A :class:`TransactionKind`; empty for all.
        span: When they were booked.

    Raises:
        NotFound: ``after`` is no movement of this wallet.
    """
    values = {
        "organisation_id": organisation.pk,
        "before_leg": None if after is None else _leg_of(organisation, after),
        "kind": kind,
        "since": span.since,
        "until": span.until,
        "line_count": limit + 1,
    }
    with connection.cursor() as cursor:
        cursor.execute(_STATEMENT, values)
        found = [StatementLine(**dict(zip(StatementLine.__slots__, row, strict=True))) for row in cursor.fetchall()]
    return found[:limit], len(found) > limit


def _leg_of(organisation: Organisation, key: str) -> int:
    legs = LedgerLeg.objects.filter(
        account__organisation=organisation,
        account__kind=AccountKind.CUSTOMER_WALLET,
        transaction__organisation=organisation,
        transaction__business_key=key,
    )
    leg_id = None if "\0" in key else legs.values_list("pk", flat=True).first()
    if leg_id is None:
        raise NotFound("There is no such movement.", param="after")
    return leg_id
