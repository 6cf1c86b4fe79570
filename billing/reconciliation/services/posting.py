"""Postings between the house and a provider: what reconciliation moves in our books. No customer's money is touched."""

from __future__ import annotations

import hashlib
from datetime import UTC, date, datetime, time, timedelta

from django.db.models import QuerySet

from accounts.models import OrganisationKind, User
from billing.domain.money import round_pico_to_micro
from billing.models import AccountKind, LedgerAccount, LedgerLeg, LedgerTransaction, TransactionKind
from billing.reconciliation.domain.decisions import Action
from billing.reconciliation.models import Break
from ground import clock

_BOOK = OrganisationKind.CUSTOMER
# What nobody could explain is paid as well, and stands in an account of its own.
_COST_CODE = f"cost_of_service:{_BOOK}"
_WRITTEN_OFF_CODE = f"write_off_provider:{_BOOK}"


def amount_of(found: Break) -> int:
    """Give what a break would move in our books, in micro-USD: above zero when we owe the provider more."""
    return round_pico_to_micro(int(found.difference_pico_usd))


def next_entry_key(found: Break) -> str:
    """Give the key of the next entry about a break: each step of its life has one of its own."""
    return f"break:{found.public_id}:{found.events.count()}"


def effective_at_of(month: date) -> datetime:
    """Give the instant that a posting about a month carries: its last second, or now while it still runs."""
    end = datetime.combine((month + timedelta(days=32)).replace(day=1), time(), UTC)
    return min(end - timedelta(seconds=1), clock.now())


def post_difference(
    found: Break, action: Action, *, amount_micro_usd: int, key: str, recorded_by: User
) -> LedgerTransaction | None:
    """Post a break's difference between the provider's payable and our cost; nothing where it rounds to nothing.

    Runs in the caller's transaction; ``key`` is unique to this decision.
    """
    if amount_micro_usd == 0:
        return None
    is_written_off = action is Action.WRITE_OFF
    cost = (_WRITTEN_OFF_CODE, AccountKind.WRITE_OFF) if is_written_off else (_COST_CODE, AccountKind.COST_OF_SERVICE)
    payable_code = f"provider_payable:{_BOOK}:{found.invoice.provider}:{found.invoice.provider_account}"
    legs = [
        (_account(*cost), -amount_micro_usd),
        (_account(payable_code, AccountKind.PROVIDER_PAYABLE), amount_micro_usd),
    ]
    return _posted(found, legs, key=key, body=f"{action}|{amount_micro_usd}", recorded_by=recorded_by)


def post_back(found: Break, *, key: str, recorded_by: User | None) -> LedgerTransaction | None:
    """Post the mirror of the entry that a break's decision made; None where it made none.

    Runs in the caller's transaction; without a person it is the matcher's: the figures are not those that were decided.
    """
    if not found.is_posted:
        return None
    legs = [(leg.account, -leg.amount_micro_usd) for leg in _legs_of(found)]
    return _posted(found, legs, key=key, body=f"back|{found.entry_key}", recorded_by=recorded_by)


def posted_micro_usd(found: Break) -> int:
    """Give what a break's decision has posted, in micro-USD without a sign; 0 where it posted nothing."""
    return max((leg.amount_micro_usd for leg in _legs_of(found)), default=0) if found.is_posted else 0


def _legs_of(found: Break) -> QuerySet[LedgerLeg]:
    legs = LedgerLeg.objects.filter(transaction__business_key=found.entry_key)
    return legs.select_related("account").order_by("leg_number")


def _posted(
    found: Break, legs: list[tuple[LedgerAccount, int]], *, key: str, body: str, recorded_by: User | None
) -> LedgerTransaction:
    header = LedgerTransaction.objects.create(
        business_key=key,
        body_hash=hashlib.sha256(f"{found.public_id}|{body}".encode()).digest(),
        kind=TransactionKind.PROVIDER_ADJUSTMENT,
        organisation=None,
        reference=found.public_id,
        recorded_by=recorded_by,
        effective_at=effective_at_of(found.invoice.period),
        # The database sets it.
        booked_at=clock.now(),
    )
    # In one statement: the journal takes all legs of an entry at once.
    LedgerLeg.objects.bulk_create(
        LedgerLeg(transaction=header, leg_number=number, account=account, amount_micro_usd=amount)
        for number, (account, amount) in enumerate(legs, start=1)
    )
    return header


def _account(code: str, kind: AccountKind) -> LedgerAccount:
    account, _ = LedgerAccount.objects.get_or_create(
        code=code, defaults={"kind": kind, "book": _BOOK, "created_at": clock.now()}
    )
    return account
