"""Adjustments and grants: posted once, by two people above the limit, and what they do to the books."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.conf import settings

from accounts.models import AuditEntry, Organisation, StaffRole, User
from billing.adjustments.models import Adjustment, AdjustmentKind, Grant, GrantBurn
from billing.adjustments.services import AdjustmentWish, decide_adjustment, expire_grants, request_adjustment
from billing.errors import PostingConflict
from billing.models import LedgerTransaction
from billing.selectors import wallet
from billing.services.holds import void_hold
from billing.services.settlement import settle_batch
from billing.services.wallets import record_top_up
from ground.errors import InvalidRequest, PaymentRequired
from tests.billing.kit import (
    AT,
    assert_books_hold,
    at_once,
    broken_rule,
    hold,
    house_legs,
    make_organisation,
    settlement,
    usage,
)
from tests.harness.clock import Clock
from tests.routing.pages.scenes import staff

LIMIT = settings.ADJUSTMENT_APPROVAL_ABOVE_MICRO_USD


@pytest.fixture(autouse=True)
def books_hold(clock: Clock) -> Iterator[None]:
    clock.freeze(AT)
    yield
    assert_books_hold()


@pytest.fixture
def fay(books_hold: None) -> User:
    return staff(StaffRole.FINANCE, name="Fay Finance")


@pytest.fixture
def second(books_hold: None) -> User:
    return staff(StaffRole.FINANCE, name="Sandy Second")


def ask(
    organisation: Organisation, by: User, kind: AdjustmentKind, micro_usd: int = 0, *, key: str = "", **more: Any
) -> Adjustment:
    wish = AdjustmentWish(kind=kind, amount_micro_usd=micro_usd, reason="agreed with the customer", **more)
    return request_adjustment(organisation, wish, request_key=key or f"k{Adjustment.objects.count()}", requested_by=by)


def money(organisation: Organisation) -> tuple[int, int]:
    state = wallet(organisation)
    return state.available_micro_usd, state.receivable_micro_usd


def test_each_kind_posts_what_it_says(fay: User) -> None:
    owing = make_organisation(money=1_000)
    settle_batch(settlement(owing, "batch_1", usage("a", 1_300)))
    assert money(owing) == (0, 300)
    ask(owing, fay, AdjustmentKind.WRITE_OFF, 100)
    ask(owing, fay, AdjustmentKind.CREDIT, 250)
    assert money(owing) == (50, 0)
    ask(owing, fay, AdjustmentKind.DEBIT, 80)
    assert money(owing) == (0, 30)
    assert {code: total for code, total in house_legs(owing).items() if ":" in code} == {
        "top_up_clearing:customer": -1_000,
        "revenue_usage:customer": 1_300,
        "write_off:customer": -100,
        "adjustment:customer": -170,
    }
    paid = make_organisation(money=1_000)
    ask(paid, fay, AdjustmentKind.GRANT, 200)
    with pytest.raises(InvalidRequest) as refused:
        ask(paid, fay, AdjustmentKind.REFUND, 1_001)
    assert refused.value.code == "insufficient"
    ask(paid, fay, AdjustmentKind.REFUND, 400)
    assert (money(paid), Adjustment.objects.filter(organisation=paid).count()) == ((800, 0), 2)
    with pytest.raises(InvalidRequest):
        ask(paid, fay, AdjustmentKind.WRITE_OFF, 1)


def test_above_the_limit_only_another_person_posts_it_and_once(fay: User, second: User) -> None:
    organisation = make_organisation()
    asked = ask(organisation, fay, AdjustmentKind.CREDIT, LIMIT + 1, key="form-1")
    assert (asked.state, money(organisation)) == ("requested", (0, 0))
    assert ask(organisation, fay, AdjustmentKind.CREDIT, LIMIT + 1, key="form-1").pk == asked.pk
    with pytest.raises(PostingConflict):
        ask(organisation, fay, AdjustmentKind.CREDIT, LIMIT + 2, key="form-1")
    with pytest.raises(InvalidRequest, match="somebody else"):
        decide_adjustment(asked.public_id, approves=True, reason="my own", decided_by=fay)
    answers = at_once(
        3, lambda _n: decide_adjustment(asked.public_id, approves=True, reason="seen", decided_by=second).state
    )
    assert answers == ["posted"] * 3
    assert money(organisation) == (LIMIT + 1, 0)
    with pytest.raises(InvalidRequest, match="decided before"):
        decide_adjustment(asked.public_id, approves=False, reason="too late", decided_by=second)
    entries = AuditEntry.objects.filter(object_id=asked.public_id).order_by("pk")
    assert [(each.action, each.user_id, each.reason) for each in entries] == [
        ("adjustment.requested", fay.pk, "agreed with the customer"),
        ("adjustment.posted", second.pk, "seen"),
    ]
    at_limit = ask(organisation, fay, AdjustmentKind.CREDIT, LIMIT)
    assert (at_limit.state, at_limit.decided_by) == ("posted", None)


def test_a_refused_adjustment_moves_nothing(fay: User, second: User) -> None:
    organisation = make_organisation()
    asked = ask(organisation, fay, AdjustmentKind.GRANT, LIMIT + 1)
    refused = decide_adjustment(asked.public_id, approves=False, reason="no contract", decided_by=second)
    assert (refused.state, refused.transaction, money(organisation)) == ("refused", None, (0, 0))


def test_the_database_keeps_the_two_people_apart(
    fay: User, second: User, app_cursor: psycopg.Cursor, owner_cursor: psycopg.Cursor
) -> None:
    asked = ask(make_organisation(), fay, AdjustmentKind.CREDIT, LIMIT + 1)
    post = (
        "UPDATE billing_adjustment SET state = 'posted', decided_at = now(), decided_by_id = {by}, transaction_id ="
        " (SELECT min(id) FROM billing_ledgertransaction)"
    )
    make_organisation(money=5)
    assert broken_rule(app_cursor, post.format(by=second.pk)) == "no privilege"
    assert broken_rule(owner_cursor, post.format(by=fay.pk)) == "adjustment_is_decided_by_another_person"
    assert broken_rule(owner_cursor, post.format(by="NULL")) == "adjustment_is_posted_after_its_approval"
    bigger = "UPDATE billing_adjustment SET amount_micro_usd = amount_micro_usd + 1"
    assert broken_rule(owner_cursor, bigger) == "adjustment_is_decided_once"
    assert broken_rule(owner_cursor, "DELETE FROM billing_adjustment") == "journal_is_append_only"
    decide_adjustment(asked.public_id, approves=False, reason="enough", decided_by=second)
    assert broken_rule(owner_cursor, bigger) == "adjustment_is_decided_once"


def test_a_reversal_gives_every_account_its_former_balance_once(fay: User) -> None:
    owing = make_organisation()
    settle_batch(settlement(owing, "batch_1", usage("a", 300)))
    before = house_legs(owing)
    ask(owing, fay, AdjustmentKind.CREDIT, 1_000)
    credit = LedgerTransaction.objects.get(kind="credit")
    reversal = ask(owing, fay, AdjustmentKind.REVERSAL, reverses=credit)
    assert (reversal.amount_micro_usd, reversal.reverses) == (1_000, credit)
    assert {code: total for code, total in house_legs(owing).items() if total} == before
    settled = LedgerTransaction.objects.get(kind="settlement")
    for entry, code in ((credit, "reversed"), (reversal.transaction, "not_reversible"), (settled, "not_reversible")):
        with pytest.raises(InvalidRequest) as refused:
            ask(owing, fay, AdjustmentKind.REVERSAL, reverses=entry)
        assert refused.value.code == code


def test_credits_of_a_receipt_are_at_most_its_total(fay: User, second: User) -> None:
    organisation = make_organisation(money=2 * LIMIT)
    receipt = settle_batch(settlement(organisation, "batch_1", usage("a", LIMIT + 10)))
    waiting = ask(organisation, fay, AdjustmentKind.CREDIT, LIMIT + 5, receipt=receipt)
    with pytest.raises(InvalidRequest) as refused:
        ask(organisation, fay, AdjustmentKind.CREDIT, 6, receipt=receipt)
    assert refused.value.code == "too_much"
    decide_adjustment(waiting.public_id, approves=False, reason="less is due", decided_by=second)
    ask(organisation, fay, AdjustmentKind.CREDIT, 6, receipt=receipt)
    with pytest.raises(InvalidRequest, match="another customer"):
        ask(make_organisation(), fay, AdjustmentKind.CREDIT, 1, receipt=receipt)


def grant(organisation: Organisation, by: User, micro_usd: int, days: int | None, **more: Any) -> Grant:
    expires_at = None if days is None else AT + timedelta(days=days)
    return ask(organisation, by, AdjustmentKind.GRANT, micro_usd, expires_at=expires_at, **more).grant


def left(*grants: Grant) -> list[int]:
    for each in grants:
        each.refresh_from_db()
    return [each.amount_micro_usd - each.burned_micro_usd - each.expired_micro_usd for each in grants]


def test_what_expires_first_burns_first_and_bought_credit_last(fay: User) -> None:
    organisation = make_organisation(money=50)
    never, tomorrow = grant(organisation, fay, 400, None), grant(organisation, fay, 600, 1)
    settle_batch(settlement(organisation, "batch_1", usage("a", 700)))
    assert left(tomorrow, never) == [0, 300]
    assert {burn.grant: burn.amount_micro_usd for burn in GrantBurn.objects.all()} == {tomorrow: 600, never: 100}
    urgent = grant(organisation, fay, 10, None, priority=1)
    ask(organisation, fay, AdjustmentKind.DEBIT, 10)
    assert left(urgent, never) == [0, 300]
    ask(organisation, fay, AdjustmentKind.DEBIT, 320)
    assert (left(never), money(organisation)) == ([0], (30, 0))


def test_an_expired_grant_is_not_spendable_from_its_instant_and_becomes_breakage(fay: User, clock: Clock) -> None:
    organisation = make_organisation(money=500)
    unused = grant(organisation, fay, 500, 1)
    assert money(organisation) == (1_000, 0)
    clock.advance(days=1)
    assert money(organisation) == (500, 0)
    with pytest.raises(PaymentRequired):
        hold(organisation, "batch_1", a=501)
    assert (expire_grants(), expire_grants()) == (1, 0)
    assert (left(unused), money(organisation), house_legs(organisation)["breakage:customer"]) == ([0], (500, 0), 500)


def test_what_is_held_when_a_grant_expires_pays_for_its_batch_and_the_rest_expires(fay: User, clock: Clock) -> None:
    organisation = make_organisation()
    given = grant(organisation, fay, 500, 1)
    hold(organisation, "batch_1", a=300, b=100)
    clock.advance(days=2)
    assert (expire_grants(), left(given), money(organisation)) == (1, [400], (0, 0))
    void_hold(organisation, "batch_1", "b")
    settle_batch(settlement(organisation, "batch_1", usage("a", 250), settled_at=AT + timedelta(days=2)))
    assert money(organisation) == (0, 0)
    while expire_grants():
        pass
    assert (left(given), house_legs(organisation)["breakage:customer"]) == ([0], 250)


def test_a_grant_is_reversed_whole_or_not(fay: User) -> None:
    organisation = make_organisation()
    for _ in range(2):
        grant(organisation, fay, 100, None)
    used, whole = Grant.objects.order_by("pk")
    ask(organisation, fay, AdjustmentKind.DEBIT, 10)
    with pytest.raises(InvalidRequest) as refused:
        ask(organisation, fay, AdjustmentKind.REVERSAL, reverses=used.adjustment.transaction)
    assert refused.value.code == "insufficient"
    ask(organisation, fay, AdjustmentKind.REVERSAL, reverses=whole.adjustment.transaction)
    assert (left(used, whole), money(organisation)) == ([90, 0], (90, 0))


def test_a_grant_pays_for_nothing_that_was_used_before_it(fay: User) -> None:
    organisation = make_organisation(money=10)
    given = grant(organisation, fay, 1_000, None)
    settle_batch(settlement(organisation, "batch_1", usage("a", 30), settled_at=AT - timedelta(days=1)))
    assert (left(given), money(organisation)) == ([1_000], (1_000, 20))


def test_credit_that_was_granted_is_never_paid_out(fay: User) -> None:
    organisation = make_organisation(money=10)
    given = grant(organisation, fay, 1_000, None)
    with pytest.raises(InvalidRequest):
        ask(organisation, fay, AdjustmentKind.REFUND, 11)
    ask(organisation, fay, AdjustmentKind.REFUND, 10)
    assert (left(given), money(organisation)) == ([1_000], (1_000, 0))


def test_a_payment_that_was_spent_is_not_taken_back_from_a_grant(fay: User, clock: Clock) -> None:
    organisation = make_organisation(money=1_000)
    payment = LedgerTransaction.objects.get(organisation=organisation)
    settle_batch(settlement(organisation, "batch_1", usage("a", 1_000)))
    ask(organisation, fay, AdjustmentKind.GRANT, 1_000, expires_at=AT + timedelta(days=30))
    with pytest.raises(InvalidRequest) as refused:
        ask(organisation, fay, AdjustmentKind.REVERSAL, reverses=payment)
    assert refused.value.code == "insufficient"
    record_top_up(organisation, reference="second", amount_micro_usd=500, effective_at=AT, recorded_by=None)
    # The grant expires with its own money, and the second payment stays.
    clock.advance(days=31)
    expire_grants()
    assert money(organisation) == (500, 0)
