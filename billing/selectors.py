"""Reads of billing: wallets, receipts, what a batch cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper
from django.db.models import Exists, Min, OuterRef, Q, QuerySet, Sum

from accounts.models import Organisation
from billing.domain.records import HoldState, LineKind, ProviderCost, WalletState
from billing.models import AttemptFact, Hold, Receipt, ReceiptLine
from ground import clock
from ground.errors import NotFound
from ground.filters import EVER, Span
from ground.ids import is_public_id

_WALLET = """
SELECT billing_available_micro_usd(organisation.id), billing_held_micro_usd(organisation.id),
       coalesce(balance.floor_micro_usd, 0), coalesce(balance.receivable_micro_usd, 0),
       organisation.billing_blocked_at IS NOT NULL
FROM accounts_organisation organisation
LEFT JOIN billing_customerbalance balance ON balance.organisation_id = organisation.id
WHERE organisation.id = %s
"""


def wallet(organisation: Organisation) -> WalletState:
    """Give an organisation's money now, in micro-USD; zeros where no wallet was opened yet.

    As it is at this instant: a hold that has lapsed holds nothing and a grant that has expired is gone, swept or not.
    """
    with connection.cursor() as cursor:
        cursor.execute(_WALLET, [organisation.pk])
        row = cursor.fetchone()
    assert row is not None, "the organisation is there"
    available, held, floor, receivable, is_blocked = row
    return WalletState(
        available_micro_usd=available,
        held_micro_usd=held,
        posted_micro_usd=available + held + floor,
        receivable_micro_usd=receivable,
        blocked=is_blocked or receivable > 0,
    )


def held_batch_count(organisation: Organisation) -> int:
    """Give for how many batches credit is held now."""
    unlapsed = Q(expires_at=None) | Q(expires_at__gt=clock.now())
    holds = Hold.objects.filter(unlapsed, organisation=organisation, state=HoldState.OPEN)
    return holds.values("batch_public_id").distinct().count()


def receipt_for_batch(organisation: Organisation, batch_public_id: str) -> Receipt:
    """Give a batch's receipt with its lines.

    Raises:
        NotFound: The batch is not settled yet, or not this organisation's.
    """
    return _one(_receipts_with_lines(organisation).filter(batch_public_id=batch_public_id))


def receipt_by_id(organisation: Organisation, receipt_public_id: str) -> Receipt:
    """Give a receipt with its lines.

    Raises:
        NotFound: There is none by that id for this organisation.
    """
    return _receipt_named(organisation, receipt_public_id)


def any_receipt_by_id(receipt_public_id: str) -> Receipt:
    """Give the receipt of whichever organisation, with its lines and its posting, for finance.

    Raises:
        NotFound: There is none by that id.
    """
    is_id = is_public_id(receipt_public_id, "rcpt_")
    found = Receipt.objects.filter(public_id=receipt_public_id) if is_id else Receipt.objects.none()
    return _one(found.select_related("organisation", "transaction").prefetch_related("lines"))


def receipts(
    organisation: Organisation,
    *,
    after: str | None,
    limit: int,
    text: str = "",
    is_credited: bool | None = None,
    span: Span = EVER,
) -> tuple[list[Receipt], bool]:
    """Give up to ``limit`` receipts with their lines, newest first, and whether there are more.

    By cursor: receipts that are made meanwhile neither repeat nor hide one.

    Args:
        organisation: Whose receipts they are.
        after: Public id of the last receipt of the page before.
        limit: How many a page has.
        text: Part of the receipt's or the batch's id, whatever its case.
        is_credited: Whether a credit above the ceiling is on it; None for both.
        span: When they were settled.

    Raises:
        NotFound: ``after`` is no receipt of this organisation.
    """
    found = _receipts_with_lines(organisation)
    if text:
        found = found.filter(Q(public_id__icontains=text) | Q(batch_public_id__icontains=text))
    if is_credited is not None:
        ceiling_credits = ReceiptLine.objects.filter(receipt=OuterRef("pk"), kind=LineKind.CEILING_CREDIT)
        found = found.filter(Exists(ceiling_credits) if is_credited else ~Exists(ceiling_credits))
    if span.since is not None:
        found = found.filter(settled_at__gte=span.since)
    if span.until is not None:
        found = found.filter(settled_at__lt=span.until)
    if after is not None:
        last = _receipt_named(organisation, after, param="after")
        found = found.filter(Q(settled_at__lt=last.settled_at) | Q(settled_at=last.settled_at, pk__lt=last.pk))
    page = list(found.order_by("-settled_at", "-pk")[: limit + 1])
    return page[:limit], len(page) > limit


def accepted_at_of(receipt: Receipt) -> datetime | None:
    """Give when the credit of the receipt's batch was first held; None where nothing was."""
    holds = Hold.objects.filter(organisation_id=receipt.organisation_id, batch_public_id=receipt.batch_public_id)
    accepted_at: datetime | None = holds.aggregate(at=Min("created_at"))["at"]
    return accepted_at


def provider_costs_of_batch(*, organisation_id: int, batch_id: int) -> tuple[ProviderCost, ...]:
    """Give what each provider account bills for all recorded attempts of a batch, exact, in pico-USD."""
    sums = (
        AttemptFact.objects.filter(batch_id=batch_id, organisation_id=organisation_id)
        .values_list("provider", "provider_account")
        .annotate(cost_pico_usd=Sum("cost_pico_usd"))
        .order_by("provider", "provider_account")
    )
    return tuple(
        ProviderCost(provider=provider, provider_account=account, cost_pico_usd=int(cost))
        for provider, account, cost in sums
    )


def _receipts_with_lines(organisation: Organisation) -> QuerySet[Receipt]:
    return Receipt.objects.filter(organisation=organisation).prefetch_related("lines")


def _receipt_named(organisation: Organisation, public_id: str, *, param: str | None = None) -> Receipt:
    is_id = is_public_id(public_id, "rcpt_")
    found = _receipts_with_lines(organisation).filter(public_id=public_id) if is_id else Receipt.objects.none()
    return _one(found, param=param)


def _one(found: QuerySet[Receipt], *, param: str | None = None) -> Receipt:
    receipt = found.first()
    if receipt is None:
        raise NotFound("There is no such receipt.", param=param)
    return receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofCheck:
    """One law of the books: how many things break it, and up to ten of them by name."""

    rule: str
    violation_count: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The whole proof of the ledger at one instant."""

    checks: tuple[ProofCheck, ...]

    @property
    def holds(self) -> bool:
        """Say whether every law holds."""
        return not any(check.violation_count for check in self.checks)


_EXAMPLES = 10
# Rule -> a query whose every row is a violation, named by its first column. The triggers forbid all of them; this finds
# what a superuser, a restore or a replica did.
_LAWS = {
    "transaction_has_two_legs_that_sum_to_zero": """
        SELECT header.business_key FROM billing_ledgertransaction header
        LEFT JOIN billing_ledgerleg leg ON leg.transaction_id = header.id
        GROUP BY header.id HAVING count(leg.id) < 2 OR sum(leg.amount_micro_usd) <> 0""",
    "leg_has_a_transaction_and_an_account": """
        SELECT leg.id::text FROM billing_ledgerleg leg
        LEFT JOIN billing_ledgertransaction header ON header.id = leg.transaction_id
        LEFT JOIN billing_ledgeraccount account ON account.id = leg.account_id
        WHERE header.id IS NULL OR account.id IS NULL""",
    "balance_is_the_sum_of_its_legs": """
        WITH legs AS (
            SELECT account.organisation_id,
                   sum(amount_micro_usd) FILTER (WHERE account.kind = 'customer_wallet') AS posted,
                   -sum(amount_micro_usd) FILTER (WHERE account.kind = 'customer_receivable') AS receivable
            FROM billing_ledgerleg leg JOIN billing_ledgeraccount account ON account.id = leg.account_id
            WHERE account.organisation_id IS NOT NULL GROUP BY account.organisation_id
        )
        SELECT coalesce(balance.organisation_id, legs.organisation_id)::text
        FROM billing_customerbalance balance FULL JOIN legs ON legs.organisation_id = balance.organisation_id
        WHERE coalesce(balance.posted_micro_usd, 0) <> coalesce(legs.posted, 0)
           OR coalesce(balance.receivable_micro_usd, 0) <> coalesce(legs.receivable, 0)""",
    "held_is_the_sum_of_open_holds": """
        WITH holds AS (
            SELECT organisation_id, sum(amount_micro_usd) AS held FROM billing_hold WHERE state = 'open'
            GROUP BY organisation_id
        )
        SELECT coalesce(balance.organisation_id, holds.organisation_id)::text
        FROM billing_customerbalance balance FULL JOIN holds ON holds.organisation_id = balance.organisation_id
        WHERE coalesce(balance.held_micro_usd, 0) <> coalesce(holds.held, 0)""",
    "balance_stays_above_its_floor": """
        SELECT organisation_id::text FROM billing_customerbalance
        WHERE posted_micro_usd - held_micro_usd < floor_micro_usd OR receivable_micro_usd < 0""",
    "receipt_equals_its_lines": """
        SELECT receipt.public_id FROM billing_receipt receipt
        LEFT JOIN billing_receiptline line ON line.receipt_id = receipt.id GROUP BY receipt.id
        HAVING count(line.id) <> receipt.line_count
            OR coalesce(sum(line.amount_micro_usd), 0) <> receipt.total_micro_usd
            OR coalesce(sum(line.amount_micro_usd) FILTER (WHERE line.kind = 'control_plane_fee'), 0)
               <> receipt.fee_micro_usd""",
    "receipt_equals_its_posting": """
        SELECT receipt.public_id FROM billing_receipt receipt
        LEFT JOIN billing_ledgertransaction header ON header.id = receipt.transaction_id
        LEFT JOIN billing_ledgerleg leg ON leg.transaction_id = header.id
        LEFT JOIN billing_ledgeraccount account ON account.id = leg.account_id
        GROUP BY receipt.id, header.id
        HAVING header.business_key IS DISTINCT FROM 'settle:' || receipt.batch_public_id
            OR coalesce(sum(leg.amount_micro_usd) FILTER (WHERE account.organisation_id IS NOT NULL), 0)
               <> -receipt.total_micro_usd
            OR coalesce(sum(leg.amount_micro_usd) FILTER (
                   WHERE account.kind IN ('revenue_usage', 'revenue_fee', 'ceiling_credit')), 0)
               <> receipt.total_micro_usd
            OR coalesce(sum(leg.amount_micro_usd) FILTER (WHERE account.kind = 'revenue_fee'), 0)
               <> receipt.fee_micro_usd""",
    "settlement_has_one_receipt": """
        SELECT header.business_key FROM billing_ledgertransaction header
        LEFT JOIN billing_receipt receipt ON receipt.transaction_id = header.id
        WHERE header.kind = 'settlement' GROUP BY header.id HAVING count(receipt.id) <> 1""",
    "settled_hold_belongs_to_its_batch": """
        SELECT hold.id::text FROM billing_hold hold
        LEFT JOIN billing_ledgertransaction header ON header.id = hold.transaction_id
        WHERE hold.state = 'settled' AND header.business_key IS DISTINCT FROM 'settle:' || hold.batch_public_id""",
    "settled_batch_has_no_open_hold": """
        SELECT hold.id::text FROM billing_hold hold
        JOIN billing_receipt receipt ON receipt.batch_public_id = hold.batch_public_id WHERE hold.state = 'open'""",
    "receipt_is_counted_once_as_usage": """
        SELECT receipt.public_id FROM billing_receipt receipt LEFT JOIN usage_fact fact ON fact.receipt_id = receipt.id
        GROUP BY receipt.id HAVING receipt.total_micro_usd
            <> coalesce(sum(fact.usage_charge_micro_usd + fact.fee_micro_usd), 0)""",
    "rolled_up_usage_is_the_sum_of_its_facts": """
        WITH summed AS (
            SELECT organisation_id, bucket_at, api_key_id, model_slug, lane_id, sum(request_count) AS request_count,
                   sum(usage_charge_micro_usd + fee_micro_usd) AS charge, sum(input_tokens + cached_input_tokens
                   + cache_write_tokens + output_tokens) AS tokens
            FROM usage_fact GROUP BY 1, 2, 3, 4, 5
        )
        SELECT bucket_at::text FROM usage_rollup rollup
        FULL JOIN summed USING (organisation_id, bucket_at, api_key_id, model_slug, lane_id)
        WHERE (rollup.request_count, rollup.usage_charge_micro_usd + rollup.fee_micro_usd, rollup.input_tokens
               + rollup.cached_input_tokens + rollup.cache_write_tokens + rollup.output_tokens)
            IS DISTINCT FROM (summed.request_count, summed.charge, summed.tokens)""",
    "adjustment_equals_its_posting": """
        SELECT adjustment.public_id FROM billing_adjustment adjustment
        LEFT JOIN billing_ledgertransaction header ON header.id = adjustment.transaction_id
        LEFT JOIN billing_ledgerleg leg ON leg.transaction_id = header.id AND leg.amount_micro_usd > 0
        WHERE adjustment.state = 'posted' GROUP BY adjustment.id, header.id
        HAVING header.business_key IS DISTINCT FROM 'adjustment:' || adjustment.public_id
            OR header.kind IS DISTINCT FROM adjustment.kind
            OR coalesce(sum(leg.amount_micro_usd), 0) <> adjustment.amount_micro_usd""",
    "grant_is_used_as_its_burns_and_breakage_say": """
        WITH breakage AS (
            SELECT reference, sum(leg.amount_micro_usd) AS amount FROM billing_ledgertransaction header
            JOIN billing_ledgerleg leg ON leg.transaction_id = header.id AND leg.amount_micro_usd > 0
            WHERE header.kind = 'grant_expiry' GROUP BY reference
        ), burned AS (
            SELECT grant_id, sum(amount_micro_usd) AS amount FROM billing_grantburn GROUP BY grant_id
        )
        SELECT adjustment.public_id FROM billing_grant given
        JOIN billing_adjustment adjustment ON adjustment.id = given.adjustment_id
        LEFT JOIN breakage ON breakage.reference = adjustment.public_id
        LEFT JOIN burned ON burned.grant_id = given.adjustment_id
        LEFT JOIN billing_adjustment reversal
            ON reversal.reverses_id = adjustment.transaction_id AND reversal.state = 'posted'
        WHERE given.burned_micro_usd <> coalesce(burned.amount, 0)
           OR given.expired_micro_usd <> coalesce(breakage.amount, reversal.amount_micro_usd, 0)""",
    # Each leg counts for the first snapshot after it; one that is booked later corrects the snapshots it concerns.
    "snapshot_of_a_balance_is_the_sum_of_its_legs": """
        WITH moved AS (
            SELECT axis, leg.account_id, (
                       SELECT min(cutoff_at) FROM billing_ledgersnapshot
                       WHERE cutoff_at >= CASE axis WHEN 'booked' THEN header.booked_at ELSE header.effective_at END
                   ) AS cutoff_at, sum(leg.amount_micro_usd) AS amount
            FROM billing_ledgertransaction header JOIN billing_ledgerleg leg ON leg.transaction_id = header.id
            CROSS JOIN unnest(ARRAY['booked', 'effective']) AS axis
            WHERE header.booked_at <= (SELECT max(cutoff_at) FROM billing_ledgersnapshot) GROUP BY 1, 2, 3
        ), kept AS (
            SELECT axis, account_id, cutoff_at, balance - lag(balance, 1, 0::bigint) OVER (
                       PARTITION BY axis, account_id ORDER BY cutoff_at) AS amount
            FROM billing_snapshotbalance, LATERAL (
                VALUES ('booked', booked_micro_usd), ('effective', effective_micro_usd)) AS kind (axis, balance)
        )
        SELECT format('account %s at %s, %s', account_id, cutoff_at, axis)
        FROM kept FULL JOIN moved USING (axis, account_id, cutoff_at)
        WHERE cutoff_at IS NOT NULL AND coalesce(kept.amount, 0) <> coalesce(moved.amount, 0)""",
    "play_money_stays_in_its_own_book": """
        SELECT header.business_key FROM billing_ledgertransaction header
        JOIN accounts_organisation organisation ON organisation.id = header.organisation_id
        JOIN billing_ledgerleg leg ON leg.transaction_id = header.id
        JOIN billing_ledgeraccount account ON account.id = leg.account_id
        WHERE account.book <> organisation.kind GROUP BY header.id""",
}


def add_laws(laws: Mapping[str, str]) -> None:
    """Let the proof keep laws that an app above knows: rule -> a query whose every row is a violation, as above."""
    _LAWS.update(laws)


@transaction.atomic(durable=True)
def prove_ledger() -> Proof:
    """Prove all books of all organisations: legs, balances, holds, receipts. Reads everything; not for a page's path.

    In one snapshot of its own, so that work going on meanwhile breaks no law; never inside another transaction.
    """
    with connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        return Proof(checks=tuple(_check(cursor, rule, query) for rule, query in _LAWS.items()))


def _check(cursor: CursorWrapper, rule: str, violations: str) -> ProofCheck:
    cursor.execute(
        f"SELECT count(*), (array_agg(name))[1:{_EXAMPLES}] FROM ({violations}) AS violation (name)"  # noqa: S608 -- our own text
    )
    row = cursor.fetchone()
    assert row is not None, "an aggregate always answers"
    violation_count, examples = row
    return ProofCheck(rule=rule, violation_count=violation_count, examples=tuple(examples or ()))
