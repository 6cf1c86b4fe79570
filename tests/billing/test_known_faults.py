"""Faults of other people's billing, each with the value that would have been right.

The number in a name is that of the fault in ``docs/money-tests.md``, which says where the other ones are tested.
"""

from __future__ import annotations

import itertools
import random
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction
from django.test import Client

from accounts.models import StaffRole
from billing.books.selectors import Axis
from billing.books.services import snapshot_now
from billing.domain.records import HoldState
from billing.errors import PostingConflict
from billing.models import Hold, LedgerTransaction, Receipt
from billing.selectors import prove_ledger, wallet
from billing.services.holds import void_hold
from billing.services.settlement import settle_batch
from billing.services.wallets import record_top_up
from catalog.domain.records import TokenKind
from console.overviews import customer_overview
from simulators.running import RunningSimulator
from tests.billing.kit import AT, assert_books_hold, at_once, group, hold, make_organisation, rows, settlement, usage
from tests.harness.clock import Clock
from tests.harness.database import TestServer
from tests.harness.world import Tenant, do_due_steps, make_tenant
from tests.routing.conftest import simulator, tenant  # noqa: F401 -- fixtures
from tests.routing.pages import scenes
from tests.routing.pages.conftest import signed_in, words_of
from tests.test_architecture import ROOT


def top_up(organisation: Any, reference: str, micro_usd: int, at: datetime = AT) -> Any:
    return record_top_up(
        organisation, reference=reference, amount_micro_usd=micro_usd, effective_at=at, recorded_by=None
    )


def test_1_2_and_41_a_finished_batch_has_its_one_receipt_however_often_it_is_read(
    tenant: Tenant,  # noqa: F811 -- the fixture
    simulator: RunningSimulator,  # noqa: F811 -- the same
    clock: Clock,
    superuser_connection: psycopg.Connection,
) -> None:
    batch = scenes.finished(scenes.accepted(tenant), simulator, clock)
    client = Client(headers=tenant.headers)
    state = wallet(tenant.organisation)
    first = client.get(f"/v1/batches/{batch.public_id}/receipt").content
    for _ in range(5):
        assert client.get(f"/v1/batches/{batch.public_id}").json()["status"] == "completed"
        do_due_steps()
    for _ in range(10):
        b"".join(client.get(f"/v1/batches/{batch.public_id}/results"))
    assert (Receipt.objects.count(), LedgerTransaction.objects.filter(kind="settlement").count()) == (1, 1)
    assert client.get(f"/v1/batches/{batch.public_id}/receipt").content == first
    assert wallet(tenant.organisation) == state
    assert_books_hold()
    with superuser_connection.transaction():
        superuser_connection.execute("SET LOCAL session_replication_role = replica")
        superuser_connection.execute("DELETE FROM billing_receipt")
    named = {check.rule: check.examples for check in prove_ledger().checks if check.violation_count}
    assert named["ended_batch_has_its_receipt"] == (batch.public_id,)


def test_7_input_that_was_cached_is_a_part_of_the_input_and_not_beside_it(db: None) -> None:
    asking = make_tenant()
    charged = group("a", (TokenKind.INPUT, 1_000_000, 86), (TokenKind.CACHED_INPUT, 500_000, 17_817))
    settle_batch(settlement(asking.organisation, "batch_1", charged))
    start = int(AT.timestamp()) - 3_600
    answer = Client(headers=asking.headers).get(f"/v1/usage?start_time={start}&end_time={start + 86_400}").json()
    (result,) = [result for bucket in answer["data"] for result in bucket["results"]]
    assert (result["input_tokens"], result["input_uncached_tokens"], result["input_cached_tokens"]) == (
        17_903,
        86,
        17_817,
    )
    # 86 x 1 + 17,817 x 0.5 = 86 + 8,908.5, whose tie goes to the even neighbour.
    assert result["charge_micro_usd"] == 8_994


@pytest.mark.parametrize(
    ("zone", "ends_at"),
    [
        ("Asia/Kathmandu", datetime(2026, 10, 31, 18, 15, tzinfo=UTC)),
        # On 1 November its clocks go back, two hours after the month began.
        ("America/Los_Angeles", datetime(2026, 11, 1, 7, tzinfo=UTC)),
        ("Europe/Berlin", datetime(2026, 10, 31, 23, tzinfo=UTC)),
        ("Asia/Tokyo", datetime(2026, 10, 31, 15, tzinfo=UTC)),
        ("Asia/Kathmandu", datetime(2028, 2, 29, 18, 15, tzinfo=UTC)),
        ("America/Los_Angeles", datetime(2026, 4, 1, 7, tzinfo=UTC)),
        ("Australia/Lord_Howe", datetime(2026, 4, 30, 13, 30, tzinfo=UTC)),
    ],
)
def test_10_a_month_ends_at_midnight_of_its_own_zone_and_loses_nothing(
    clock: Clock, zone: str, ends_at: datetime
) -> None:
    clock.freeze(ends_at - timedelta(days=3))
    organisation = make_organisation(money=1_000)
    organisation.reporting_zone = zone
    organisation.save(update_fields=["reporting_zone"])
    moment = timedelta(microseconds=1)
    # In the midst of the change: the last moment of the old month, the first two of the new one.
    for number, at in enumerate((ends_at - moment, ends_at, ends_at + moment)):
        clock.freeze(at)
        settle_batch(settlement(organisation, f"batch_{number}", usage("a", 10**number), settled_at=at))
    shown = customer_overview(organisation, ends_at + 2 * moment)
    assert (shown.charged_last_month_micro_usd, shown.charged_this_month_micro_usd) == (1, 110)
    assert customer_overview(organisation, ends_at).charged_this_month_micro_usd == 0


_KILLED = """
import os, signal, sys, psycopg
with psycopg.connect(sys.argv[1]) as connection:
    connection.execute("SELECT billing_place_holds(%s, %s, %s, %s, %s::timestamptz)",
        [int(sys.argv[2]), sys.argv[3], ["a"], [300], sys.argv[4]])
    if sys.argv[5] == "committed":
        connection.commit()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(("point", "held_micro_usd"), [("committed", 300), ("before", 0)])
def test_13_a_hold_of_a_killed_process_ends_at_its_second_without_any_sweep(
    test_server: TestServer, clock: Clock, point: str, held_micro_usd: int
) -> None:
    clock.freeze(AT)
    organisation = make_organisation(money=1_000)
    until = (AT + timedelta(minutes=5)).isoformat()
    arguments = [test_server.app_dsn, str(organisation.pk), "batch_1", until, point]
    done = subprocess.run([sys.executable, "-c", _KILLED, *arguments], check=False)
    assert done.returncode == -signal.SIGKILL
    clock.freeze(AT + timedelta(minutes=5, microseconds=-1))
    assert (wallet(organisation).available_micro_usd, wallet(organisation).held_micro_usd) == (
        1_000 - held_micro_usd,
        held_micro_usd,
    )
    clock.freeze(AT + timedelta(minutes=5))
    assert (wallet(organisation).available_micro_usd, wallet(organisation).held_micro_usd) == (1_000, 0)
    assert hold(organisation, "batch_2", a=1_000) == 0


def test_16_of_a_settlement_and_a_void_at_once_each_hold_has_one_exit(db: None) -> None:
    organisation = make_organisation(money=10_000)
    for number in range(20):
        batch = f"batch_{number}"
        hold(organisation, batch, a=100)
        acts = (
            lambda batch=batch: settle_batch(settlement(organisation, batch, usage("a", 60))),
            lambda batch=batch: void_hold(organisation, batch, "a"),
        )
        _, voided = at_once(2, lambda index, acts=acts: acts[index]())  # type: ignore[misc]
        found = Hold.objects.get(batch_public_id=batch)
        assert found.state in {HoldState.SETTLED, HoldState.VOIDED}
        assert voided.state == found.state  # type: ignore[union-attr]  # who came second is told how it ended
    state = wallet(organisation)
    assert (state.available_micro_usd, state.held_micro_usd) == (10_000 - 20 * 60, 0)
    assert Receipt.objects.count() == 20
    assert_books_hold()


def test_20_no_column_of_money_can_lose_a_micro_usd(owner_cursor: Any) -> None:
    columns = rows(
        owner_cursor,
        """SELECT table_name || '.' || column_name, data_type, coalesce(numeric_scale, 0)
        FROM information_schema.columns WHERE table_schema = 'public' AND column_name ~ '_(micro|pico)_usd'""",
    )
    assert len(columns) > 50
    assert [column for column in columns if column[1] not in {"bigint", "numeric"} or column[2] != 0] == []


def test_22_one_key_twice_in_one_call_is_one_posting_and_every_organisations_own(db: None) -> None:
    organisation, other = make_organisation(), make_organisation()
    with transaction.atomic():
        first, again = top_up(organisation, "wire 1", 500), top_up(organisation, "wire 1", 500)
        foreign = top_up(other, "wire 1", 700)
    assert (first.transaction_id == again.transaction_id, again.replayed, foreign.replayed) == (True, True, False)
    with pytest.raises(PostingConflict):
        top_up(organisation, "wire 1", 501)
    assert (wallet(organisation).posted_micro_usd, wallet(other).posted_micro_usd) == (500, 700)


def test_23_a_payment_whose_first_try_died_is_credited_by_the_second(db: None) -> None:
    organisation = make_organisation()

    def deliver(*, dies: bool) -> None:
        with transaction.atomic():
            top_up(organisation, "evt_1", 500)
            if dies:
                raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        deliver(dies=True)
    assert wallet(organisation).posted_micro_usd == 0
    deliver(dies=False)
    at_once(3, lambda _: deliver(dies=False))
    assert wallet(organisation).posted_micro_usd == 500


def test_28_and_47_a_balance_at_any_of_a_thousand_instants_is_the_sum_from_zero(
    clock: Clock, superuser_connection: psycopg.Connection
) -> None:
    dice = random.Random(47)
    clock.freeze(AT)
    organisations = [make_organisation() for _ in range(2)]
    moment, hour = timedelta(microseconds=1), timedelta(hours=1)
    cutoffs: list[datetime] = []
    for number in range(50):
        # Late by days, early by hours, and exactly at or beside the instants of snapshots.
        near = [cutoff + dice.choice((-moment, 0 * moment, moment)) for cutoff in cutoffs[-3:]]
        late = clock.now() - dice.randrange(1, 300) * hour
        effective_at = dice.choice([clock.now(), late, clock.now() + hour, *near])
        organisation = dice.choice(organisations)
        if dice.random() < 0.5:
            top_up(organisation, f"wire {number}", dice.randrange(1, 1_000), effective_at)
        else:
            charged = usage("a", dice.randrange(1, 900))
            settle_batch(settlement(organisation, f"batch_{number}", charged, settled_at=effective_at))
        if dice.random() < 0.2:
            cutoffs.append(clock.now())
            assert snapshot_now(clock.now()) is not None
            clock.advance(microseconds=1)
        clock.advance(minutes=dice.choice((0, 7, 600)))
    minutes = int((clock.now() - AT) / timedelta(minutes=1)) + 20_000
    instants = [AT + timedelta(minutes=dice.randrange(-19_000, minutes)) for _ in range(1_000 - 3 * len(cutoffs))]
    instants += [cutoff + step for cutoff in cutoffs for step in (-moment, 0 * moment, moment)]
    assert len(cutoffs) > 5
    with connection.cursor() as cursor:
        legs = rows(
            cursor,
            """SELECT leg.account_id, leg.amount_micro_usd, header.booked_at, header.effective_at
            FROM billing_ledgerleg leg JOIN billing_ledgertransaction header ON header.id = leg.transaction_id""",
        )
        accounts = sorted({account for account, *_ in legs})
        for column, axis in ((2, Axis.BOOKED), (3, Axis.EFFECTIVE)):
            found = rows(
                cursor,
                """SELECT at, account_id, balance_micro_usd FROM unnest(%s::timestamptz[]) at
                CROSS JOIN LATERAL billing_balances_as_of(%s::bigint[], at, %s)""",
                instants,
                accounts,
                axis.value,
            )
            from_zero = {
                (at, account): sum(leg[1] for leg in legs if leg[0] == account and leg[column] <= at)
                for at, account in itertools.product(instants, accounts)
            }
            assert {(at, account): balance for at, account, balance in found} == from_zero, axis
    assert_books_hold()
    with superuser_connection.transaction():
        superuser_connection.execute(
            "UPDATE billing_snapshotbalance SET effective_micro_usd = effective_micro_usd + 1 WHERE cutoff_at = %s",
            [cutoffs[2]],
        )
    (broken,) = [check.rule for check in prove_ledger().checks if check.violation_count]
    assert broken == "snapshot_of_a_balance_is_the_sum_of_its_legs"


def test_46_one_micro_usd_is_shown_on_the_side_of_its_account_and_without_a_sign(clock: Clock) -> None:
    clock.freeze(AT)
    organisation = make_organisation(money=1)
    fay = signed_in(scenes.staff(StaffRole.FINANCE, name="Fay Finance"))
    sides = {f"wallet:{organisation.public_id}": "Cr", "top_up_clearing:customer": "Dr"}
    for account, side in sides.items():
        page = words_of(fay.get(f"/fin/ledger/accounts/{account}/?since=2026-11-01"))
        movement = page.split("Opening balance $0.00")[1].split("Documentation")[0]
        assert movement.count(f"$0.00 0001 {side}") == 2, movement
        assert "\N{MINUS SIGN}" not in movement
    assert wallet(organisation).posted_micro_usd == 1


def test_every_test_that_the_table_of_faults_names_is_there() -> None:
    named = re.findall(r"`((?:\w+/)+\w+\.py)(?:::(\w+))?`", (ROOT / "docs" / "money-tests.md").read_text("utf-8"))
    assert len(named) > 40
    texts = {path: (ROOT / "tests" / path).read_text("utf-8") for path, _ in named}
    assert [name for path, name in named if name and f"def {name}(" not in texts[path]] == []
