"""Holds: all groups or none, one exit each, lapsing by the database's clock."""

from __future__ import annotations

from datetime import timedelta

import pytest

from accounts.models import Organisation
from billing.domain.records import GroupHold, HoldState
from billing.errors import PostingConflict
from billing.models import Hold
from billing.selectors import wallet
from billing.services.holds import place_holds, void_hold
from billing.services.settlement import settle_batch
from ground.errors import NotFound, PaymentRequired
from tests.billing.kit import AT, assert_books_hold, at_once, hold, make_organisation, settlement, usage
from tests.harness.clock import Clock


@pytest.fixture(autouse=True)
def books_hold(db: None) -> object:
    yield
    assert_books_hold()


def test_holds_of_all_groups_are_placed_together(organisation: Organisation) -> None:
    assert hold(organisation, "batch_1", a=600, b=400) == 0
    state = wallet(organisation)
    assert (state.available_micro_usd, state.held_micro_usd, state.posted_micro_usd) == (0, 1_000, 1_000)


def test_too_little_credit_holds_nothing_and_says_what_is_there(organisation: Organisation) -> None:
    with pytest.raises(PaymentRequired) as refused:
        hold(organisation, "batch_1", a=600, b=401)
    assert refused.value.code == "insufficient_credit"
    assert refused.value.extra == {"available_micro_usd": 1_000, "required_micro_usd": 1_001}
    assert not Hold.objects.exists()


def test_an_organisation_without_a_wallet_has_no_credit(db: None) -> None:
    organisation = make_organisation()
    assert wallet(organisation).available_micro_usd == 0
    with pytest.raises(PaymentRequired):
        hold(organisation, "batch_1", a=1)
    assert hold(organisation, "batch_1", a=0) == 0


def test_the_same_holds_again_change_nothing(organisation: Organisation) -> None:
    assert hold(organisation, "batch_1", a=300, b=200) == 500
    assert hold(organisation, "batch_1", b=200, a=300) == 500
    assert Hold.objects.count() == 2


@pytest.mark.parametrize(
    "other", [{"a": 300}, {"a": 300, "b": 201}, {"a": 300, "b": 200, "c": 1}, {"a": 300, "c": 200}]
)
def test_other_holds_for_the_same_batch_conflict(organisation: Organisation, other: dict[str, int]) -> None:
    hold(organisation, "batch_1", a=300, b=200)
    with pytest.raises(PostingConflict):
        hold(organisation, "batch_1", **other)
    assert wallet(organisation).held_micro_usd == 500


def test_voiding_twice_gives_the_same_answer_and_the_money_once(organisation: Organisation) -> None:
    hold(organisation, "batch_1", a=300, b=200)
    first = void_hold(organisation, "batch_1", "a")
    assert (first.state, first.reserved_micro_usd) == (HoldState.VOIDED, 300)
    assert void_hold(organisation, "batch_1", "a") == first
    assert wallet(organisation).available_micro_usd == 800


def test_voiding_what_was_settled_changes_nothing_and_says_so(organisation: Organisation) -> None:
    hold(organisation, "batch_1", a=300)
    settle_batch(settlement(organisation, "batch_1", usage("a", 100)))
    assert void_hold(organisation, "batch_1", "a").state is HoldState.SETTLED
    assert wallet(organisation).available_micro_usd == 900


def test_a_hold_that_is_not_there_cannot_be_voided(organisation: Organisation) -> None:
    hold(organisation, "batch_1", a=300)
    for owner, batch, key in (
        (organisation, "batch_1", "b"),
        (organisation, "batch_2", "a"),
        (make_organisation(), "batch_1", "a"),
    ):
        with pytest.raises(NotFound):
            void_hold(owner, batch, key)


def test_a_lapsed_hold_is_available_at_its_second_without_any_sweep(clock: Clock) -> None:
    organisation = make_organisation(money=1_000)
    now = clock.freeze(AT)
    place_holds(
        organisation,
        "batch_1",
        [GroupHold(group_key="a", reserved_micro_usd=700)],
        expires_at=now + timedelta(minutes=5),
    )
    clock.advance(minutes=4, seconds=59)
    assert wallet(organisation).available_micro_usd == 300
    clock.advance(seconds=1)
    state = wallet(organisation)
    assert (state.available_micro_usd, state.held_micro_usd) == (1_000, 0)
    assert Hold.objects.get().state == HoldState.OPEN
    hold(organisation, "batch_2", a=1_000)
    assert Hold.objects.get(batch_public_id="batch_1").state == HoldState.EXPIRED


def test_voiding_a_lapsed_hold_finds_it_expired(clock: Clock) -> None:
    organisation = make_organisation(money=1_000)
    now = clock.freeze(AT)
    place_holds(
        organisation,
        "batch_1",
        [GroupHold(group_key="a", reserved_micro_usd=700)],
        expires_at=now + timedelta(minutes=5),
    )
    clock.advance(minutes=5)
    assert void_hold(organisation, "batch_1", "a").state is HoldState.EXPIRED


def test_a_hold_without_an_end_never_lapses(clock: Clock) -> None:
    organisation = make_organisation(money=1_000)
    hold(organisation, "batch_1", a=700)
    clock.advance(days=400)
    assert wallet(organisation).available_micro_usd == 300


def test_a_blocked_organisation_holds_nothing(organisation: Organisation) -> None:
    organisation.billing_blocked_at = AT
    organisation.save()
    with pytest.raises(PaymentRequired) as refused:
        hold(organisation, "batch_1", a=1)
    assert refused.value.code == "billing_blocked"
    assert wallet(organisation).blocked


def test_of_fifty_clients_holding_a_tenth_at_once_exactly_ten_succeed(organisation: Organisation) -> None:
    answers = at_once(50, lambda number: hold(organisation, f"batch_{number}", a=100))
    refused = [answer for answer in answers if isinstance(answer, PaymentRequired)]
    assert sorted(answer for answer in answers if isinstance(answer, int)) == list(range(0, 1_000, 100))
    assert len(refused) == 40
    assert Hold.objects.filter(state=HoldState.OPEN).count() == 10


def test_of_two_accepts_of_six_hundred_on_a_thousand_one_succeeds(organisation: Organisation) -> None:
    answers = at_once(2, lambda number: hold(organisation, f"batch_{number}", a=600))
    assert sorted(type(answer).__name__ for answer in answers) == ["PaymentRequired", "int"]


def test_one_batch_held_by_many_at_once_is_held_once(organisation: Organisation) -> None:
    assert at_once(10, lambda _: hold(organisation, "batch_1", a=600)) == [400] * 10
    assert wallet(organisation).held_micro_usd == 600


def test_of_settling_and_voiding_at_once_exactly_one_closes_the_hold(db: None) -> None:
    organisation = make_organisation(money=100_000)
    for number in range(30):
        batch = f"batch_{number}"
        hold(organisation, batch, a=100)

        def settle_or_void(which: int, batch: str = batch) -> object:
            if which:
                return settle_batch(settlement(organisation, batch, usage("a", 60)))
            return void_hold(organisation, batch, "a")

        errors = [answer for answer in at_once(2, settle_or_void) if isinstance(answer, Exception)]
        assert errors == []
        closed = Hold.objects.get(batch_public_id=batch)
        assert (closed.state, closed.settled_micro_usd) in {("settled", 60), ("voided", None)}
    state = wallet(organisation)
    assert (state.posted_micro_usd, state.held_micro_usd) == (100_000 - 30 * 60, 0)


def test_another_organisations_batch_of_the_same_name_is_apart(organisation: Organisation) -> None:
    other = make_organisation(money=500)
    hold(organisation, "batch_1", a=100)
    assert hold(other, "batch_1", a=200) == 300
