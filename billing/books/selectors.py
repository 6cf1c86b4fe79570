"""Reads of the books: accounts, entries, statements, wallets, balances at an instant."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import F, Func, Q, QuerySet, Sum
from django.db.models.fields import BigIntegerField
from django.db.models.lookups import GreaterThanOrEqual, LessThanOrEqual

from billing.forms import ACCOUNT_WORDS
from billing.models import AccountKind, LedgerAccount, LedgerLeg, LedgerTransaction
from ground.errors import NotFound
from ground.filters import EVER, Span
from ground.functions import call_set
from ground.given_texts import number_in

STATEMENT_ROWS: Final = 200
# Of 16 bits.
_LEG_NUMBER_DIGITS: Final = 5


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
        found = found.filter(pk__lt=_leg_key(after, LedgerLeg.objects.all()))
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


def _leg_key(after: str, legs: QuerySet[LedgerLeg]) -> int:
    key, _, number = after.rpartition("#")
    leg_number = number_in(number, digits=_LEG_NUMBER_DIGITS)
    same = legs.filter(transaction__business_key=key, leg_number=leg_number) if leg_number is not None else legs.none()
    found = same.values_list("pk", flat=True).first()
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
    """All accounts of one kind: how many, and the sums of those in debit and of those in credit (both positive)."""

    kind: AccountKind
    account_count: int
    debit_micro_usd: int
    credit_micro_usd: int


def totals_of(accounts: Sequence[LedgerAccount], balances: Mapping[int, int]) -> list[KindTotal]:
    """Give the trial balance of some accounts by kind, kinds without one left out; of a whole book both sides agree.

    Args:
        accounts: The accounts.
        balances: {account's key: balance in micro-USD, credit positive}, as ``balances_as_of`` gives them.
    """
    by_kind: dict[str, list[int]] = {}
    for account in accounts:
        by_kind.setdefault(account.kind, []).append(balances[account.pk])
    return [
        KindTotal(
            kind=kind,
            account_count=len(by_kind[kind]),
            debit_micro_usd=-sum(balance for balance in by_kind[kind] if balance < 0),
            credit_micro_usd=sum(balance for balance in by_kind[kind] if balance > 0),
        )
        for kind in ACCOUNT_WORDS
        if kind in by_kind
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

    @property
    def carried_micro_usd(self) -> int:
        """The balance before the first movement of this page."""
        first = self.movements[0] if self.movements else None
        return first.balance_micro_usd - first.leg.amount_micro_usd if first else self.opening_micro_usd


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
    ).select_related("account", "transaction", "transaction__organisation")
    sums = legs.aggregate(
        debit=Sum("amount_micro_usd", filter=Q(amount_micro_usd__lt=0)),
        credit=Sum("amount_micro_usd", filter=Q(amount_micro_usd__gt=0)),
    )
    debit_micro_usd, credit_micro_usd = -int(sums["debit"] or 0), int(sums["credit"] or 0)
    opening_micro_usd = _balance_before(account, since)
    balance = opening_micro_usd
    if after is not None:
        last = LedgerLeg.objects.select_related("transaction").get(
            pk=_leg_key(after, LedgerLeg.objects.filter(account=account))
        )
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
