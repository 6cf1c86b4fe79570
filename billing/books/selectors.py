"""Reads of the books: accounts, entries, statements, wallets, balances at an instant."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import F, Func, Q, QuerySet, Sum
from django.db.models.fields import BigIntegerField
from django.db.models.lookups import GreaterThanOrEqual, LessThanOrEqual

from accounts.models import Organisation
from billing.database import call_set
from billing.models import AccountKind, CustomerBalance, LedgerAccount, LedgerLeg, LedgerTransaction
from ground import clock
from ground.errors import NotFound
from ground.filters import EVER, Span

STATEMENT_ROWS: Final = 200


class Axis(enum.StrEnum):
    """Which time of an entry counts: when it was written down, or when what it tells of was so."""

    BOOKED = "booked"
    EFFECTIVE = "effective"


# A debit balance is what these normally have; the others have a credit balance.
DEBIT_KINDS: Final = frozenset(
    {
        AccountKind.CUSTOMER_RECEIVABLE,
        AccountKind.CEILING_CREDIT,
        AccountKind.COST_OF_SERVICE,
        AccountKind.TOP_UP_CLEARING,
        AccountKind.WRITE_OFF,
        AccountKind.PROMOTION,
    }
)


def balances_as_of(at: datetime, axis: Axis, accounts: Sequence[LedgerAccount] | None = None) -> dict[int, int]:
    """Give {account's key: balance in micro-USD, credit positive} at an instant, inclusive.

    From the last snapshot before it; equal to the sum of all legs up to it.

    Args:
        at: The instant (aware).
        axis: Which time of the entries counts.
        accounts: Which accounts; None for all.
    """
    keys = None if accounts is None else [account.pk for account in accounts]
    return dict(call_set("billing_balances_as_of", [keys, at, axis.value], "bigint[] timestamptz text"))


@dataclass(frozen=True, slots=True, kw_only=True)
class LegChoice:
    """Which legs are asked for; what is empty chooses nothing."""

    book: str = "customer"
    account_kind: str = ""
    account: LedgerAccount | None = None
    kind: str = ""
    text: str = ""
    least_micro_usd: int | None = None
    most_micro_usd: int | None = None
    span: Span = EVER

    def legs(self) -> QuerySet[LedgerLeg]:
        """Give the legs, newest first, by the time of booking."""
        found = LedgerLeg.objects.select_related("account", "transaction", "transaction__organisation")
        found = found.filter(account__book=self.book).order_by("-pk")
        if self.account is not None:
            found = found.filter(account=self.account)
        if self.account_kind:
            found = found.filter(account__kind=self.account_kind)
        if self.kind:
            found = found.filter(transaction__kind=self.kind)
        if self.text:
            found = found.filter(_says(self.text))
        size_micro_usd = Func(F("amount_micro_usd"), function="abs", output_field=BigIntegerField())
        if self.least_micro_usd is not None:
            found = found.filter(GreaterThanOrEqual(size_micro_usd, self.least_micro_usd))
        if self.most_micro_usd is not None:
            found = found.filter(LessThanOrEqual(size_micro_usd, self.most_micro_usd))
        if self.span.since is not None:
            found = found.filter(transaction__booked_at__gte=self.span.since)
        if self.span.until is not None:
            found = found.filter(transaction__booked_at__lt=self.span.until)
        return found


def _says(text: str) -> Q:
    organisation = Q(transaction__organisation__public_id=text) | Q(transaction__organisation__slug=text)
    return organisation | Q(transaction__reference__icontains=text) | Q(transaction__business_key=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class LegPage:
    """A page of legs, and the sums of all that were chosen (both positive)."""

    legs: tuple[LedgerLeg, ...]
    has_more: bool
    debit_micro_usd: int
    credit_micro_usd: int


def leg_page(choice: LegChoice, *, after: str | None, limit: int) -> LegPage:
    """Give up to ``limit`` legs, newest first; the sums count every leg of the choice, on all pages.

    Raises:
        NotFound: ``after`` is no cursor of this list.
    """
    found = choice.legs()
    sums = found.order_by().aggregate(
        debit=Sum("amount_micro_usd", filter=Q(amount_micro_usd__lt=0)),
        credit=Sum("amount_micro_usd", filter=Q(amount_micro_usd__gt=0)),
    )
    if after is not None:
        found = found.filter(pk__lt=_leg_key(after))
    page = tuple(found[: limit + 1])
    return LegPage(
        legs=page[:limit],
        has_more=len(page) > limit,
        debit_micro_usd=-int(sums["debit"] or 0),
        credit_micro_usd=int(sums["credit"] or 0),
    )


def cursor_of(leg: LedgerLeg) -> str:
    """Give the cursor that stands for a leg: its entry's key and its place there."""
    return f"{leg.transaction.business_key}#{leg.leg_number}"


def _leg_key(after: str) -> int:
    key, _, number = after.rpartition("#")
    legs = (
        LedgerLeg.objects.filter(transaction__business_key=key, leg_number=int(number)) if number.isdecimal() else None
    )
    found = legs.values_list("pk", flat=True).first() if legs is not None else None
    if found is None:
        raise NotFound("There is no such entry.", param="after")
    return found


def entry_by_key(key: str) -> LedgerTransaction:
    """Give an entry of the ledger by its business key.

    Raises:
        NotFound: There is none.
    """
    entry = LedgerTransaction.objects.select_related("organisation", "recorded_by").filter(business_key=key).first()
    if entry is None:
        raise NotFound("There is no such entry.", param="entry")
    return entry


def account_by_code(code: str) -> LedgerAccount:
    """Give an account by its code.

    Raises:
        NotFound: There is none.
    """
    account = LedgerAccount.objects.select_related("organisation").filter(code=code).first()
    if account is None:
        raise NotFound("There is no such account.")
    return account


def accounts_of(book: str, kinds: Sequence[str] = ()) -> list[LedgerAccount]:
    """Give the accounts of a book by code; of all kinds, or these."""
    found = LedgerAccount.objects.filter(book=book).select_related("organisation").order_by("code")
    return list(found.filter(kind__in=kinds) if kinds else found)


@dataclass(frozen=True, slots=True, kw_only=True)
class KindTotal:
    """All accounts of one kind: how many, and their balance (credit positive, micro-USD)."""

    kind: AccountKind
    account_count: int
    balance_micro_usd: int


def kind_totals(book: str, at: datetime, axis: Axis) -> list[KindTotal]:
    """Give the trial balance of a book at an instant, by kind of account; it adds up to zero."""
    accounts = accounts_of(book)
    balances = balances_as_of(at, axis, accounts)
    totals = {kind: [0, 0] for kind in AccountKind}
    for account in accounts:
        total = totals[AccountKind(account.kind)]
        total[0] += 1
        total[1] += balances[account.pk]
    return [
        KindTotal(kind=kind, account_count=count, balance_micro_usd=balance)
        for kind, (count, balance) in totals.items()
        if count
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """A leg in a statement, and the account's balance after it."""

    leg: LedgerLeg
    balance_micro_usd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountStatement:
    """An account over a span: what it began with, what moved (a page of it), what it ended with. Credit is positive."""

    opening_micro_usd: int
    movements: tuple[Movement, ...]
    has_more: bool
    debit_micro_usd: int
    credit_micro_usd: int
    closing_micro_usd: int


def account_statement(
    account: LedgerAccount, *, since: datetime, until: datetime, after: str | None = None, limit: int = STATEMENT_ROWS
) -> AccountStatement:
    """Give an account's statement from ``since`` to before ``until``, in the order of booking.

    Opening and the sums of the span are exact whatever page is shown: opening + credit - debit = closing.

    Raises:
        NotFound: ``after`` is no cursor of this account.
    """
    legs = LedgerLeg.objects.filter(
        account=account, transaction__booked_at__gte=since, transaction__booked_at__lt=until
    ).select_related("transaction", "transaction__organisation")
    sums = legs.aggregate(
        debit=Sum("amount_micro_usd", filter=Q(amount_micro_usd__lt=0)),
        credit=Sum("amount_micro_usd", filter=Q(amount_micro_usd__gt=0)),
    )
    debit_micro_usd, credit_micro_usd = -int(sums["debit"] or 0), int(sums["credit"] or 0)
    opening_micro_usd = _balance_before(account, since)
    balance = opening_micro_usd
    if after is not None:
        last = LedgerLeg.objects.select_related("transaction").get(pk=_leg_key(after))
        earlier = Q(transaction__booked_at__lt=last.transaction.booked_at)
        earlier |= Q(transaction__booked_at=last.transaction.booked_at, pk__lte=last.pk)
        balance += int(legs.filter(earlier).aggregate(sum=Sum("amount_micro_usd"))["sum"] or 0)
        legs = legs.exclude(earlier)
    page = list(legs.order_by("transaction__booked_at", "pk")[: limit + 1])
    movements = []
    for leg in page[:limit]:
        balance += leg.amount_micro_usd
        movements.append(Movement(leg=leg, balance_micro_usd=balance))
    return AccountStatement(
        opening_micro_usd=opening_micro_usd,
        movements=tuple(movements),
        has_more=len(page) > limit,
        debit_micro_usd=debit_micro_usd,
        credit_micro_usd=credit_micro_usd,
        closing_micro_usd=opening_micro_usd + credit_micro_usd - debit_micro_usd,
    )


def _balance_before(account: LedgerAccount, instant: datetime) -> int:
    """Give an account's balance just before an instant; the database's time has microseconds."""
    return balances_as_of(instant - timedelta(microseconds=1), Axis.BOOKED, [account])[account.pk]


@dataclass(frozen=True, slots=True, kw_only=True)
class WalletRow:
    """A customer's money now, micro-USD. ``liability`` is what the house owes them: all that is posted."""

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


_WALLETS = """
SELECT organisation.*, billing_available_micro_usd(organisation.id) AS available_micro_usd,
       coalesce(balance.posted_micro_usd, 0) AS posted_micro_usd,
       coalesce(balance.receivable_micro_usd, 0) AS receivable_micro_usd,
       coalesce(balance.floor_micro_usd, 0) AS floor_micro_usd,
       (SELECT coalesce(sum(total_micro_usd), 0)::bigint FROM billing_receipt receipt
        WHERE receipt.organisation_id = organisation.id) AS settled_micro_usd
FROM accounts_organisation organisation
LEFT JOIN billing_customerbalance balance ON balance.organisation_id = organisation.id
WHERE organisation.kind = 'customer' AND (organisation.name, organisation.id) > (%(name)s, %(id)s)
  AND (%(text)s = '' OR organisation.public_id = %(text)s OR organisation.slug = %(text)s
       OR organisation.name ILIKE '%%' || %(pattern)s || '%%')
  AND (%(below)s::bigint IS NULL OR billing_available_micro_usd(organisation.id) < %(below)s)
ORDER BY organisation.name, organisation.id LIMIT %(limit)s
"""


def wallet_page(
    *, after: str | None, limit: int, text: str = "", below_micro_usd: int | None = None
) -> tuple[list[WalletRow], bool]:
    """Give up to ``limit`` customers' wallets by name, and whether there are more.

    Args:
        after: Public id of the last customer of the page before.
        limit: How many a page has.
        text: A customer's id, namespace, or part of its name.
        below_micro_usd: Only those with less available.

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
        "limit": limit + 1,
    }
    rows = [_wallet_row(found) for found in Organisation.objects.raw(_WALLETS, values)]
    return rows[:limit], len(rows) > limit


def _wallet_row(found: Any) -> WalletRow:  # noqa: ANN401 -- a raw query's row has further columns
    return WalletRow(
        organisation=found,
        available_micro_usd=found.available_micro_usd,
        held_micro_usd=found.posted_micro_usd - found.floor_micro_usd - found.available_micro_usd,
        settled_micro_usd=found.settled_micro_usd,
        liability_micro_usd=found.posted_micro_usd,
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
