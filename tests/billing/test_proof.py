"""The whole proof finds what a superuser broke with the triggers off."""

from __future__ import annotations

import psycopg
import pytest

from accounts.models import Organisation
from billing.selectors import prove_ledger
from billing.services.settlement import settle_batch
from tests.billing.kit import fee, hold, settlement, usage


@pytest.fixture
def settled(organisation: Organisation) -> Organisation:
    hold(organisation, "batch_1", a=400)
    hold(organisation, "batch_2", a=100)
    settle_batch(settlement(organisation, "batch_1", usage("a", 300), fees=[fee("a", 20)]))
    return organisation


def test_the_books_of_a_working_house_hold(settled: Organisation) -> None:
    proof = prove_ledger()
    assert proof.holds
    # Fifteen of the books, one of their snapshots, two of batches.
    assert len(proof.checks) == 18


@pytest.mark.parametrize(
    ("damage", "rules"),
    [
        (
            "UPDATE billing_ledgerleg SET amount_micro_usd = amount_micro_usd + 1 WHERE amount_micro_usd = 1000",
            {"transaction_has_two_legs_that_sum_to_zero", "balance_is_the_sum_of_its_legs"},
        ),
        (
            "DELETE FROM billing_ledgertransaction WHERE kind = 'top_up'",
            {"leg_has_a_transaction_and_an_account"},
        ),
        ("UPDATE billing_customerbalance SET posted_micro_usd = 10^9", {"balance_is_the_sum_of_its_legs"}),
        ("UPDATE billing_customerbalance SET receivable_micro_usd = 5", {"balance_is_the_sum_of_its_legs"}),
        (
            "DELETE FROM billing_customerbalance",
            {"balance_is_the_sum_of_its_legs", "held_is_the_sum_of_open_holds"},
        ),
        ("UPDATE billing_customerbalance SET held_micro_usd = 0", {"held_is_the_sum_of_open_holds"}),
        ("UPDATE billing_receiptline SET amount_micro_usd = 299 WHERE kind = 'input'", {"receipt_equals_its_lines"}),
        (
            """UPDATE billing_receipt SET total_micro_usd = 319, usage_charge_micro_usd = 299;
            UPDATE billing_receiptline SET amount_micro_usd = 299 WHERE kind = 'input'""",
            {"receipt_equals_its_posting", "receipt_is_counted_once_as_usage"},
        ),
        (
            "UPDATE usage_fact SET settled_at = settled_at, fee_micro_usd = 1",
            {"receipt_is_counted_once_as_usage", "rolled_up_usage_is_the_sum_of_its_facts"},
        ),
        ("UPDATE usage_rollup SET request_count = 7", {"rolled_up_usage_is_the_sum_of_its_facts"}),
        ("DELETE FROM billing_receipt", {"settlement_has_one_receipt"}),
        (
            "UPDATE billing_hold SET batch_public_id = 'batch_3' WHERE state = 'settled'",
            {"settled_hold_belongs_to_its_batch"},
        ),
        (
            "UPDATE billing_hold SET batch_public_id = 'batch_1', group_key = 'b' WHERE state = 'open'",
            {"settled_batch_has_no_open_hold"},
        ),
        (
            "UPDATE billing_ledgeraccount SET book = 'test' WHERE kind = 'revenue_usage'",
            {"play_money_stays_in_its_own_book"},
        ),
    ],
)
def test_what_a_superuser_breaks_is_found(
    settled: Organisation, superuser_connection: psycopg.Connection, damage: str, rules: set[str]
) -> None:
    with superuser_connection.transaction():
        superuser_connection.execute("SET LOCAL session_replication_role = replica")
        superuser_connection.execute(damage)
    proof = prove_ledger()
    assert {check.rule for check in proof.checks if check.violation_count} == rules
    assert not proof.holds
    assert all(check.examples for check in proof.checks if check.violation_count)
