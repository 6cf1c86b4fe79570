"""What the pages of the books say of accounts and entries, put together from rows that selectors gave."""

from __future__ import annotations

from dataclasses import dataclass

from django.urls import reverse

from billing.books.selectors import DEBIT_KINDS, KindTotal
from billing.forms import ACCOUNT_WORDS, ENTRY_WORDS
from billing.models import AccountKind, LedgerAccount, LedgerLeg, LedgerTransaction, TransactionKind

# A kind with more accounts than this is opened on a page of its own.
_ACCOUNTS_SHOWN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class LegRow:
    """A leg as tables show it: on one side, with what its account and its entry are called."""

    leg: LedgerLeg
    entry: LedgerTransaction
    word: str
    account_word: str
    account_detail: str
    debit_micro_usd: int | None
    credit_micro_usd: int | None


def leg_row(leg: LedgerLeg) -> LegRow:
    """Give what tables say of a leg."""
    return LegRow(
        leg=leg,
        entry=leg.transaction,
        word=ENTRY_WORDS[TransactionKind(leg.transaction.kind)],
        account_word=ACCOUNT_WORDS[AccountKind(leg.account.kind)],
        account_detail=provider_of(leg.account),
        debit_micro_usd=-leg.amount_micro_usd if leg.amount_micro_usd < 0 else None,
        credit_micro_usd=leg.amount_micro_usd if leg.amount_micro_usd >= 0 else None,
    )


def provider_and_account(payable: LedgerAccount) -> tuple[str, str]:
    """Give the provider and our account there of a payable, whose code names both."""
    _kind, _book, provider, account = payable.code.split(":", 3)
    return provider, account


def provider_of(account: LedgerAccount) -> str:
    """Give the provider and our account there in words; empty where an account is no payable."""
    return " / ".join(provider_and_account(account)) if account.kind == AccountKind.PROVIDER_PAYABLE else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceRow:
    """A line of the trial balance: a kind of account, or one account in it. ``is_odd``: not on its usual side."""

    word: str
    note: str
    url: str
    debit_micro_usd: int
    credit_micro_usd: int
    is_odd: bool = False
    parts: tuple[BalanceRow, ...] = ()


def kind_row(total: KindTotal, accounts: list[LedgerAccount], balances: dict[int, int], url: str) -> BalanceRow:
    """Give a kind's line with those of its accounts, where these are few; one account stands for its kind.

    Args:
        total: The kind's two sums.
        accounts: Its accounts.
        balances: {account's key: balance in micro-USD, credit positive}.
        url: Of the page of this kind's accounts.
    """
    word = ACCOUNT_WORDS[total.kind]
    if len(accounts) == 1:
        return account_row(accounts[0], balances[accounts[0].pk], word=word)
    is_short = len(accounts) <= _ACCOUNTS_SHOWN
    return BalanceRow(
        word=word,
        note=f"{total.account_count:,} accounts",
        url=url,
        debit_micro_usd=total.debit_micro_usd,
        credit_micro_usd=total.credit_micro_usd,
        parts=tuple(account_row(each, balances[each.pk]) for each in accounts) if is_short else (),
    )


def account_row(account: LedgerAccount, balance_micro_usd: int, word: str = "") -> BalanceRow:
    """Give an account's line; it is called by its customer or provider, or by ``word``."""
    name = account.organisation.name if account.organisation else provider_of(account)
    usually_debit = AccountKind(account.kind) in DEBIT_KINDS
    return BalanceRow(
        word=word or name or ACCOUNT_WORDS[AccountKind(account.kind)],
        note=name if word else "",
        url=reverse("billing:ledger-account", args=[account.code]),
        debit_micro_usd=max(-balance_micro_usd, 0),
        credit_micro_usd=max(balance_micro_usd, 0),
        is_odd=balance_micro_usd != 0 and (balance_micro_usd < 0) != usually_debit,
    )
