"""The wallet as its owners see it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from django.test import Client

from accounts.models import MemberRole, Organisation
from billing.services.settlement import settle_batch
from ground.ids import new_public_id
from tests.billing.kit import AT, hold, make_organisation, settlement, usage
from tests.billing.test_receipt_pages import client_of
from tests.routing.pages import scenes
from tests.routing.pages.conftest import poll_url_of, signed_in, words_of

PAGE = "/app/wallet/"
LIST = {"HX-Request": "true", "HX-Target": "list"}
BALANCES = {"HX-Request": "true", "HX-Target": "balances"}


@pytest.fixture
def organisation(db: None) -> Organisation:
    """12.50 came in, 2.345678 was charged; 3 and 1 are held for two batches."""
    organisation = make_organisation(money=12_500_000)
    settle_batch(settlement(organisation, new_public_id("batch_", AT), usage("a", 2_345_678)))
    hold(organisation, "batch_a", a=2_000_000, b=1_000_000)
    hold(organisation, "batch_b", a=1_000_000)
    return organisation


@pytest.fixture
def customer(organisation: Organisation) -> Client:
    return client_of(organisation)


def test_the_balances_are_what_is_free_what_is_held_and_both(customer: Client) -> None:
    page = words_of(customer.get(PAGE))
    assert "Available $6.15" in page
    assert "Held $4.00 for 2 running batches" in page
    assert "Settled balance $10.15" in page
    assert "Owed" not in page


def test_the_statement_has_six_decimals_and_a_running_balance(customer: Client, organisation: Organisation) -> None:
    page = words_of(customer.get(PAGE))
    assert "Batch settled rcpt_" in page
    assert "\N{MINUS SIGN}$2.34 5678 $10.15 4322" in page
    assert "Top-up first $12.50 0000 $12.50 0000" in page


def test_what_is_owed_is_said_and_stops_new_batches(db: None) -> None:
    organisation = make_organisation(money=1_000_000)
    settle_batch(settlement(organisation, new_public_id("batch_", AT), usage("a", 1_250_000)))
    page = words_of(client_of(organisation).get(PAGE))
    assert "$0.25 0000 is owed" in page
    assert "Owed $0.25" in page
    assert "\N{MINUS SIGN}$1.00 0000 $0.25 0000 more is owed $0.00 0000" in page


def test_the_statement_alone_is_the_region_of_the_page(customer: Client) -> None:
    region = customer.get(f"{PAGE}?kind=top_up", headers=LIST).content.decode()
    assert region.strip() in customer.get(f"{PAGE}?kind=top_up").content.decode()
    assert "Batch settled" not in words_of(customer.get(f"{PAGE}?kind=top_up", headers=LIST))


def test_the_balances_ask_again_while_credit_is_held(customer: Client, organisation: Organisation) -> None:
    poll_url = poll_url_of(customer.get(PAGE))
    assert customer.get(poll_url, headers=BALANCES).status_code == 204
    hold(organisation, "batch_c", a=1)
    answer = customer.get(poll_url, headers=BALANCES)
    assert "for 3 running batches" in words_of(answer)
    assert answer.content.decode().strip().startswith("<section")


def test_a_wallet_at_rest_does_not_ask_again(db: None) -> None:
    page = client_of(make_organisation(money=5)).get(PAGE).content.decode()
    assert "data-poll" not in page
    assert "no batch is running" in page


def test_first_use_says_how_money_comes_in(db: None) -> None:
    page = words_of(client_of(make_organisation()).get(PAGE))
    assert "No movements yet" in page
    assert "Available $0.00" in page


@pytest.mark.parametrize("kind", ["rebate", "x" * 300])
def test_a_kind_that_is_none_lists_nothing(customer: Client, kind: str) -> None:
    assert "These filters cannot be read" in words_of(customer.get(f"{PAGE}?kind={kind}"))


def test_no_match_is_not_first_use(customer: Client) -> None:
    assert "No movements match these filters" in words_of(customer.get(f"{PAGE}?until=2001-01-01"))


def test_pages_follow_each_other_under_a_filter(customer: Client, organisation: Organisation) -> None:
    for number in range(60):
        settle_batch(settlement(organisation, new_public_id("batch_", AT), usage("a", number + 1)))
    first = customer.get(f"{PAGE}?kind=settlement")
    assert first.context["older_url"].startswith(f"{PAGE}?kind=settlement&after=settle%3Abatch_")
    second = customer.get(first.context["older_url"])
    assert [len(first.context["rows"]), len(second.context["rows"])] == [50, 11]
    newer, older = first.context["rows"][-1].line, second.context["rows"][0].line
    assert newer.balance_micro_usd - newer.amount_micro_usd == older.balance_micro_usd


def test_one_and_fifty_movements_take_the_same_queries(
    customer: Client,
    organisation: Organisation,
    django_assert_num_queries: Callable[[int], AbstractContextManager[object]],
) -> None:
    for count in (1, 40):
        for _ in range(count):
            settle_batch(settlement(organisation, new_public_id("batch_", AT), usage("a", 1)))
        # Session, user, membership, wallet, held batches, statement.
        with django_assert_num_queries(6):
            customer.get(PAGE)


@pytest.mark.parametrize(
    ("role", "reads"), [("admin", True), ("billing", True), ("developer", False), ("viewer", False)]
)
def test_everybody_sees_balances_and_who_pays_the_statement(
    organisation: Organisation, role: str, *, reads: bool
) -> None:
    client = client_of(organisation, MemberRole(role))
    page = words_of(client.get(PAGE))
    assert "Available $6.15" in page
    assert ("Top-up first" in page) == reads
    assert client.get(PAGE, headers=LIST).status_code == (200 if reads else 403)


def test_a_cursor_of_another_wallet_is_not_found(customer: Client) -> None:
    other = make_organisation(money=5)
    for key in (f"top_up:{other.public_id}:first", "nonsense", "%00"):
        assert customer.get(f"{PAGE}?after={key}").status_code == 404


def test_staff_and_visitors_find_no_wallet(db: None) -> None:
    assert signed_in(scenes.staff()).get(PAGE).status_code == 404
    assert Client().get(PAGE)["Location"] == f"/login?next={PAGE}"
