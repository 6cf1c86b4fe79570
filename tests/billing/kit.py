"""What billing's tests make: organisations with money, settlements, attacks with raw SQL."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from threading import Barrier
from typing import Any, TypeVar

import psycopg
from django.db import connections

from accounts.models import Organisation, OrganisationKind
from billing.domain.records import (
    ChargedGroup,
    ChargedTokens,
    FeeCharge,
    GroupHold,
    ProviderCost,
    SettlementRequest,
)
from billing.selectors import prove_ledger
from billing.services.holds import place_holds
from billing.services.wallets import record_top_up
from catalog.domain.records import TokenKind

AT = datetime(2026, 11, 3, 12, 0, tzinfo=UTC)
# At this rate a token is worth exactly one micro-USD.
ONE_MICRO_A_TOKEN = 1_000_000
_numbers = itertools.count(1)
T = TypeVar("T")


def make_organisation(*, twin_of: Organisation | None = None, money: int = 0) -> Organisation:
    number = next(_numbers)
    organisation = Organisation.objects.create(
        public_id=f"org_{number}",
        slug=f"acme{number}",
        name="Acme",
        kind=OrganisationKind.TEST if twin_of else OrganisationKind.CUSTOMER,
        twin_of=twin_of,
        created_at=AT,
    )
    if money:
        record_top_up(organisation, reference="first", amount_micro_usd=money, effective_at=AT, recorded_by=None)
    return organisation


def hold(organisation: Organisation, batch: str, **groups: int) -> int:
    return place_holds(
        organisation, batch, [GroupHold(group_key=key, reserved_micro_usd=amount) for key, amount in groups.items()]
    )


def group(key: str, *charged: tuple[TokenKind, int, int], lane: str | None = None) -> ChargedGroup:
    """Give a group of (kind, rate, tokens)."""
    return ChargedGroup(
        group_key=key,
        model_slug=f"model-{key}",
        lane_id=lane or f"lane-{key}",
        charged=tuple(
            ChargedTokens(kind=kind, rate_micro_usd_per_mtok=rate, tokens=tokens) for kind, rate, tokens in charged
        ),
    )


def fee(key: str, fee_micro_usd: int, lane: str | None = None) -> FeeCharge:
    return FeeCharge(
        group_key=key, model_slug=f"model-{key}", lane_id=lane or f"lane-{key}", fee_micro_usd=fee_micro_usd
    )


def settlement(
    organisation: Organisation | int,
    batch: str,
    *groups: ChargedGroup,
    fees: Sequence[FeeCharge] = (),
    costs: Sequence[ProviderCost] = (),
    ceiling_micro_usd: int = 10**15,
    quoted_fee_micro_usd: int | None = None,
    settled_at: datetime = AT,
) -> SettlementRequest:
    return SettlementRequest(
        organisation_id=organisation if isinstance(organisation, int) else organisation.pk,
        batch_public_id=batch,
        settled_at=settled_at,
        groups=groups,
        fees=tuple(fees),
        ceiling_micro_usd=ceiling_micro_usd,
        quoted_fee_micro_usd=(
            sum(each.fee_micro_usd for each in fees) if quoted_fee_micro_usd is None else quoted_fee_micro_usd
        ),
        estimate_total_micro_usd=0,
        provider_costs=tuple(costs),
    )


def usage(key: str, micro_usd: int) -> ChargedGroup:
    """Give a group whose usage is worth exactly this."""
    return group(key, (TokenKind.INPUT, ONE_MICRO_A_TOKEN, micro_usd))


def broken_rule(cursor: psycopg.Cursor, *statements: str) -> str:
    """Run statements in one transaction and give the name of the rule that refused them."""
    try:
        with cursor.connection.transaction():
            for statement in statements:
                cursor.execute(statement)
    except psycopg.errors.InsufficientPrivilege:
        return "no privilege"
    except psycopg.Error as error:
        return error.diag.constraint_name or str(error)
    return "nothing"


def at_once(count: int, act: Callable[[int], T]) -> list[T | Exception]:
    """Run ``act`` in ``count`` threads, each with its own connection, from one starting line."""
    line = Barrier(count)

    def run(number: int) -> T | Exception:
        try:
            connections["default"].ensure_connection()
            line.wait(30)
            return act(number)
        except Exception as error:  # noqa: BLE001 -- the test judges it
            return error
        finally:
            connections["default"].close()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def house_legs(organisation: Organisation) -> dict[str, int]:
    """Give the sums of an organisation's legs by account, without its own public id."""
    with connections["default"].cursor() as cursor:
        cursor.execute(
            """SELECT replace(account.code, %s, ''), sum(amount_micro_usd) FROM billing_ledgerleg leg
            JOIN billing_ledgeraccount account ON account.id = leg.account_id
            JOIN billing_ledgertransaction header ON header.id = leg.transaction_id
            WHERE header.organisation_id = %s GROUP BY 1""",
            [f":{organisation.public_id}", organisation.pk],
        )
        return {code: int(total) for code, total in cursor.fetchall()}


def rows(cursor: Any, query: str, *arguments: object) -> list[tuple[Any, ...]]:
    cursor.execute(query, arguments)
    found: list[tuple[Any, ...]] = cursor.fetchall()
    return found


def assert_books_hold() -> None:
    broken = [check for check in prove_ledger().checks if check.violation_count]
    assert broken == []
