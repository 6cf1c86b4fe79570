"""Balances at any instant, statements, snapshots, proofs."""

from __future__ import annotations

import itertools
import random
from datetime import datetime, timedelta

import psycopg
import pytest
from django.db import connection

from accounts.models import Organisation, StaffRole
from billing.books.models import ProofRun
from billing.books.selectors import (
    Axis,
    LegChoice,
    account_by_code,
    account_statement,
    accounts_of,
    balances_as_of,
    cursor_of,
    leg_page,
    totals_of,
)
from billing.books.services import prove_when_due, request_proof, snapshot_now, take_due_snapshot
from billing.books.wallet_selectors import wallet_page, wallet_proof
from billing.services.settlement import settle_batch
from billing.services.wallets import record_top_up
from tests.billing.kit import AT, fee, hold, make_organisation, settlement, usage
from tests.harness.clock import Clock
from tests.routing.pages.scenes import staff

BRUTE = """
SELECT account.id, coalesce(sum(leg.amount_micro_usd) FILTER (WHERE header.{axis}_at <= %s), 0)::bigint
FROM billing_ledgeraccount account LEFT JOIN billing_ledgerleg leg ON leg.account_id = account.id
LEFT JOIN billing_ledgertransaction header ON header.id = leg.transaction_id GROUP BY account.id
"""


def from_zero(at: datetime, axis: Axis) -> dict[int, int]:
    with connection.cursor() as cursor:
        cursor.execute(BRUTE.format(axis=axis.value), [at])
        return dict(cursor.fetchall())


def test_a_balance_from_snapshots_is_the_sum_from_the_first_leg_at_any_instant(clock: Clock) -> None:
    dice = random.Random(7)
    clock.freeze(AT)
    organisations = [make_organisation() for _ in range(2)]
    cutoffs = []
    for number in range(60):
        late = timedelta(hours=dice.choice([0, 0, 1, 30, 200]), minutes=dice.randrange(60))
        customer = dice.choice(organisations)
        effective_at = clock.now() - late
        if dice.random() < 0.6:
            record_top_up(
                customer,
                reference=f"wire {number}",
                amount_micro_usd=dice.randrange(1, 1_000),
                effective_at=effective_at + timedelta(hours=dice.choice([0, 0, 3])),
                recorded_by=None,
            )
        else:
            charged = usage("a", dice.randrange(1, 900))
            settle_batch(settlement(customer, f"batch_{number}", charged, settled_at=effective_at))
        if dice.random() < 0.2:
            cutoffs.append(clock.now())
            assert snapshot_now(clock.now()) is not None
            clock.advance(microseconds=1)
        clock.advance(minutes=dice.randrange(0, 300))
    assert len(cutoffs) > 5
    span_minutes = int((clock.now() - AT).total_seconds() // 60) + 15_000
    instants = [AT + timedelta(minutes=dice.randrange(-13_000, span_minutes)) for _ in range(60)]
    instants += cutoffs + [cutoff + timedelta(microseconds=1) for cutoff in cutoffs]
    for axis in Axis:
        for at in instants:
            assert balances_as_of(at, axis) == from_zero(at, axis), (axis, at)
    assert balances_as_of(AT, Axis.BOOKED, accounts_of("customer")[:1]).keys() == {accounts_of("customer")[0].pk}


ENTRIES = """
INSERT INTO billing_ledgertransaction (business_key, body_hash, kind, organisation_id, reference, effective_at,
        booked_at)
    SELECT 'entry:' || number, '', 'top_up', %(organisation)s, number::text, %(at)s + number * interval '1 second',
           %(at)s + number * interval '1 second'
    FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS number;
INSERT INTO billing_ledgerleg (transaction_id, leg_number, account_id, amount_micro_usd)
    SELECT header.id, leg, account.id, 2 * leg - 3
    FROM billing_ledgertransaction header, generate_series(1, 2) AS leg
    JOIN billing_ledgeraccount account ON account.code = (ARRAY['top_up_clearing:customer', %(wallet)s])[leg]
    WHERE header.business_key LIKE 'entry:%%' AND header.reference::bigint BETWEEN %(first)s AND %(last)s;
"""
ROWS_READ = """
SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::bigint FROM pg_stat_xact_user_tables
WHERE relname LIKE 'billing_%'
"""


@pytest.mark.parametrize("analysed", ["never", "young", "grown"])
def test_a_balance_reads_the_entries_of_its_span_whatever_is_known_of_the_tables(
    clock: Clock, superuser_connection: psycopg.Connection, analysed: str
) -> None:
    clock.freeze(AT)
    organisation = make_organisation(money=1)
    wallet = account_by_code(f"wallet:{organisation.public_id}")
    many = {"at": AT, "organisation": organisation.pk, "wallet": wallet.code}
    server = psycopg.ClientCursor(superuser_connection)
    # A snapshot after every 200 entries of 4,000; since the newest, 1,000 more.
    for first in range(1, 5_001, 200):
        last = first + 199
        with superuser_connection.transaction():
            server.execute("SET LOCAL session_replication_role = replica")
            server.execute(ENTRIES, {**many, "first": first, "last": last})
        if last <= 4_000:
            server.execute("SELECT billing_take_snapshot(%s)", [AT + timedelta(seconds=last)])
        if (analysed, first) in {("young", 1), ("grown", 4_801)}:
            server.execute("ANALYZE billing_ledgertransaction, billing_ledgerleg, billing_ledgersnapshot")
    for seconds, axis in itertools.product((150, 2_100, 3_999, 4_000), Axis):
        with superuser_connection.transaction():
            (before,) = server.execute(ROWS_READ).fetchone() or (0,)
            found = server.execute(
                "SELECT balance_micro_usd FROM billing_balances_as_of(ARRAY[%s], %s, %s)",
                [wallet.pk, AT + timedelta(seconds=seconds), axis.value],
            ).fetchone()
            (after,) = server.execute(ROWS_READ).fetchone() or (0,)
        assert found == (1 + seconds,)
        # At most 199 entries, two legs each; a minute of entries before the newest snapshot; and a few of the others.
        assert after - before < 199 * 3 + 60 + 60, (seconds, axis)


def test_a_snapshot_is_taken_once_an_hour_of_an_hour_ago(clock: Clock) -> None:
    clock.freeze(AT)
    make_organisation(money=5)
    assert take_due_snapshot() == AT - timedelta(hours=1)
    clock.advance(minutes=59)
    assert take_due_snapshot() is None
    clock.advance(minutes=1)
    assert take_due_snapshot() == AT


@pytest.fixture
def traded(clock: Clock) -> Organisation:
    """Topped up on 1 Nov, settled on 2 and 3 Nov at 12:00."""
    clock.freeze(AT - timedelta(days=2))
    organisation = make_organisation(money=1_000)
    hold(organisation, "batch_1", a=400)
    for number in (1, 2):
        clock.advance(days=1)
        charged = settlement(organisation, f"batch_{number}", usage("a", 100 * number), fees=[fee("a", 20)])
        settle_batch(charged)
    return organisation


def test_a_statement_opens_with_what_was_and_closes_with_what_is(traded: Organisation) -> None:
    wallet = account_by_code(f"wallet:{traded.public_id}")
    day = timedelta(days=1)
    whole = account_statement(wallet, since=AT - day, until=AT + day)
    assert (whole.opening_micro_usd, whole.debit_micro_usd, whole.credit_micro_usd, whole.closing_micro_usd) == (
        1_000,
        340,
        0,
        660,
    )
    assert [movement.balance_micro_usd for movement in whole.movements] == [880, 660]
    first = account_statement(wallet, since=AT - day, until=AT + day, limit=1)
    rest = account_statement(wallet, since=AT - day, until=AT + day, after=cursor_of(first.movements[0].leg))
    assert (first.has_more, rest.has_more) == (True, False)
    assert [*first.movements, *rest.movements] == list(whole.movements)
    # The instant of the last settlement belongs to the span that begins with it.
    until_then = account_statement(wallet, since=AT - day, until=AT)
    from_then = account_statement(wallet, since=AT, until=AT + day)
    assert until_then.closing_micro_usd == from_then.opening_micro_usd == 880


def test_entries_are_summed_over_all_pages_and_the_trial_balance_is_zero(traded: Organisation) -> None:
    page = leg_page(LegChoice(), after=None, limit=3)
    everything = leg_page(LegChoice(), after=None, limit=100)
    assert (page.debit_micro_usd, page.credit_micro_usd, page.has_more) == (1_340, 1_340, True)
    rest = leg_page(LegChoice(), after=cursor_of(page.legs[-1]), limit=100)
    assert [*page.legs, *rest.legs] == list(everything.legs)
    fees = leg_page(LegChoice(account_kind="revenue_fee", least_micro_usd=20), after=None, limit=10)
    assert (fees.debit_micro_usd, fees.credit_micro_usd, len(fees.legs)) == (0, 40, 2)
    accounts = accounts_of("customer")
    totals = totals_of(accounts, balances_as_of(AT, Axis.EFFECTIVE, accounts))
    assert {total.kind: (total.debit_micro_usd, total.credit_micro_usd) for total in totals} == {
        "customer_wallet": (0, 660),
        "customer_receivable": (0, 0),
        "top_up_clearing": (1_000, 0),
        "revenue_usage": (0, 300),
        "revenue_fee": (0, 40),
    }


def test_wallets_equal_the_ledger_and_a_broken_one_shows(
    traded: Organisation, superuser_connection: psycopg.Connection
) -> None:
    rows, has_more = wallet_page(after=None, limit=10)
    (row,) = rows
    assert (row.organisation, row.available_micro_usd, row.settled_micro_usd, has_more) == (traded, 660, 340, False)
    assert wallet_page(after=None, limit=10, below_micro_usd=660)[0] == []
    assert wallet_proof().holds
    with superuser_connection.transaction():
        superuser_connection.execute("SET LOCAL session_replication_role = replica")
        superuser_connection.execute("UPDATE billing_customerbalance SET posted_micro_usd = posted_micro_usd + 1")
    proof = wallet_proof()
    assert (proof.holds, proof.wallet_sum_micro_usd, proof.ledger_wallet_micro_usd) == (False, 661, 660)


def test_the_books_are_proven_each_day_and_when_asked_and_what_is_broken_is_kept(
    traded: Organisation, clock: Clock, superuser_connection: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    first = prove_when_due()
    assert first is not None
    assert (first.holds, first.leg_count) == (True, 8)
    assert prove_when_due() is None
    fay = staff(StaffRole.FINANCE)
    request_proof(fay)
    request_proof(fay)
    with superuser_connection.transaction():
        superuser_connection.execute("SET LOCAL session_replication_role = replica")
        superuser_connection.execute("UPDATE billing_customerbalance SET posted_micro_usd = posted_micro_usd + 1")
    asked = prove_when_due()
    assert asked is not None
    broken = [check["rule"] for check in asked.checks if check["violation_count"]]
    assert (asked.holds, asked.requested_by, broken) == (False, fay, ["balance_is_the_sum_of_its_legs"])
    assert "the books do not hold" in caplog.text
    assert prove_when_due() is None
    clock.advance(days=1, seconds=1)
    assert prove_when_due() is not None
    assert ProofRun.objects.count() == 3
