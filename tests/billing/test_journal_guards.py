"""Each promise of the journal, attacked with raw SQL by the application's role and by the owner."""

from __future__ import annotations

import psycopg
import pytest

from accounts.models import Organisation
from billing.services.settlement import settle_batch
from tests.billing.kit import assert_books_hold, broken_rule, fee, hold, make_organisation, rows, settlement, usage

JOURNAL = (
    "billing_ledgeraccount",
    "billing_ledgertransaction",
    "billing_ledgerleg",
    "billing_receipt",
    "billing_receiptline",
)


# Of what is written by hand; no sequence comes there, however many tests ran before.
RAW_ID = 7_000_000_000


def header(key: str, kind: str = "top_up") -> str:
    return f"""INSERT INTO billing_ledgertransaction
        (id, business_key, body_hash, kind, organisation_id, reference, effective_at, booked_at)
        OVERRIDING SYSTEM VALUE
        SELECT {RAW_ID}, '{key}', '\\x00', '{kind}', id, '', now(), now() FROM accounts_organisation LIMIT 1"""


def legs(*amounts: int, transaction: int = RAW_ID, first: int = 1) -> str:
    values = ", ".join(
        f"""({transaction}, {number}, (SELECT id FROM billing_ledgeraccount
            WHERE kind = '{"top_up_clearing" if amount < 0 else "customer_wallet"}'), {amount})"""
        for number, amount in enumerate(amounts, first)
    )
    return f"INSERT INTO billing_ledgerleg (transaction_id, leg_number, account_id, amount_micro_usd) VALUES {values}"


def raw_hold(organisation: Organisation, amount: int) -> str:
    return f"""INSERT INTO billing_hold
        (organisation_id, batch_public_id, group_key, amount_micro_usd, state, created_at)
        VALUES ({organisation.pk}, 'batch_9', 'a', {amount}, 'open', now())"""


@pytest.fixture
def settled(organisation: Organisation) -> Organisation:
    """One settled batch, so that every journal table has rows."""
    hold(organisation, "batch_1", a=400)
    settle_batch(settlement(organisation, "batch_1", usage("a", 300), fees=[fee("a", 20)]))
    return organisation


@pytest.fixture(autouse=True)
def books_hold(db: None) -> object:
    yield
    assert_books_hold()


@pytest.mark.parametrize("table", JOURNAL)
@pytest.mark.parametrize("statement", ["UPDATE {} SET id = id", "UPDATE {} SET id = id WHERE false", "DELETE FROM {}"])
def test_the_journal_is_append_only(
    settled: Organisation, attacker: psycopg.Cursor, table: str, statement: str
) -> None:
    assert broken_rule(attacker, statement.format(table)) in {"no privilege", "journal_is_append_only"}


@pytest.mark.parametrize("table", [*JOURNAL, "billing_hold", "billing_customerbalance"])
def test_nothing_can_be_truncated(settled: Organisation, owner_cursor: psycopg.Cursor, table: str) -> None:
    assert broken_rule(owner_cursor, f"TRUNCATE {table} CASCADE") == "journal_is_append_only"


@pytest.mark.parametrize("table", [*JOURNAL, "billing_hold", "billing_customerbalance", "attempt_fact"])
def test_the_application_may_neither_change_nor_empty_the_journal(
    settled: Organisation, app_cursor: psycopg.Cursor, table: str
) -> None:
    for statement in (f"UPDATE {table} SET organisation_id = 1", f"DELETE FROM {table}", f"TRUNCATE {table}"):
        with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedColumn)):
            app_cursor.execute(statement)
    privileges = rows(
        app_cursor,
        "SELECT bool_or(has_table_privilege(%s, name)) FROM unnest(ARRAY['UPDATE', 'DELETE', 'TRUNCATE']) AS name",
        table,
    )
    assert privileges == [(False,)]


def test_on_conflict_do_update_is_no_way_round(settled: Organisation, owner_cursor: psycopg.Cursor) -> None:
    statement = """INSERT INTO billing_ledgeraccount (code, kind, book, created_at)
        VALUES ('revenue_usage:customer', 'revenue_usage', 'customer', now())
        ON CONFLICT (code) DO UPDATE SET book = 'test'"""
    assert broken_rule(owner_cursor, statement) == "journal_is_append_only"


@pytest.mark.parametrize(
    ("amounts", "rule"),
    [
        ((), "transaction_has_two_legs"),
        ((5,), "transaction_has_two_legs"),
        ((5, -4), "transaction_sums_to_zero"),
        ((5, 5), "transaction_sums_to_zero"),
        ((5, 0, -5), "leg_is_never_zero"),
        ((0, 0), "leg_is_never_zero"),
    ],
)
def test_a_transaction_balances(
    organisation: Organisation, attacker: psycopg.Cursor, amounts: tuple[int, ...], rule: str
) -> None:
    assert broken_rule(attacker, header("raw"), *([legs(*amounts)] if amounts else [])) == rule


def test_a_balanced_transaction_moves_the_balance_with_it(organisation: Organisation, attacker: psycopg.Cursor) -> None:
    assert broken_rule(attacker, header("raw"), legs(5, -5)) == "nothing"
    assert rows(attacker, "SELECT posted_micro_usd FROM billing_customerbalance") == [(1_005,)]


def test_no_leg_joins_an_older_transaction(organisation: Organisation, attacker: psycopg.Cursor) -> None:
    [(older,)] = rows(attacker, "SELECT id FROM billing_ledgertransaction")
    assert broken_rule(attacker, legs(5, -5, transaction=older, first=8)) == "legs_come_with_their_transaction"


def test_no_leg_stands_without_a_transaction(organisation: Organisation, attacker: psycopg.Cursor) -> None:
    assert broken_rule(attacker, legs(5, -5)) == "legs_come_with_their_transaction"


def test_no_transaction_moves_the_money_of_another_customer(
    organisation: Organisation, attacker: psycopg.Cursor
) -> None:
    other = make_organisation(money=500)
    own = header("raw").replace("LIMIT 1", f"WHERE id = {organisation.pk}")
    theirs = legs(5, -5).replace("kind = 'customer_wallet'", f"code = 'wallet:{other.public_id}'")
    assert broken_rule(attacker, own, theirs) == "transaction_concerns_its_own_customer"


def test_a_transaction_is_of_a_known_kind(organisation: Organisation, attacker: psycopg.Cursor) -> None:
    assert broken_rule(attacker, header("raw", kind="gift"), legs(5, -5)) == "ledger_transaction_kind_is_known"


def test_no_leg_names_an_account_that_is_not_there(organisation: Organisation, attacker: psycopg.Cursor) -> None:
    nowhere = legs(5, -5).replace(
        "(SELECT id FROM billing_ledgeraccount", "(SELECT max(id) + 1000 FROM billing_ledgeraccount"
    )
    assert broken_rule(attacker, header("raw"), nowhere) == "leg_has_an_account"


def test_checking_early_does_not_open_the_transaction_to_more_legs(
    organisation: Organisation, attacker: psycopg.Cursor
) -> None:
    rule = broken_rule(
        attacker, header("raw"), legs(5, -5), "SET CONSTRAINTS ALL IMMEDIATE", legs(7, transaction=RAW_ID, first=3)
    )
    assert rule == "legs_come_in_one_statement"


def test_a_header_cannot_claim_another_database_transaction(
    organisation: Organisation, owner_cursor: psycopg.Cursor
) -> None:
    forged = (
        header("raw").replace("(id, ", "(created_in, id, ").replace(f"SELECT {RAW_ID}", f"SELECT '1'::xid8, {RAW_ID}")
    )
    assert broken_rule(owner_cursor, forged, legs(5, -5)) == "nothing"
    stamped = rows(owner_cursor, f"SELECT created_in::text FROM billing_ledgertransaction WHERE id = {RAW_ID}")
    assert stamped != [("1",)]


def test_a_business_key_is_used_once(organisation: Organisation, attacker: psycopg.Cursor) -> None:
    key = f"top_up:{organisation.public_id}:first"
    assert broken_rule(attacker, header(key), legs(5, -5)).startswith("billing_ledgertransaction_business_key")


def test_the_balance_never_falls_below_its_floor(organisation: Organisation, attacker: psycopg.Cursor) -> None:
    taking = legs(1_001, -1_001).replace("'customer_wallet'", "'x'").replace("'top_up_clearing'", "'customer_wallet'")
    taking = taking.replace("'x'", "'top_up_clearing'")
    assert broken_rule(attacker, header("raw"), taking) == "balance_stays_above_its_floor"


@pytest.mark.parametrize(
    "change", ["posted_micro_usd = 10^9", "held_micro_usd = 1", "receivable_micro_usd = 1", "posted_micro_usd = 0"]
)
def test_nobody_moves_a_balance_by_hand(organisation: Organisation, attacker: psycopg.Cursor, change: str) -> None:
    rule = broken_rule(attacker, f"UPDATE billing_customerbalance SET {change}")
    assert rule in {"no privilege", "balance_follows_the_journal"}


def test_a_balance_begins_at_zero(organisation: Organisation, owner_cursor: psycopg.Cursor) -> None:
    statement = """INSERT INTO billing_customerbalance SELECT id, 5, 0, 0, 0 FROM accounts_organisation"""
    assert broken_rule(owner_cursor, statement) == "balance_follows_the_journal"


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ("amount_micro_usd = 1", "hold_has_one_exit"),
        ("state = 'open', group_key = 'b'", "hold_has_one_exit"),
        ("state = 'voided', closed_at = now(), amount_micro_usd = 1", "hold_has_one_exit"),
        ("state = 'expired', closed_at = now()", "hold_lapses_by_the_clock"),
        ("state = 'voided'", "hold_is_open_or_has_one_exit"),
        ("state = 'settled', closed_at = now(), settled_micro_usd = 1", "hold_is_open_or_has_one_exit"),
    ],
)
def test_a_hold_changes_only_by_its_exit(
    organisation: Organisation, owner_cursor: psycopg.Cursor, change: str, rule: str
) -> None:
    hold(organisation, "batch_1", a=400)
    assert broken_rule(owner_cursor, f"UPDATE billing_hold SET {change}") == rule


def test_a_closed_hold_stays_closed(settled: Organisation, owner_cursor: psycopg.Cursor) -> None:
    for state in ("open", "voided", "settled"):
        assert broken_rule(owner_cursor, f"UPDATE billing_hold SET state = '{state}'") == "hold_has_one_exit"


def test_a_hold_cannot_be_settled_for_more_than_it_holds(
    organisation: Organisation, owner_cursor: psycopg.Cursor
) -> None:
    hold(organisation, "batch_1", a=400)
    change = """UPDATE billing_hold SET state = 'settled', closed_at = now(), settled_micro_usd = 401,
        transaction_id = (SELECT id FROM billing_ledgertransaction)"""
    assert broken_rule(owner_cursor, change) == "hold_is_open_or_has_one_exit"


def test_a_hold_is_settled_by_the_posting_that_is_made_for_it(
    organisation: Organisation, owner_cursor: psycopg.Cursor
) -> None:
    hold(organisation, "batch_9", a=400)
    settle = """UPDATE billing_hold SET state = 'settled', closed_at = now(), settled_micro_usd = 5,
        transaction_id = (SELECT max(id) FROM billing_ledgertransaction)"""
    ours = SETTLING.replace("id, '', now()", "id, 'batch_9', now()")
    written = (raw_receipt("batch_9", total=5, line_count=1), raw_line(5), COUNTED)
    assert broken_rule(owner_cursor, settle) == "hold_is_settled_by_its_posting"
    assert broken_rule(owner_cursor, SETTLING, settle) == "hold_is_settled_by_its_posting"
    assert broken_rule(owner_cursor, ours, *written, taken(5), settle) == "hold_is_settled_by_its_posting"
    assert broken_rule(owner_cursor, ours, settle, *written, taken(5)) == "nothing"
    assert rows(owner_cursor, "SELECT posted_micro_usd, held_micro_usd FROM billing_customerbalance") == [(995, 0)]


def test_the_application_places_holds_by_the_function_alone(
    organisation: Organisation, app_cursor: psycopg.Cursor
) -> None:
    assert broken_rule(app_cursor, raw_hold(organisation, 1)) == "no privilege"


def test_a_hold_written_by_hand_is_counted_and_stops_at_the_floor(
    organisation: Organisation, owner_cursor: psycopg.Cursor
) -> None:
    assert broken_rule(owner_cursor, raw_hold(organisation, 1_001)) == "balance_stays_above_its_floor"
    assert broken_rule(owner_cursor, raw_hold(organisation, 1_000)) == "nothing"
    assert rows(owner_cursor, "SELECT held_micro_usd FROM billing_customerbalance") == [(1_000,)]


def raw_receipt(batch: str, *, total: int, line_count: int) -> str:
    return f"""INSERT INTO billing_receipt (public_id, organisation_id, batch_public_id, transaction_id, settled_at,
        line_count, usage_charge_micro_usd, fee_micro_usd, total_micro_usd, reserved_micro_usd, released_micro_usd,
        receivable_micro_usd, estimate_total_micro_usd)
        SELECT 'rcpt_raw', organisation_id, '{batch}', id, now(), {line_count}, {total}, 0, {total}, 0, 0, 0, 0
        FROM billing_ledgertransaction WHERE id = {RAW_ID}"""


def raw_line(amount: int, number: int = 1, receipt: str = "rcpt_raw") -> str:
    return f"""INSERT INTO billing_receiptline (receipt_id, line_number, group_key, lane_id, model_slug, kind, tokens,
        rate_micro_usd_per_mtok, amount_micro_usd, exact_pico_usd)
        SELECT id, {number}, 'z{number}', 'l', 'm', 'input', 1, 1, {amount}, 0 FROM billing_receipt
        WHERE public_id = '{receipt}'"""


def taken(amount: int, into: str = "revenue_usage") -> str:
    """Legs that take money from the wallet."""
    return f"""WITH house AS (
            INSERT INTO billing_ledgeraccount (code, kind, book, created_at)
            VALUES ('raw', '{into}', 'customer', now()) RETURNING id
        )
        INSERT INTO billing_ledgerleg (transaction_id, leg_number, account_id, amount_micro_usd)
        SELECT {RAW_ID}, 1, id, -{amount} FROM billing_ledgeraccount WHERE kind = 'customer_wallet'
        UNION ALL SELECT {RAW_ID}, 2, id, {amount} FROM house"""


COUNTED = "SELECT billing_fold_usage(array_agg(id), '{NULL}', '{[]}') FROM billing_receipt"
SETTLING = header("settle:batch_9", kind="settlement")


@pytest.mark.parametrize(
    ("statements", "rule"),
    [
        ((SETTLING, taken(5)), "settlement_has_a_receipt"),
        ((SETTLING, raw_receipt("batch_9", total=5, line_count=1), taken(5)), "receipt_equals_its_lines"),
        ((SETTLING, raw_receipt("batch_9", total=5, line_count=0), taken(5)), "receipt_equals_its_lines"),
        (
            (SETTLING, raw_receipt("batch_9", total=5, line_count=1), raw_line(4), taken(5)),
            "receipt_equals_its_lines",
        ),
        (
            (SETTLING, raw_receipt("batch_9", total=4, line_count=1), raw_line(4), taken(5)),
            "receipt_equals_its_posting",
        ),
        (
            (SETTLING, raw_receipt("batch_8", total=5, line_count=1), raw_line(5), taken(5)),
            "receipt_equals_its_posting",
        ),
        (
            (SETTLING, raw_receipt("batch_9", total=5, line_count=1), raw_line(5), raw_line(1, 2), taken(5)),
            "lines_come_with_their_receipt",
        ),
        (
            (SETTLING, raw_receipt("batch_9", total=5, line_count=1), raw_line(5), taken(5, "provider_payable")),
            "receipt_equals_its_posting",
        ),
        (
            (SETTLING, raw_receipt("batch_9", total=5, line_count=1), raw_line(5), taken(5, "revenue_fee")),
            "receipt_equals_its_posting",
        ),
        (
            (SETTLING, raw_receipt("batch_9", total=5, line_count=1), raw_line(5), taken(5)),
            "receipt_is_counted_as_usage",
        ),
        (
            (SETTLING, raw_receipt("batch_9", total=5, line_count=1), raw_line(5), COUNTED, taken(5)),
            "nothing",
        ),
        (
            (
                SETTLING,
                raw_receipt("batch_9", total=5, line_count=1).replace("5, 0, 5,", "4, 0, 5,"),
                raw_line(5),
                COUNTED,
                taken(5),
            ),
            "receipt_total_is_usage_and_fee",
        ),
        (
            (SETTLING, raw_receipt("batch_9", total=5, line_count=1).replace("5, 0, 5,", "6, -1, 5,"), raw_line(5)),
            "receipt_equals_its_lines",
        ),
        (
            (SETTLING, raw_receipt("batch_9", total=5, line_count=1), raw_line(5).replace("'input'", "'tip'")),
            "receipt_line_is_of_its_kind",
        ),
        (
            (SETTLING, raw_receipt("batch_9", total=-5, line_count=1), raw_line(-5)),
            "receipt_line_is_of_its_kind",
        ),
        (
            (header("raw"), legs(5, -5), raw_receipt("batch_9", total=0, line_count=0)),
            "receipt_equals_its_posting",
        ),
    ],
)
def test_a_receipt_equals_its_lines_and_its_posting(
    organisation: Organisation, app_cursor: psycopg.Cursor, statements: tuple[str, ...], rule: str
) -> None:
    assert broken_rule(app_cursor, *statements) == rule


def test_no_line_joins_an_older_receipt(settled: Organisation, attacker: psycopg.Cursor) -> None:
    [(receipt,)] = rows(attacker, "SELECT public_id FROM billing_receipt")
    assert broken_rule(attacker, raw_line(0, 9, receipt)) == "lines_come_with_their_receipt"


def test_a_temporary_table_cannot_stand_in_for_the_journal(
    organisation: Organisation, app_cursor: psycopg.Cursor
) -> None:
    rule = broken_rule(
        app_cursor,
        "CREATE TEMPORARY TABLE billing_ledgerleg AS"
        f" SELECT {RAW_ID}::bigint transaction_id, 0::bigint amount_micro_usd",
        header("raw").replace("INTO billing", "INTO public.billing"),
        "SET CONSTRAINTS ALL IMMEDIATE",
    )
    assert rule == "transaction_has_two_legs"


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ("bucket_at + interval '15 minutes', receipt_id, 'm', output_tokens", "usage_is_in_its_bucket"),
        ("bucket_at, receipt_id, 'm', -1", "usage_counts_nothing_negative"),
    ],
)
def test_usage_is_in_its_bucket_and_counts_nothing_negative(
    settled: Organisation, owner_cursor: psycopg.Cursor, change: str, rule: str
) -> None:
    more = f"""INSERT INTO usage_fact (bucket_at, receipt_id, model_slug, output_tokens, lane_id, organisation_id,
            batch_public_id, api_key_id, settled_at, request_count, input_tokens, cached_input_tokens,
            cache_write_tokens, usage_charge_micro_usd, fee_micro_usd)
        SELECT {change}, lane_id, organisation_id, batch_public_id, api_key_id, settled_at, 0, 0, 0, 0, 0, 0
        FROM usage_fact"""
    assert broken_rule(owner_cursor, more) == rule
