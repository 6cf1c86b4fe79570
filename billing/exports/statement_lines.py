"""The lines of statements, in SQL."""

from __future__ import annotations

from billing.exports.scope import ExportScope

# One wallet after the other: what it began with, each movement in the order of booking, what it ended with. Opening and
# closing are sums of their own, not the first and the last running balance, so that the lines between prove something.
_STATEMENT_LINES = """(
    WITH wallet AS (
        SELECT organisation.public_id AS organisation_id, account.id AS account_id
        FROM accounts_organisation organisation
        LEFT JOIN billing_ledgeraccount account
            ON account.organisation_id = organisation.id AND account.kind = 'customer_wallet'
        WHERE {whose}
    ), leg AS NOT MATERIALIZED (
        SELECT wallet.organisation_id, leg.id, leg.transaction_id, leg.amount_micro_usd, header.booked_at
        FROM wallet
        JOIN billing_ledgerleg leg ON leg.account_id = wallet.account_id
        JOIN billing_ledgertransaction header ON header.id = leg.transaction_id
        WHERE %(until)s::timestamptz IS NULL OR header.booked_at < %(until)s::timestamptz
    ), edge AS (
        SELECT wallet.organisation_id, coalesce(sums.opening_micro_usd, 0) AS opening_micro_usd,
               coalesce(sums.closing_micro_usd, 0) AS closing_micro_usd
        FROM wallet LEFT JOIN (
            SELECT organisation_id, sum(amount_micro_usd) AS closing_micro_usd,
                   sum(amount_micro_usd) FILTER (WHERE booked_at < %(since)s::timestamptz) AS opening_micro_usd
            FROM leg GROUP BY organisation_id
        ) AS sums USING (organisation_id)
    )
    SELECT organisation_id, 0 AS place, 'opening' AS edge, %(since)s::timestamptz AS at, NULL::bigint AS leg_id,
           NULL::bigint AS transaction_id, NULL::bigint AS amount_micro_usd, opening_micro_usd AS balance_micro_usd
    FROM edge
    UNION ALL
    SELECT organisation_id, 1, NULL, booked_at, id, transaction_id, amount_micro_usd, balance_micro_usd
    FROM (
        SELECT leg.*, sum(amount_micro_usd) OVER (PARTITION BY organisation_id ORDER BY booked_at, id)
                   AS balance_micro_usd
        FROM leg
    ) AS movement
    WHERE %(since)s::timestamptz IS NULL OR booked_at >= %(since)s::timestamptz
    UNION ALL
    SELECT organisation_id, 2, 'closing', %(until)s::timestamptz, NULL, NULL, NULL, closing_micro_usd FROM edge
) AS line
LEFT JOIN billing_ledgertransaction header ON header.id = line.transaction_id
LEFT JOIN billing_receipt receipt ON receipt.transaction_id = header.id"""


def statement_lines(scope: ExportScope) -> str:
    """Give the source ``line`` of a scope's statements, with the entry (``header``) and ``receipt`` of each movement.

    Its values are ``organisation_id`` or, for the house, the filter ``organisation``; ``since`` and ``until``.
    """
    if scope.organisation_id is not None:
        return _STATEMENT_LINES.format(whose="organisation.id = %(organisation_id)s")
    chosen = " AND organisation.public_id = %(organisation)s" if "organisation" in scope.filters else ""
    return _STATEMENT_LINES.format(whose=f"organisation.kind = 'customer'{chosen}")
