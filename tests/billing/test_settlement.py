"""Settlement: one posting, one receipt, never refused, never another batch's money; values worked out by hand."""

from __future__ import annotations

import logging
import random
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection, transaction

from accounts.models import Organisation
from billing.domain.records import GroupHold, HoldState, ProviderCost
from billing.errors import PostingConflict
from billing.models import Hold, LedgerTransaction, Receipt
from billing.selectors import receipt_for_batch, wallet
from billing.services.holds import place_holds, void_hold
from billing.services.settlement import settle_batch
from billing.services.wallets import record_top_up
from catalog.domain.records import TokenKind
from ground.errors import PaymentRequired
from tests.billing.kit import (
    AT,
    assert_books_hold,
    at_once,
    fee,
    group,
    hold,
    house_legs,
    make_organisation,
    settlement,
    usage,
)
from tests.harness.clock import Clock


@pytest.fixture(autouse=True)
def books_hold(db: None) -> object:
    yield
    assert_books_hold()


def lines_of(receipt: Receipt) -> list[tuple[str, str, int | None, int | None, int, int]]:
    return [
        (
            line.lane_id,
            line.kind,
            line.tokens,
            line.rate_micro_usd_per_mtok,
            line.amount_micro_usd,
            int(line.exact_pico_usd),
        )
        for line in receipt.lines.all()
    ]


def test_a_settlement_charges_closes_the_holds_and_writes_the_receipt(db: None) -> None:
    organisation = make_organisation(money=100_000)
    hold(organisation, "batch_1", a=30_000, b=21_000)
    receipt = settle_batch(
        settlement(
            organisation,
            "batch_1",
            # 2,155 x 0.075 = 161.625 -> 162; 1,000 x 0.3 = 300
            group("a", (TokenKind.INPUT, 75_000, 2_155), (TokenKind.OUTPUT, 300_000, 1_000)),
            # 1,025 x 0.3 = 307.5 -> 308 (even)
            group("b", (TokenKind.OUTPUT, 300_000, 1_025)),
            fees=[fee("a", 20_000)],
        )
    )
    assert lines_of(receipt) == [
        ("lane-a", "input", 2_155, 75_000, 162, 161_625_000),
        ("lane-a", "output", 1_000, 300_000, 300, 300_000_000),
        ("lane-b", "output", 1_025, 300_000, 308, 307_500_000),
        ("lane-a", "control_plane_fee", None, None, 20_000, 20_000_000_000),
    ]
    assert (receipt.usage_charge_micro_usd, receipt.fee_micro_usd, receipt.total_micro_usd) == (770, 20_000, 20_770)
    assert (receipt.reserved_micro_usd, receipt.released_micro_usd) == (51_000, 30_230)
    settled = dict(Hold.objects.values_list("group_key", "settled_micro_usd"))
    assert settled == {"a": 20_462, "b": 308}
    state = wallet(organisation)
    assert (state.available_micro_usd, state.held_micro_usd, state.posted_micro_usd) == (79_230, 0, 79_230)
    assert house_legs(organisation) == {
        "wallet": 79_230,
        "top_up_clearing:customer": -100_000,
        "revenue_usage:customer": 770,
        "revenue_fee:customer": 20_000,
    }


def test_a_batch_settled_at_zero_has_its_posting_and_its_receipt(organisation: Organisation) -> None:
    hold(organisation, "batch_1", a=200)
    receipt = settle_batch(settlement(organisation, "batch_1", group("a")))
    assert lines_of(receipt) == []
    assert (receipt.total_micro_usd, receipt.reserved_micro_usd, receipt.released_micro_usd) == (0, 200, 200)
    assert LedgerTransaction.objects.get(business_key="settle:batch_1").legs.count() == 2
    assert wallet(organisation).available_micro_usd == 1_000


def test_the_houses_cost_is_posted_beside_the_charge_also_where_nothing_is_charged(organisation: Organisation) -> None:
    costs = [
        ProviderCost(provider="openai", provider_account="main", cost_pico_usd=1_500_000),  # a tie: 2
        ProviderCost(provider="openai", provider_account="spare", cost_pico_usd=400_000),  # rounds to nothing
        ProviderCost(provider="anthropic", provider_account="main", cost_pico_usd=7_000_000),
    ]
    settle_batch(settlement(organisation, "batch_1", group("a"), costs=costs))
    legs = house_legs(organisation)
    assert legs["cost_of_service:customer"] == -9
    assert legs["provider_payable:customer:openai:main"] == 2
    assert legs["provider_payable:customer:anthropic:main"] == 7
    assert "provider_payable:customer:openai:spare" not in legs
    assert wallet(organisation).posted_micro_usd == 1_000


def test_the_same_settlement_again_gives_the_same_receipt(organisation: Organisation) -> None:
    request = settlement(organisation, "batch_1", usage("a", 300), usage("b", 50), fees=[fee("a", 20)])
    first = settle_batch(request)
    later = replace(request, settled_at=AT + timedelta(minutes=3), groups=request.groups[::-1])
    assert settle_batch(later).public_id == first.public_id
    assert Receipt.objects.get().settled_at == AT
    assert wallet(organisation).posted_micro_usd == 630


def test_another_settlement_of_the_same_batch_conflicts(organisation: Organisation) -> None:
    settle_batch(settlement(organisation, "batch_1", usage("a", 300)))
    for other in (
        settlement(organisation, "batch_1", usage("a", 301)),
        settlement(organisation, "batch_1", usage("a", 300), fees=[fee("a", 20)]),
        settlement(
            organisation,
            "batch_1",
            usage("a", 300),
            costs=[ProviderCost(provider="openai", provider_account="main", cost_pico_usd=1)],
        ),
    ):
        with pytest.raises(PostingConflict):
            settle_batch(other)
    assert wallet(organisation).posted_micro_usd == 700


def test_settled_by_ten_at_once_a_batch_is_charged_once(organisation: Organisation) -> None:
    hold(organisation, "batch_1", a=400)
    answers = at_once(10, lambda _: settle_batch(settlement(organisation, "batch_1", usage("a", 300))).public_id)
    assert len(set(answers)) == 1
    assert wallet(organisation).posted_micro_usd == 700


def test_many_batches_settled_at_once_all_arrive(db: None) -> None:
    organisations = [make_organisation(money=1_000) for _ in range(4)]
    cost = ProviderCost(provider="openai", provider_account="main", cost_pico_usd=10_000_000)

    def settle(number: int) -> int:
        owner = organisations[number % 4]
        request = settlement(owner, f"batch_{number}", usage("a", 100), fees=[fee("a", 20)], costs=[cost])
        return settle_batch(request).total_micro_usd

    assert at_once(20, settle) == [120] * 20
    assert [wallet(owner).posted_micro_usd for owner in organisations] == [400] * 4


def test_a_charge_above_the_hold_takes_what_the_wallet_has_left(organisation: Organisation) -> None:
    hold(organisation, "batch_1", a=100)
    receipt = settle_batch(settlement(organisation, "batch_1", usage("a", 250)))
    assert (receipt.receivable_micro_usd, receipt.reserved_micro_usd, receipt.released_micro_usd) == (0, 100, 0)
    assert Hold.objects.get().settled_micro_usd == 100
    assert wallet(organisation).available_micro_usd == 750


def test_an_overrun_never_takes_another_batchs_hold(
    organisation: Organisation, caplog: pytest.LogCaptureFixture
) -> None:
    hold(organisation, "batch_1", a=100)
    hold(organisation, "batch_2", a=700)
    # 100 of its own hold and 200 that are free; 150 are owed.
    receipt = settle_batch(settlement(organisation, "batch_1", usage("a", 450)))
    assert (receipt.total_micro_usd, receipt.receivable_micro_usd) == (450, 150)
    state = wallet(organisation)
    assert (state.posted_micro_usd, state.held_micro_usd, state.available_micro_usd) == (700, 700, 0)
    assert (state.receivable_micro_usd, state.blocked) == (150, True)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    # The other batch still settles from its own hold.
    assert settle_batch(settlement(organisation, "batch_2", usage("a", 700))).receivable_micro_usd == 0


def test_a_batch_whose_hold_is_gone_is_settled_all_the_same(organisation: Organisation) -> None:
    hold(organisation, "batch_1", a=900)
    void_hold(organisation, "batch_1", "a")
    hold(organisation, "batch_2", a=800)
    receipt = settle_batch(settlement(organisation, "batch_1", usage("a", 300)))
    assert (receipt.total_micro_usd, receipt.receivable_micro_usd) == (300, 100)


@pytest.mark.parametrize(("seconds", "state"), [(-1, HoldState.SETTLED), (0, HoldState.EXPIRED)])
def test_a_hold_settles_until_the_second_it_lapses(clock: Clock, seconds: int, state: HoldState) -> None:
    organisation = make_organisation(money=1_000)
    now = clock.freeze(AT)
    place_holds(
        organisation,
        "batch_1",
        [GroupHold(group_key="a", reserved_micro_usd=700)],
        expires_at=now + timedelta(minutes=5),
    )
    clock.advance(minutes=5, seconds=seconds)
    receipt = settle_batch(settlement(organisation, "batch_1", usage("a", 300)))
    assert Hold.objects.get().state == state
    assert (receipt.total_micro_usd, wallet(organisation).available_micro_usd) == (300, 700)


def test_settlement_opens_a_wallet_where_there_is_none(db: None) -> None:
    organisation = make_organisation()
    receipt = settle_batch(settlement(organisation, "batch_1", usage("a", 5)))
    assert receipt.receivable_micro_usd == 5


def test_usage_above_the_ceiling_is_paid_by_the_house_and_rings(
    organisation: Organisation, caplog: pytest.LogCaptureFixture
) -> None:
    receipt = settle_batch(
        settlement(organisation, "batch_1", usage("a", 400), fees=[fee("a", 20)], ceiling_micro_usd=320)
    )
    assert lines_of(receipt)[-1] == ("lane-a", "ceiling_credit", None, None, -100, -100_000_000)
    assert (receipt.usage_charge_micro_usd, receipt.total_micro_usd) == (300, 320)
    legs = house_legs(organisation)
    assert (legs["revenue_usage:customer"], legs["ceiling_credit:customer"], legs["wallet"]) == (400, -100, 680)
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_a_line_beyond_sixty_four_bits_of_pico_usd_keeps_its_exact_amount(organisation: Organisation) -> None:
    receipt = settle_batch(
        settlement(
            organisation, "batch_1", group("a", (TokenKind.OUTPUT, 15_000_001, 10**12 + 1)), ceiling_micro_usd=10**18
        )
    )
    assert lines_of(receipt)[0][4:] == (15_000_001_000_015, (10**12 + 1) * 15_000_001)


def test_a_receipt_belongs_to_its_organisation(organisation: Organisation) -> None:
    settle_batch(settlement(organisation, "batch_1", usage("a", 5)))
    assert receipt_for_batch(organisation, "batch_1").total_micro_usd == 5
    with pytest.raises(Exception, match="no such receipt"):
        receipt_for_batch(make_organisation(), "batch_1")


@pytest.mark.parametrize("seed", range(5))
def test_whatever_happens_granted_is_available_held_and_spent(db: None, seed: int) -> None:
    chance = random.Random(seed)
    organisation = make_organisation(money=1_000)
    granted, spent, open_batches = 1_000, 0, []
    for step in range(60):
        batch = f"batch_{seed}_{step}"
        match chance.choice(("hold", "hold", "settle", "void", "top_up")):
            case "hold":
                try:
                    hold(organisation, batch, a=chance.randrange(300), b=chance.randrange(300))
                    open_batches.append(batch)
                except PaymentRequired:
                    pass
            case "settle" if open_batches:
                batch = open_batches.pop(chance.randrange(len(open_batches)))
                request = settlement(organisation, batch, usage("a", chance.randrange(1, 400)), usage("b", 7))
                spent += settle_batch(request).total_micro_usd
            case "void" if open_batches:
                void_hold(organisation, chance.choice(open_batches), chance.choice("ab"))
            case "top_up":
                granted += (amount := chance.randrange(1, 200))
                record_top_up(organisation, reference=batch, amount_micro_usd=amount, effective_at=AT, recorded_by=None)
        state = wallet(organisation)
        assert granted + state.receivable_micro_usd == state.available_micro_usd + state.held_micro_usd + spent
        assert min(state.available_micro_usd, state.held_micro_usd, state.receivable_micro_usd) >= 0


def test_a_settlement_opens_the_usage_of_its_own_month_alone(clock: Clock) -> None:
    clock.freeze(AT)
    organisation = make_organisation(money=1_000)
    settle_batch(settlement(organisation, "batch_1", usage("a", 300)))  # Statements are planned by now.
    with transaction.atomic(), connection.cursor() as cursor:
        settle_batch(settlement(organisation, "batch_2", usage("a", 300)))
        # Whoever opens an index locks it until the transaction ends.
        cursor.execute(
            """SELECT DISTINCT opened.indrelid::regclass::text FROM pg_locks lock
            JOIN pg_index opened ON opened.indexrelid = lock.relation
            WHERE lock.pid = pg_backend_pid() AND opened.indrelid::regclass::text LIKE 'usage_fact%'"""
        )
        assert len(cursor.fetchall()) == 1
        cursor.execute("SELECT count(*) FROM pg_inherits WHERE inhparent = 'usage_fact'::regclass")
        assert cursor.fetchone() >= (3,)
