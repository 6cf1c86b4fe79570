"""The ledger as a beancount journal: opening balances, every entry, and the closing balances for its checker to prove.

Our credits are positive, beancount's debits are, so each amount changes its sign. Format:
https://beancount.github.io/docs/beancount_language_syntax.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from itertools import groupby
from typing import Any, Final

from psycopg import Connection

from billing.domain.cells import usd_cell
from billing.exports.scope import ExportScope
from billing.exports.snapshot import streamed

_ROOTS: Final = {
    "customer_wallet": "Liabilities",
    "customer_receivable": "Assets",
    "revenue_usage": "Income",
    "revenue_fee": "Income",
    "ceiling_credit": "Expenses",
    "cost_of_service": "Expenses",
    "provider_payable": "Liabilities",
    "top_up_clearing": "Assets",
    "adjustment": "Expenses",
    "write_off": "Expenses",
    "promotion": "Expenses",
    "breakage": "Income",
}
_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9-]+")

_BODY: Final = """
FROM billing_ledgerleg leg
JOIN billing_ledgertransaction header ON header.id = leg.transaction_id
JOIN billing_ledgeraccount account ON account.id = leg.account_id
WHERE account.book = 'customer'
"""


def counted(scope: ExportScope) -> tuple[str, dict[str, Any]]:
    """Give the body of the query of all legs within the scope, and its values."""
    conditions = ""
    if scope.since is not None:
        conditions += " AND header.effective_at >= %(since)s"
    if scope.until is not None:
        conditions += " AND header.effective_at < %(until)s"
    return _BODY + conditions, {"since": scope.since, "until": scope.until, "zone": scope.zone.key}


@dataclass(slots=True)
class Journal:
    """A journal; after all of its pieces were taken, its legs are counted and its balances known."""

    raw: Connection[Any]
    scope: ExportScope
    leg_count: int = 0
    debit_micro_usd: int = 0
    _balances: dict[str, int] = field(default_factory=dict)

    @property
    def totals(self) -> Mapping[str, Decimal]:
        """All debits; the credits are as much, because each entry's sum is zero."""
        return {"debit_usd": Decimal(usd_cell(self.debit_micro_usd))}

    def pieces(self) -> Iterator[tuple[str, int]]:
        """Give the text in pieces, each with how many legs are done."""
        names = self._names()
        first, last = self._days()
        title = f'option "title" "Lanehouse ledger, days in {self.scope.zone.key}"'
        opened = "".join(f"{first} open {name} USD\n" for name in sorted(names.values()))
        yield f'{title}\noption "operating_currency" "USD"\n\n{opened}\n{self._opening(names, first)}', 0
        for text in self._entries(names):
            yield text, self.leg_count
        after = last + timedelta(days=1)
        for code in sorted(names):
            yield f"{after} balance {names[code]} {_amount(self._balances.get(code, 0))}\n", self.leg_count

    def _names(self) -> dict[str, str]:
        """Give the journal's name of each account that has a leg before the end, by code; no two are the same."""
        query = f"SELECT DISTINCT account.code, account.kind {_BODY}"
        if self.scope.until is not None:
            query += " AND header.effective_at < %(until)s"
        names: dict[str, str] = {}
        for code, kind in sorted(self.raw.execute(query, {"until": self.scope.until}).fetchall()):
            name = ":".join([_ROOTS.get(kind, "Equity"), *map(_part, code.split(":"))])
            taken = set(names.values())
            names[code] = next(each for each in _versions(name) if each not in taken)
        return names

    def _days(self) -> tuple[date, date]:
        """Give the first and the last day, both included: the scope's, or those of the entries."""
        body, values = counted(self.scope)
        query = f"SELECT min(header.effective_at), max(header.effective_at) {body}"
        row = self.raw.execute(query, values).fetchone()
        assert row is not None, "an aggregate always answers"
        zone = self.scope.zone
        since = self.scope.since or row[0]
        until = self.scope.until - timedelta(microseconds=1) if self.scope.until else row[1]
        first = since.astimezone(zone).date() if since else date(2000, 1, 1)
        return first, max(until.astimezone(zone).date(), first) if until else first

    def _opening(self, names: Mapping[str, str], first: date) -> str:
        if self.scope.since is None:
            return ""
        query = f"""
            SELECT account.code, sum(leg.amount_micro_usd)::bigint {_BODY} AND header.effective_at < %(since)s
            GROUP BY account.code HAVING sum(leg.amount_micro_usd) <> 0 ORDER BY account.code COLLATE "C"
        """
        self._balances = dict(self.raw.execute(query, {"since": self.scope.since}).fetchall())
        lines = [f"  {names[code]} {_amount(balance)}\n" for code, balance in self._balances.items()]
        return f'{first} * "Opening balances"\n{"".join(lines)}\n' if lines else ""

    def _entries(self, names: Mapping[str, str]) -> Iterator[str]:
        body, values = counted(self.scope)
        query = f"""
            SELECT header.id, (header.effective_at AT TIME ZONE %(zone)s)::date, header.business_key, header.kind,
                   header.reference, account.code, leg.amount_micro_usd {body}
            ORDER BY header.effective_at, header.id, leg.leg_number
        """
        legs = (leg for some in streamed(self.raw, query, values) for leg in some)
        for _, entry in groupby(legs, key=lambda leg: leg[0]):
            yield self._entry(names, list(entry))

    def _entry(self, names: Mapping[str, str], legs: list[tuple[Any, ...]]) -> str:
        _, day, key, kind, reference, _, _ = legs[0]
        lines = [f"{day} * {_quoted(kind)} {_quoted(reference)}\n  entry: {_quoted(key)}\n"]
        for leg in legs:
            code, amount_micro_usd = leg[5], leg[6]
            self._balances[code] = self._balances.get(code, 0) + amount_micro_usd
            self.debit_micro_usd += max(-amount_micro_usd, 0)
            self.leg_count += 1
            lines.append(f"  {names[code]} {_amount(amount_micro_usd)}\n")
        return "".join(lines) + "\n"


def _versions(name: str) -> Iterator[str]:
    yield name
    for number in range(2, 1_000_000):
        yield f"{name}-{number}"


def _part(text: str) -> str:
    """Give a part of an account's name: letters, digits and hyphens, with a capital or a digit first."""
    part = _NOT_IN_A_NAME.sub("-", text).strip("-") or "X"
    return part[0].upper() + part[1:]


def _amount(credit_micro_usd: int) -> str:
    return f"{usd_cell(-credit_micro_usd)} USD"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{" ".join(escaped.split())}"'
