"""Credit that was granted: what it pays for, what comes back to it, and that nothing of it is lost or made."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest

from accounts.models import Organisation, StaffRole, User
from billing.adjustments.models import Adjustment, AdjustmentKind, Grant
from billing.adjustments.services import AdjustmentWish, expire_grants, request_adjustment
from billing.books.wallet_selectors import wallet_page
from billing.models import CustomerBalance, LedgerTransaction, Receipt
from billing.selectors import wallet
from billing.services.holds import void_hold
from billing.services.settlement import settle_batch
from billing.services.wallets import record_top_up
from ground.errors import InvalidRequest, PaymentRequired
from tests.billing.kit import (
    AT,
    assert_books_hold,
    broken_rule,
    hold,
    house_legs,
    make_organisation,
    settlement,
    usage,
)
from tests.billing.test_receipt_pages import client_of
from tests.harness.clock import Clock
from tests.routing.pages.conftest import signed_in as client_signed_in
from tests.routing.pages.conftest import words_of
from tests.routing.pages.scenes import staff


@pytest.fixture(autouse=True)
def books_hold(clock: Clock) -> Iterator[None]:
    clock.freeze(AT)
    yield
    assert_books_hold()


@pytest.fixture
def fay(books_hold: None) -> User:
    return staff(StaffRole.FINANCE, name="Fay Finance")


def ask(organisation: Organisation, by: User, kind: AdjustmentKind, micro_usd: int = 0, **more: Any) -> Adjustment:
    wish = AdjustmentWish(kind=kind, amount_micro_usd=micro_usd, reason="agreed with the customer", **more)
    return request_adjustment(organisation, wish, request_key=f"k{Adjustment.objects.count()}", requested_by=by)


def grant(organisation: Organisation, by: User, micro_usd: int, days: int | None = None, **more: Any) -> Grant:
    expires_at = None if days is None else AT + timedelta(days=days)
    return ask(organisation, by, AdjustmentKind.GRANT, micro_usd, expires_at=expires_at, **more).grant


def left(*grants: Grant) -> list[int]:
    for each in grants:
        each.refresh_from_db()
    return [each.amount_micro_usd - each.burned_micro_usd - each.expired_micro_usd for each in grants]


def money(organisation: Organisation) -> tuple[int, int]:
    state = wallet(organisation)
    assert state.posted_micro_usd == state.available_micro_usd + state.held_micro_usd
    return state.available_micro_usd, state.held_micro_usd


def test_a_reversed_charge_goes_back_to_the_grants_that_paid_it(fay: User) -> None:
    organisation = make_organisation(money=50)
    never, tomorrow = grant(organisation, fay, 400), grant(organisation, fay, 600, 1)
    charge = ask(organisation, fay, AdjustmentKind.DEBIT, 1_020)
    assert (left(tomorrow, never), money(organisation)) == ([0, 0], (30, 0))
    ask(organisation, fay, AdjustmentKind.REVERSAL, reverses=charge.transaction)
    assert (left(tomorrow, never), money(organisation)) == ([600, 400], (1_050, 0))
    # None of it became bought credit: fifty were paid in, fifty can be paid out.
    with pytest.raises(InvalidRequest):
        ask(organisation, fay, AdjustmentKind.REFUND, 51)
    ask(organisation, fay, AdjustmentKind.REFUND, 50)
    # Whole again, so it may be taken back.
    ask(organisation, fay, AdjustmentKind.REVERSAL, reverses=never.adjustment.transaction)
    assert (left(tomorrow, never), money(organisation)) == ([600, 0], (600, 0))


def test_what_comes_back_to_an_expired_grant_expires_at_once(fay: User, clock: Clock) -> None:
    organisation = make_organisation(money=100)
    given = grant(organisation, fay, 500, 1)
    charge = ask(organisation, fay, AdjustmentKind.DEBIT, 550)
    clock.advance(days=2)
    ask(organisation, fay, AdjustmentKind.REVERSAL, reverses=charge.transaction)
    assert (left(given), money(organisation)) == ([0], (100, 0))
    assert house_legs(organisation)["breakage:customer"] == 500
    # It was there until it came back: between its end and then, nothing is missing.
    assert LedgerTransaction.objects.get(kind="grant_expiry").effective_at == clock.now()


def test_a_receipts_credit_gives_bought_credit_back_first_and_last_what_burned_first(fay: User) -> None:
    organisation = make_organisation(money=1_000)
    first, second = grant(organisation, fay, 100, 5), grant(organisation, fay, 200)
    receipt = settle_batch(settlement(organisation, "batch_1", usage("a", 350)))
    assert (left(first, second), money(organisation)) == ([0, 0], (950, 0))
    ask(organisation, fay, AdjustmentKind.CREDIT, 60, receipt=receipt)
    assert left(first, second) == [0, 10]
    credit = ask(organisation, fay, AdjustmentKind.CREDIT, 240, receipt=receipt)
    assert (left(first, second), money(organisation)) == ([50, 200], (1_250, 0))
    page = words_of(client_signed_in(fay).get(f"/fin/adjustments/{credit.public_id}/"))
    assert "Back to grants $0.00 0240 of it" in page
    ask(organisation, fay, AdjustmentKind.REVERSAL, reverses=credit.transaction)
    assert (left(first, second), money(organisation)) == ([0, 10], (1_010, 0))
    ask(organisation, fay, AdjustmentKind.CREDIT, 50, receipt=receipt)
    assert left(first, second) == [0, 60]


def test_a_credit_that_went_to_a_grant_and_was_spent_again_is_not_taken_back(fay: User) -> None:
    organisation = make_organisation(money=1_000)
    given = grant(organisation, fay, 100)
    receipt = settle_batch(settlement(organisation, "batch_1", usage("a", 100)))
    credit = ask(organisation, fay, AdjustmentKind.CREDIT, 100, receipt=receipt)
    ask(organisation, fay, AdjustmentKind.DEBIT, 1)
    with pytest.raises(InvalidRequest) as refused:
        ask(organisation, fay, AdjustmentKind.REVERSAL, reverses=credit.transaction)
    assert (refused.value.code, left(given)) == ("insufficient", [99])


def test_a_top_up_is_no_part_of_what_an_expired_grant_still_keeps_for_a_batch(fay: User, clock: Clock) -> None:
    organisation = make_organisation()
    given = grant(organisation, fay, 500, 1)
    hold(organisation, "batch_1", a=400)
    clock.advance(days=2)
    assert money(organisation) == (0, 400)
    record_top_up(organisation, reference="later", amount_micro_usd=1_000, effective_at=AT, recorded_by=None)
    assert money(organisation) == (1_000, 400)
    assert (expire_grants(), left(given)) == (0, [400])
    # Accepted after the end: that is bought credit, and so is a charge.
    hold(organisation, "batch_2", a=300)
    settle_batch(settlement(organisation, "batch_2", usage("a", 300), settled_at=clock.now()))
    ask(organisation, fay, AdjustmentKind.DEBIT, 100)
    assert (left(given), money(organisation)) == ([400], (600, 400))
    settle_batch(settlement(organisation, "batch_1", usage("a", 250), settled_at=clock.now()))
    assert money(organisation) == (600, 0)
    assert (expire_grants(), expire_grants(), left(given)) == (1, 0, [0])
    assert (money(organisation), house_legs(organisation)["breakage:customer"]) == ((600, 0), 250)


def test_an_expired_grant_is_held_nowhere_before_it_is_swept(fay: User, clock: Clock) -> None:
    organisation = make_organisation(money=2_000_000)
    grant(organisation, fay, 5_000_000, 1)
    clock.advance(days=1)
    assert money(organisation) == (2_000_000, 0)
    page = words_of(client_of(organisation).get("/app/wallet/"))
    assert "Held $0.00 no batch is running Settled balance $2.00" in page
    row = wallet_page(after=None, limit=1)[0][0]
    assert (row.held_micro_usd, row.liability_micro_usd) == (0, 2_000_000)


def test_a_grant_gets_back_what_a_burn_of_the_same_transaction_says_and_no_more(
    fay: User, owner_cursor: psycopg.Cursor
) -> None:
    organisation = make_organisation(money=10)
    grant(organisation, fay, 100)
    ask(organisation, fay, AdjustmentKind.DEBIT, 40)
    change = "UPDATE billing_grant SET burned_micro_usd = burned_micro_usd - 40"
    assert broken_rule(owner_cursor, change) == "grant_is_only_used_up"


@dataclass(slots=True)
class Given:
    amount: int
    priority: int
    number: int
    expires_at: datetime | None
    left: int = 0


@dataclass(slots=True)
class Purse:
    """A wallet as a person would keep it on paper: bought credit, and each grant in an envelope of its own."""

    bought: int = 0
    spent: int = 0
    expired: int = 0
    refunded: int = 0
    taken_in: int = 0
    grants: list[Given] = field(default_factory=list)
    holds: dict[str, tuple[int, datetime]] = field(default_factory=dict)
    debits: dict[int, tuple[int, list[tuple[Given, int]]]] = field(default_factory=dict)

    def in_order(self) -> list[Given]:
        far = datetime.max.replace(tzinfo=AT.tzinfo)
        return sorted(self.grants, key=lambda each: (each.priority, each.expires_at or far, each.number))

    def expire(self, at: datetime) -> None:
        for each in self.in_order():
            if each.expires_at is None or each.expires_at > at:
                continue
            kept = sum(amount for amount, since in self.holds.values() if since < each.expires_at)
            for earlier in self.in_order():
                reserved = min(earlier.left, kept)
                kept -= reserved
                if earlier is each:
                    self.expired += each.left - reserved
                    each.left = reserved

    def pay(self, amount: int, at: datetime, accepted_at: datetime | None) -> list[tuple[Given, int]]:
        """Take an amount that is there; give what each grant paid."""
        self.spent += amount
        parts = []
        for each in self.in_order():
            if each.expires_at and each.expires_at <= at and not (accepted_at and accepted_at < each.expires_at):
                continue
            if part := min(each.left, amount):
                each.left -= part
                amount -= part
                parts.append((each, part))
        self.bought -= amount
        return parts

    @property
    def held(self) -> int:
        return sum(amount for amount, _ in self.holds.values())

    @property
    def available(self) -> int:
        return self.bought + sum(each.left for each in self.grants) - self.held


@pytest.mark.parametrize("seed", range(4))
def test_14_granted_is_available_held_spent_expired_and_refunded_at_every_step(
    fay: User, clock: Clock, seed: int
) -> None:
    dice = random.Random(seed)
    organisation = make_organisation(money=100)
    purse = Purse(bought=100, taken_in=100)
    for step in range(70):
        _do_something(organisation, fay, purse, dice, f"batch_{step}", clock)
        purse.expire(clock.now())
        state = wallet(organisation)
        assert (state.available_micro_usd, state.held_micro_usd) == (purse.available, purse.held), step
        assert purse.taken_in == (
            state.available_micro_usd + state.held_micro_usd + purse.spent + purse.expired + purse.refunded
        ), step
        unswept = CustomerBalance.objects.get(organisation=organisation).posted_micro_usd - state.posted_micro_usd
        assert house_legs(organisation).get("breakage:customer", 0) + unswept == purse.expired, step
    while expire_grants():
        pass
    assert left(*Grant.objects.order_by("pk")) == [each.left for each in purse.grants]
    assert Receipt.objects.exists()
    assert Adjustment.objects.filter(kind="reversal").exists()


def _do_something(  # noqa: C901, PLR0912 -- a die with nine faces
    organisation: Organisation, fay: User, purse: Purse, dice: random.Random, batch: str, clock: Clock
) -> None:
    amount = dice.randrange(1, 300)
    match dice.choice(("top_up", "grant", "hold", "hold", "settle", "void", "debit", "reverse", "refund", "wait")):
        case "top_up":
            record_top_up(organisation, reference=batch, amount_micro_usd=amount, effective_at=AT, recorded_by=None)
            purse.bought += amount
            purse.taken_in += amount
        case "grant":
            days = dice.choice((None, 1, 2, 4))
            expires_at = None if days is None else clock.now() + timedelta(days=days)
            priority = dice.choice((10, 50))
            ask(organisation, fay, AdjustmentKind.GRANT, amount, expires_at=expires_at, priority=priority)
            purse.grants.append(Given(amount, priority, len(purse.grants), expires_at, amount))
            purse.taken_in += amount
        case "hold":
            try:
                hold(organisation, batch, a=amount)
                purse.holds[batch] = (amount, clock.now())
            except PaymentRequired:
                assert amount > purse.available
        case "settle" if purse.holds:
            batch = dice.choice(list(purse.holds))
            reserved, accepted_at = purse.holds.pop(batch)
            charge = dice.randrange(reserved + 1)
            settle_batch(settlement(organisation, batch, usage("a", charge), settled_at=clock.now()))
            purse.pay(charge, clock.now(), accepted_at)
        case "void" if purse.holds:
            batch = dice.choice(list(purse.holds))
            void_hold(organisation, batch, "a")
            del purse.holds[batch]
        case "debit" if purse.available >= amount:
            charge_made = ask(organisation, fay, AdjustmentKind.DEBIT, amount)
            assert charge_made.transaction_id is not None
            purse.debits[charge_made.transaction_id] = (amount, purse.pay(amount, clock.now(), None))
        case "reverse" if purse.debits:
            entry, (amount, parts) = purse.debits.popitem()
            ask(organisation, fay, AdjustmentKind.REVERSAL, reverses=LedgerTransaction.objects.get(pk=entry))
            purse.spent -= amount
            purse.bought += amount - sum(part for _, part in parts)
            for given, part in parts:
                given.left += part
        case "refund" if purse.bought - purse.held >= amount:
            ask(organisation, fay, AdjustmentKind.REFUND, amount)
            purse.bought -= amount
            purse.refunded += amount
        case "wait":
            clock.advance(hours=dice.choice((1, 24, 36)))
            if dice.random() < 0.5:
                while expire_grants():
                    pass
