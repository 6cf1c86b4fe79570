"""The statement of a wallet: every amount and balance here was added up by hand."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta

import pytest

from accounts.models import Organisation
from billing.domain.records import StatementLine
from billing.models import TransactionKind
from billing.movements import statement
from billing.services.settlement import settle_batch
from billing.services.wallets import record_top_up
from ground.errors import NotFound
from ground.filters import Span
from tests.billing.kit import AT, hold, make_organisation, settlement, usage
from tests.harness.clock import Clock


def top_up(organisation: Organisation, reference: str, micro_usd: int, effective_at: datetime = AT) -> None:
    record_top_up(
        organisation, reference=reference, amount_micro_usd=micro_usd, effective_at=effective_at, recorded_by=None
    )


def settle(organisation: Organisation, batch: str, micro_usd: int, *, held: int = 0) -> None:
    if held:
        hold(organisation, batch, a=held)
    settle_batch(settlement(organisation, batch, usage("a", micro_usd)))


def lines_of(organisation: Organisation, **filters: object) -> list[StatementLine]:
    return statement(organisation, after=None, limit=100, **filters)[0]  # type: ignore[arg-type]


def figures(lines: list[StatementLine]) -> list[tuple[str, int, int]]:
    return [(line.reference, line.amount_micro_usd, line.balance_micro_usd) for line in lines]


@pytest.fixture
def busy(organisation: Organisation) -> Organisation:
    """1,000 came in; 300 and 0 were charged; 50 came in; 120 were charged. That leaves 630."""
    settle(organisation, "batch_1", 300, held=400)
    settle(organisation, "batch_2", 0)
    top_up(organisation, "second", 50)
    settle(organisation, "batch_3", 120, held=120)
    return organisation


def test_each_line_has_the_balance_after_it(busy: Organisation) -> None:
    assert figures(lines_of(busy)) == [
        ("batch_3", -120, 630),
        ("second", 50, 750),
        ("batch_2", 0, 700),
        ("batch_1", -300, 700),
        ("first", 1_000, 1_000),
    ]


def test_a_hold_is_no_movement(organisation: Organisation) -> None:
    hold(organisation, "batch_1", a=400)
    assert figures(lines_of(organisation)) == [("first", 1_000, 1_000)]


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_pages_agree_with_the_whole(busy: Organisation, limit: int) -> None:
    seen: list[StatementLine] = []
    has_more = True
    while has_more:
        page, has_more = statement(busy, after=seen[-1].key if seen else None, limit=limit)
        seen += page
    assert seen == lines_of(busy)


def test_a_movement_between_two_pages_changes_nothing_on_the_next(busy: Organisation) -> None:
    first, _ = statement(busy, after=None, limit=2)
    settle(busy, "batch_4", 30)
    following, has_more = statement(busy, after=first[-1].key, limit=2)
    assert (figures(following), has_more) == ([("batch_2", 0, 700), ("batch_1", -300, 700)], True)
    assert figures(lines_of(busy))[0] == ("batch_4", -30, 600)


def test_a_filter_hides_lines_and_leaves_their_balances(busy: Organisation) -> None:
    assert figures(lines_of(busy, kind=TransactionKind.TOP_UP)) == [("second", 50, 750), ("first", 1_000, 1_000)]
    assert figures(lines_of(busy, kind=TransactionKind.SETTLEMENT)) == [
        ("batch_3", -120, 630),
        ("batch_2", 0, 700),
        ("batch_1", -300, 700),
    ]


def test_a_span_takes_its_first_instant_and_leaves_its_last(organisation: Organisation, clock: Clock) -> None:
    clock.freeze(datetime(2030, 1, 1, tzinfo=UTC))
    top_up(organisation, "at-the-start", 5)
    clock.advance(hours=1)
    top_up(organisation, "at-the-end", 7)
    span = Span(since=datetime(2030, 1, 1, tzinfo=UTC), until=datetime(2030, 1, 1, 1, tzinfo=UTC))
    assert figures(lines_of(organisation, span=span)) == [("at-the-start", 5, 1_005)]


def test_money_counts_from_when_it_was_booked(organisation: Organisation) -> None:
    came_in_at = AT - timedelta(days=3)
    top_up(organisation, "late", 9, effective_at=came_in_at)
    newest = lines_of(organisation)[0]
    assert (newest.reference, newest.effective_at, newest.balance_micro_usd) == ("late", came_in_at, 1_009)


def test_only_what_the_wallet_carried_is_on_it(organisation: Organisation) -> None:
    settle(organisation, "batch_1", 1_300)
    top_up(organisation, "pays-what-is-owed", 250)
    top_up(organisation, "pays-the-rest", 80)
    assert figures(lines_of(organisation)) == [
        ("pays-the-rest", 30, 30),
        ("batch_1", -1_000, 0),
        ("first", 1_000, 1_000),
    ]
    assert lines_of(organisation)[1].receipt_total_micro_usd == 1_300


def test_a_statement_is_one_organisations_own(busy: Organisation) -> None:
    other = make_organisation(money=77)
    assert figures(lines_of(other)) == [("first", 77, 77)]
    for key in (lines_of(busy)[0].key, "settle:nothing", "", "top_up:\0"):
        with pytest.raises(NotFound):
            statement(other, after=key, limit=10)


def test_a_wallet_that_was_never_opened_has_no_movements(db: None) -> None:
    assert lines_of(make_organisation()) == []


def test_a_page_is_one_query_and_its_cursor_another(
    busy: Organisation, django_assert_num_queries: Callable[[int], AbstractContextManager[object]]
) -> None:
    key = lines_of(busy)[1].key
    with django_assert_num_queries(1):
        statement(busy, after=None, limit=2)
    with django_assert_num_queries(2):
        statement(busy, after=key, limit=2)
