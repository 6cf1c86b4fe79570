"""Top-ups: once per reference, debts first, play money apart."""

from __future__ import annotations

import pytest

from accounts.models import Organisation
from billing.domain.records import TopUp
from billing.errors import PostingConflict
from billing.selectors import wallet
from billing.services.settlement import settle_batch
from billing.services.wallets import open_wallet, record_top_up
from ground.errors import InvalidRequest, PaymentRequired
from tests.billing.kit import AT, assert_books_hold, at_once, hold, house_legs, make_organisation, settlement, usage


@pytest.fixture(autouse=True)
def books_hold(db: None) -> object:
    yield
    assert_books_hold()


def top_up(organisation: Organisation, reference: str, amount_micro_usd: int) -> TopUp:
    return record_top_up(
        organisation, reference=reference, amount_micro_usd=amount_micro_usd, effective_at=AT, recorded_by=None
    )


def test_a_wallet_is_opened_once(db: None) -> None:
    organisation = make_organisation()
    open_wallet(organisation)
    open_wallet(organisation)
    assert wallet(organisation).posted_micro_usd == 0


def test_a_top_up_is_what_the_wallet_has(db: None) -> None:
    organisation = make_organisation()
    recorded = top_up(organisation, "wire 1", 2_500_000)
    assert (recorded.wallet_micro_usd, recorded.receivable_micro_usd, recorded.replayed) == (2_500_000, 0, False)
    assert house_legs(organisation) == {"wallet": 2_500_000, "top_up_clearing:customer": -2_500_000}


def test_one_micro_usd_survives(db: None) -> None:
    organisation = make_organisation()
    top_up(organisation, "wire 1", 1)
    assert wallet(organisation).posted_micro_usd == 1


def test_the_same_top_up_again_replays_and_another_amount_conflicts(db: None) -> None:
    organisation = make_organisation()
    first = top_up(organisation, "wire 1", 500)
    again = top_up(organisation, "wire 1", 500)
    assert (again.transaction_id, again.wallet_micro_usd, again.replayed) == (first.transaction_id, 500, True)
    with pytest.raises(PostingConflict):
        top_up(organisation, "wire 1", 501)
    assert wallet(organisation).posted_micro_usd == 500


def test_three_deliveries_at_once_are_one_credit(db: None) -> None:
    organisation = make_organisation()
    answers = at_once(3, lambda _: top_up(organisation, "wire 1", 500))
    assert sorted(answer.replayed for answer in answers if isinstance(answer, TopUp)) == [False, True, True]
    assert wallet(organisation).posted_micro_usd == 500


def test_a_reference_belongs_to_its_organisation(organisation: Organisation) -> None:
    other = make_organisation()
    assert not top_up(other, "first", 700).replayed


@pytest.mark.parametrize("amount_micro_usd", [0, -1])
def test_a_top_up_is_above_zero(organisation: Organisation, amount_micro_usd: int) -> None:
    with pytest.raises(InvalidRequest):
        top_up(organisation, "wire 1", amount_micro_usd)


@pytest.mark.parametrize("reference", ["", "  ", "x" * 201, "a\0b"])
def test_a_top_up_needs_a_reference(organisation: Organisation, reference: str) -> None:
    with pytest.raises(InvalidRequest):
        top_up(organisation, reference, 5)


def test_a_top_up_pays_what_is_owed_first_and_then_opens_the_wallet(organisation: Organisation) -> None:
    settle_batch(settlement(organisation, "batch_1", usage("a", 1_250)))
    with pytest.raises(PaymentRequired) as refused:
        hold(organisation, "batch_2", a=0)
    assert (refused.value.code, refused.value.extra) == ("billing_blocked", {"receivable_micro_usd": 250})

    part = top_up(organisation, "wire 1", 100)
    assert (part.wallet_micro_usd, part.receivable_micro_usd) == (0, 100)
    assert wallet(organisation).blocked

    rest = top_up(organisation, "wire 2", 400)
    assert (rest.wallet_micro_usd, rest.receivable_micro_usd) == (250, 150)
    state = wallet(organisation)
    assert (state.available_micro_usd, state.receivable_micro_usd, state.blocked) == (250, 0, False)
    assert hold(organisation, "batch_2", a=250) == 0


def test_play_money_has_books_of_its_own(organisation: Organisation) -> None:
    twin = make_organisation(twin_of=organisation)
    top_up(twin, "play", 900)
    assert house_legs(twin) == {"wallet": 900, "top_up_clearing:test": -900}
    assert wallet(organisation).posted_micro_usd == 1_000
