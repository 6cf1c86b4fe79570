"""Reads of all customers' wallets, for finance: one by one, and the proof that the ledger's accounts say the same."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Sum

from accounts.models import Organisation
from billing.books.selectors import Axis, accounts_of, balances_as_of
from billing.models import AccountKind, CustomerBalance
from ground import clock
from ground.errors import NotFound


@dataclass(frozen=True, slots=True, kw_only=True)
class WalletRow:
    """A customer's money now, micro-USD. ``liability`` is what the house owes them: all that has not expired."""

    organisation: Organisation
    available_micro_usd: int
    held_micro_usd: int
    settled_micro_usd: int
    liability_micro_usd: int
    receivable_micro_usd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WalletProof:
    """The sums of all wallets of a book, and what the ledger's accounts of them say; equal, or something is wrong."""

    wallet_sum_micro_usd: int
    ledger_wallet_micro_usd: int
    receivable_sum_micro_usd: int
    ledger_receivable_micro_usd: int

    @property
    def holds(self) -> bool:
        """Say whether they agree."""
        return (self.wallet_sum_micro_usd, self.receivable_sum_micro_usd) == (
            self.ledger_wallet_micro_usd,
            self.ledger_receivable_micro_usd,
        )


_EACH_WALLET = """
SELECT organisation.*, billing_available_micro_usd(organisation.id) AS available_micro_usd,
       billing_held_micro_usd(organisation.id) AS held_micro_usd,
       coalesce(balance.receivable_micro_usd, 0) AS receivable_micro_usd,
       coalesce(balance.floor_micro_usd, 0) AS floor_micro_usd,
       (SELECT coalesce(sum(total_micro_usd), 0)::bigint FROM billing_receipt receipt
        WHERE receipt.organisation_id = organisation.id) AS settled_micro_usd
FROM accounts_organisation organisation
LEFT JOIN billing_customerbalance balance ON balance.organisation_id = organisation.id
"""
_ONE_WALLET = _EACH_WALLET + "WHERE organisation.id = %(id)s"
_WALLETS = (
    _EACH_WALLET
    + """
WHERE organisation.kind = 'customer' AND (organisation.name, organisation.id) > (%(name)s, %(id)s)
  AND (%(text)s = '' OR organisation.public_id = %(text)s OR organisation.slug = %(text)s
       OR organisation.name ILIKE '%%' || %(pattern)s || '%%')
  AND (NOT %(owing)s OR balance.receivable_micro_usd > 0)
  AND (%(below)s::bigint IS NULL OR billing_available_micro_usd(organisation.id) < %(below)s)
ORDER BY organisation.name, organisation.id LIMIT %(limit)s
"""
)


def wallet_of(organisation: Organisation) -> WalletRow:
    """Give one customer's wallet."""
    (found,) = Organisation.objects.raw(_ONE_WALLET, {"id": organisation.pk})
    return _wallet_row(found)


def wallet_page(
    *, after: str | None, limit: int, text: str = "", below_micro_usd: int | None = None, is_owing: bool = False
) -> tuple[list[WalletRow], bool]:
    """Give up to ``limit`` customers' wallets by name, and whether there are more.

    Args:
        after: Public id of the last customer of the page before.
        limit: How many a page has.
        text: A customer's id, namespace, or part of its name.
        below_micro_usd: Only those with less available.
        is_owing: Only those who owe something.

    Raises:
        NotFound: ``after`` is no customer.
    """
    last = Organisation.objects.filter(public_id=after).first() if after is not None else None
    if after is not None and last is None:
        raise NotFound("There is no such customer.", param="after")
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    values: dict[str, Any] = {
        "name": last.name if last else "",
        "id": last.pk if last else 0,
        "text": text,
        "pattern": escaped,
        "below": below_micro_usd,
        "owing": is_owing,
        "limit": limit + 1,
    }
    rows = [_wallet_row(found) for found in Organisation.objects.raw(_WALLETS, values)]
    return rows[:limit], len(rows) > limit


def _wallet_row(found: Any) -> WalletRow:  # noqa: ANN401 -- a raw query's row has further columns
    return WalletRow(
        organisation=found,
        available_micro_usd=found.available_micro_usd,
        held_micro_usd=found.held_micro_usd,
        settled_micro_usd=found.settled_micro_usd,
        liability_micro_usd=found.available_micro_usd + found.held_micro_usd + found.floor_micro_usd,
        receivable_micro_usd=found.receivable_micro_usd,
    )


def wallet_proof(book: str = "customer") -> WalletProof:
    """Give the proof that the wallets of a book are what the ledger's accounts say, now."""
    sums = CustomerBalance.objects.filter(organisation__kind=book).aggregate(
        posted=Sum("posted_micro_usd"), receivable=Sum("receivable_micro_usd")
    )
    accounts = accounts_of(book, (AccountKind.CUSTOMER_WALLET, AccountKind.CUSTOMER_RECEIVABLE))
    # By booking, so that nothing is left out, whatever the two clocks say.
    balances = balances_as_of(clock.now() + timedelta(days=1), Axis.BOOKED, accounts)
    ledger = dict.fromkeys((AccountKind.CUSTOMER_WALLET, AccountKind.CUSTOMER_RECEIVABLE), 0)
    for account in accounts:
        ledger[AccountKind(account.kind)] += balances[account.pk]
    return WalletProof(
        wallet_sum_micro_usd=int(sums["posted"] or 0),
        ledger_wallet_micro_usd=ledger[AccountKind.CUSTOMER_WALLET],
        receivable_sum_micro_usd=int(sums["receivable"] or 0),
        ledger_receivable_micro_usd=-ledger[AccountKind.CUSTOMER_RECEIVABLE],
    )
