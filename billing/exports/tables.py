"""Tables that are exported as they are, such as the ledger. One query each, its order and control totals."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from billing.exports.columns import Column, ColumnKind
from billing.exports.scope import ExportKind, ExportScope
from billing.exports.statement_lines import statement_lines
from billing.reconciliation.models import UNDECIDED

# What has a meaning in a pattern.
_LIKE = re.compile(r"[\\%_]")
_RECEIPT_STATES = {
    "final": "NOT EXISTS",
    "credited": "EXISTS",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlColumn(Column):
    """A column and the SQL that gives it; amounts as integers of ``per_usd`` to the dollar, by their kind."""

    sql: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A query in parts. ``totals`` are named sums, in SQL that gives USD."""

    columns: tuple[SqlColumn, ...]
    source: str
    conditions: tuple[str, ...]
    order: str
    totals: Mapping[str, str]
    values: Mapping[str, Any]

    @property
    def body(self) -> str:
        """What follows the columns, without the order."""
        return f"FROM {self.source} WHERE {' AND '.join(self.conditions) or 'true'}"


def table_of(scope: ExportScope) -> Table:
    """Give the query of a kind that is a table."""
    makers = {
        ExportKind.LEDGER: _ledger,
        ExportKind.USAGE: _usage,
        ExportKind.RECEIPTS: _receipts,
        ExportKind.STATEMENTS: _statements,
        ExportKind.BREAKS: _breaks,
    }
    return makers[scope.kind](scope)


def usd(sql: str, places: int = 6) -> str:
    """Give SQL of an integer of micro-USD, or of 10 to the minus ``places``, as numeric USD with that many decimals."""
    return f"(({sql}) * 0.{'0' * (places - 1)}1)::numeric(38, {places})"


def _text(name: str, sql: str) -> SqlColumn:
    return SqlColumn(name=name, kind=ColumnKind.TEXT, sql=sql)


def _integer(name: str, sql: str) -> SqlColumn:
    return SqlColumn(name=name, kind=ColumnKind.INTEGER, sql=sql)


def _usd(name: str, sql: str) -> SqlColumn:
    return SqlColumn(name=name, kind=ColumnKind.USD, sql=usd(sql))


def _exact_usd(name: str, sql: str) -> SqlColumn:
    return SqlColumn(name=name, kind=ColumnKind.EXACT_USD, sql=usd(sql, 12))


def _instants(name: str, sql: str, scope: ExportScope) -> tuple[SqlColumn, SqlColumn]:
    """Give an instant in UTC, and as the clocks of the export's zone show it, which the name says."""
    local = f"to_char({sql} AT TIME ZONE %(zone)s, 'YYYY-MM-DD HH24:MI:SS')"
    return (
        SqlColumn(name=f"{name}_utc", kind=ColumnKind.INSTANT, sql=sql),
        _text(f"{name} {scope.zone.key}", local),
    )


def _made(
    scope: ExportScope,
    columns: tuple[SqlColumn, ...],
    source: str,
    conditions: Mapping[str, str],
    order: str,
    totals: Mapping[str, str],
) -> Table:
    """Put a table together: of the conditions, those whose name the scope has a value for."""
    values = {
        "organisation_id": scope.organisation_id,
        "since": scope.since,
        "until": scope.until,
        "zone": scope.zone.key,
        "book": "customer",
        **scope.filters,
    }
    if "text" in values:
        escaped = _LIKE.sub(r"\\\g<0>", str(values["text"]))
        values["text_like"] = f"%{escaped}%"
    return Table(
        columns=columns,
        source=source,
        conditions=tuple(sql for name, sql in conditions.items() if name == "" or values.get(name) is not None),
        order=order,
        totals=totals,
        values=values,
    )


def _ledger(scope: ExportScope) -> Table:
    return _ledger_of_the_house(scope) if scope.organisation_id is None else _wallet_ledger(scope)


def _wallet_ledger(scope: ExportScope) -> Table:
    """Give a wallet's movements with their running balance, as its page shows them."""
    return _made(
        scope,
        (
            _text("entry", "header.business_key"),
            *_instants("booked_at", "header.booked_at", scope),
            SqlColumn(name="effective_at_utc", kind=ColumnKind.INSTANT, sql="header.effective_at"),
            _text("kind", "header.kind"),
            _text("reference", "header.reference"),
            _text("receipt_id", "receipt.public_id"),
            _usd("amount_usd", "leg.amount_micro_usd"),
            _usd("balance_usd", "leg.balance_micro_usd"),
        ),
        """(
            SELECT leg.id, leg.transaction_id, leg.amount_micro_usd,
                   sum(leg.amount_micro_usd) OVER (ORDER BY leg.id) AS balance_micro_usd
            FROM billing_ledgerleg leg JOIN billing_ledgeraccount account ON account.id = leg.account_id
            WHERE account.organisation_id = %(organisation_id)s AND account.kind = 'customer_wallet'
        ) AS leg
        JOIN billing_ledgertransaction header ON header.id = leg.transaction_id
        LEFT JOIN billing_receipt receipt ON receipt.transaction_id = header.id""",
        {
            "since": "header.booked_at >= %(since)s",
            "until": "header.booked_at < %(until)s",
            "kind": "header.kind = %(kind)s",
        },
        "leg.id",
        {"amount_usd": usd("sum(leg.amount_micro_usd)")},
    )


def _ledger_of_the_house(scope: ExportScope) -> Table:
    """Give every leg of a book, the customers' unless play money's is asked for; debit and credit apart."""
    debit = "CASE WHEN leg.amount_micro_usd < 0 THEN -leg.amount_micro_usd END"
    credit = "CASE WHEN leg.amount_micro_usd >= 0 THEN leg.amount_micro_usd END"
    return _made(
        scope,
        (
            _text("entry", "header.business_key"),
            _integer("leg", "leg.leg_number"),
            *_instants("booked_at", "header.booked_at", scope),
            SqlColumn(name="effective_at_utc", kind=ColumnKind.INSTANT, sql="header.effective_at"),
            _text("kind", "header.kind"),
            _text("organisation_id", "organisation.public_id"),
            _text("account", "account.code"),
            _text("reference", "header.reference"),
            _usd("debit_usd", debit),
            _usd("credit_usd", credit),
        ),
        """billing_ledgerleg leg
        JOIN billing_ledgertransaction header ON header.id = leg.transaction_id
        JOIN billing_ledgeraccount account ON account.id = leg.account_id
        LEFT JOIN accounts_organisation organisation ON organisation.id = header.organisation_id""",
        {
            "": "account.book = %(book)s",
            "text": """(organisation.public_id = %(text)s OR organisation.slug = %(text)s
                OR header.reference ILIKE %(text_like)s OR header.business_key = %(text)s)""",
            "account_kind": "account.kind = %(account_kind)s",
            "least_micro_usd": "abs(leg.amount_micro_usd) >= %(least_micro_usd)s::bigint",
            "most_micro_usd": "abs(leg.amount_micro_usd) <= %(most_micro_usd)s::bigint",
            "since": "header.booked_at >= %(since)s",
            "until": "header.booked_at < %(until)s",
            "kind": "header.kind = %(kind)s",
            "organisation": "organisation.public_id = %(organisation)s",
            "account": "(account.code = %(account)s OR starts_with(account.code, %(account)s || ':'))",
        },
        "leg.id",
        {"debit_usd": usd(f"sum({debit})"), "credit_usd": usd(f"sum({credit})")},
    )


def _usage(scope: ExportScope) -> Table:
    return _made(
        scope,
        (
            _text("organisation_id", "organisation.public_id"),
            _text("batch_id", "fact.batch_public_id"),
            *_instants("settled_at", "fact.settled_at", scope),
            _text("api_key_id", "key.public_id"),
            _text("model", "fact.model_slug"),
            _text("lane_id", "fact.lane_id"),
            _integer("requests", "fact.request_count"),
            _integer("input_tokens", "fact.input_tokens"),
            _integer("cached_input_tokens", "fact.cached_input_tokens"),
            _integer("cache_write_tokens", "fact.cache_write_tokens"),
            _integer("output_tokens", "fact.output_tokens"),
            _usd("usage_charge_usd", "fact.usage_charge_micro_usd"),
            _usd("fee_usd", "fact.fee_micro_usd"),
            _usd("charge_usd", "fact.usage_charge_micro_usd + fact.fee_micro_usd"),
        ),
        """usage_fact fact
        JOIN accounts_organisation organisation ON organisation.id = fact.organisation_id
        LEFT JOIN accounts_apikey key ON key.id = fact.api_key_id""",
        {
            **_whose("fact", scope),
            "since": "fact.settled_at >= %(since)s"
            " AND fact.bucket_at >= date_bin('15 minutes', %(since)s, timestamptz '2000-01-01 00:00:00+00')",
            "until": "fact.settled_at < %(until)s AND fact.bucket_at < %(until)s",
            "model": "fact.model_slug = %(model)s",
            "lane": "fact.lane_id = %(lane)s",
            "key": "key.public_id = %(key)s",
        },
        'fact.settled_at, fact.receipt_id, fact.model_slug COLLATE "C", fact.lane_id COLLATE "C"',
        {"charge_usd": usd("sum(fact.usage_charge_micro_usd + fact.fee_micro_usd)")},
    )


def _receipts(scope: ExportScope) -> Table:
    """Give receipts line by line."""
    state = _RECEIPT_STATES.get(scope.filters.get("state", ""))
    credits_of_it = (
        "SELECT FROM billing_receiptline own WHERE own.receipt_id = receipt.id AND own.kind = 'ceiling_credit'"
    )
    return _made(
        scope,
        (
            _text("organisation_id", "organisation.public_id"),
            _text("receipt_id", "receipt.public_id"),
            _text("batch_id", "receipt.batch_public_id"),
            *_instants("settled_at", "receipt.settled_at", scope),
            _integer("line", "line.line_number"),
            _text("lane_id", "line.lane_id"),
            _text("model", "line.model_slug"),
            _text("kind", "line.kind"),
            _integer("tokens", "line.tokens"),
            _usd("usd_per_1m_tokens", "line.rate_micro_usd_per_mtok"),
            _usd("amount_usd", "line.amount_micro_usd"),
            SqlColumn(name="exact_usd", kind=ColumnKind.EXACT_USD, sql=usd("line.exact_pico_usd", 12)),
        ),
        """billing_receipt receipt
        JOIN accounts_organisation organisation ON organisation.id = receipt.organisation_id
        JOIN billing_receiptline line ON line.receipt_id = receipt.id""",
        {
            **_whose("receipt", scope),
            "since": "receipt.settled_at >= %(since)s",
            "until": "receipt.settled_at < %(until)s",
            "text": "(receipt.public_id ILIKE %(text_like)s OR receipt.batch_public_id ILIKE %(text_like)s)",
            "state": f"{state} ({credits_of_it})" if state else "true",
        },
        "receipt.settled_at, receipt.id, line.line_number",
        {"amount_usd": usd("sum(line.amount_micro_usd)")},
    )


def _statements(scope: ExportScope) -> Table:
    """Give the statements of a span as the page of a month shows them; for the house, of all customers' wallets.

    Opening stands at the first instant of the span, closing at the first one after it; without days, at none.
    """
    debit = "CASE WHEN line.amount_micro_usd < 0 THEN -line.amount_micro_usd END"
    credit = "CASE WHEN line.amount_micro_usd >= 0 THEN line.amount_micro_usd END"
    return _made(
        scope,
        (
            _text("organisation_id", "line.organisation_id"),
            *_instants("booked_at", "line.at", scope),
            SqlColumn(name="effective_at_utc", kind=ColumnKind.INSTANT, sql="header.effective_at"),
            _text("entry", "header.business_key"),
            _text("kind", "coalesce(line.edge, header.kind)"),
            _text("reference", "header.reference"),
            _text("receipt_id", "receipt.public_id"),
            _usd("debit_usd", debit),
            _usd("credit_usd", credit),
            _usd("balance_usd", "line.balance_micro_usd"),
        ),
        statement_lines(scope),
        {},
        'line.organisation_id COLLATE "C", line.place, line.at, line.leg_id',
        {
            "opening_usd": usd("sum(line.balance_micro_usd) FILTER (WHERE line.edge = 'opening')"),
            "credit_usd": usd(f"sum({credit})"),
            "debit_usd": usd(f"sum({debit})"),
            "closing_usd": usd("sum(line.balance_micro_usd) FILTER (WHERE line.edge = 'closing')"),
        },
    )


def _breaks(scope: ExportScope) -> Table:
    """Give the breaks of provider invoices; their days are the providers' own."""
    difference = "of_break.difference_pico_usd"
    undecided = ", ".join(f"'{state.value}'" for state in UNDECIDED)
    is_undecided = scope.filters.get("state") == "undecided"
    return _made(
        scope,
        (
            _text("break_id", "of_break.public_id"),
            _text("invoice_id", "invoice.public_id"),
            _text("provider", "invoice.provider"),
            _text("provider_account", "invoice.provider_account"),
            _text("period", "to_char(invoice.period, 'YYYY-MM')"),
            _text("kind", "of_break.kind"),
            _text("said", "of_break.said"),
            _text("day", "of_break.day::text"),
            _text("model", "of_break.model"),
            _text("tier", "of_break.tier"),
            _text("token_class", "of_break.token_class"),
            _text("project", "of_break.project"),
            _integer("invoiced_quantity", "of_break.invoiced_quantity"),
            _exact_usd("invoiced_usd", "of_break.invoiced_pico_usd"),
            _integer("ours_quantity", "of_break.ours_quantity"),
            _exact_usd("ours_usd", "of_break.ours_pico_usd"),
            _exact_usd("difference_usd", difference),
            _text("state", "of_break.state"),
            _text("owner", "owner.name"),
            _text("reason", "of_break.reason"),
            _text("entry", "of_break.entry_key"),
            *_instants("opened_at", "of_break.opened_at", scope),
            SqlColumn(name="decided_at_utc", kind=ColumnKind.INSTANT, sql="of_break.decided_at"),
        ),
        """billing_break of_break
        JOIN billing_providerinvoice invoice ON invoice.id = of_break.invoice_id
        LEFT JOIN accounts_user owner ON owner.id = of_break.owner_id""",
        {
            "": "true" if scope.filters.get("state") else "of_break.state <> 'cleared'",
            "state": f"of_break.state IN ({undecided})" if is_undecided else "of_break.state = %(state)s",
            "kind": "of_break.kind = %(kind)s",
            "provider": "invoice.provider = %(provider)s",
            "owner": "coalesce(of_break.owner_id::text, 'nobody') = %(owner)s",
            "period": "invoice.period = (%(period)s || '-01')::date",
            "invoice": "invoice.public_id = %(invoice)s",
            "min_difference": f"abs({difference}) >= %(min_difference)s::numeric * 1000000000000",
            "since": "of_break.day >= (%(since)s AT TIME ZONE %(zone)s)::date",
            "until": "of_break.day < (%(until)s AT TIME ZONE %(zone)s)::date",
        },
        "of_break.opened_at, of_break.id",
        {
            "invoiced_usd": usd("sum(of_break.invoiced_pico_usd)", 12),
            "ours_usd": usd("sum(of_break.ours_pico_usd)", 12),
            "difference_usd": usd(f"sum({difference})", 12),
        },
    )


def _whose(row: str, scope: ExportScope) -> dict[str, str]:
    """Give the conditions of whose rows they are: one organisation's, or those of the house's customers."""
    if scope.organisation_id is not None:
        return {"organisation_id": f"{row}.organisation_id = %(organisation_id)s"}
    return {"": "organisation.kind = 'customer'", "organisation": "organisation.public_id = %(organisation)s"}
