"""Decisions and periods: each with its posting, safe to repeat, by two people where it matters; closed is closed."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import psycopg
import pytest

from accounts.models import AuditEntry, StaffRole, User
from billing.models import LedgerTransaction
from billing.reconciliation.checklist import checklist
from billing.reconciliation.closed import PeriodClosed
from billing.reconciliation.domain.decisions import Action
from billing.reconciliation.models import Break, BreakEvent, BreakState, ProviderInvoice
from billing.reconciliation.period_models import Period, PeriodEvent
from billing.reconciliation.services import periods
from billing.reconciliation.services.decisions import Decision, decide_breaks, settle_pending
from billing.reconciliation.services.files import take_file
from billing.reconciliation.services.matching import ask_to_match, match_next_invoice
from billing.reconciliation.services.periods import PeriodNotReady, ask_to_close, close, closing_bytes, take_back
from ground.errors import InvalidRequest, LanehouseError, PermissionRefused
from tests.billing.kit import assert_books_hold, broken_rule
from tests.billing.reconciliation.kit import MONTH, matched_month, month_of, record, report, taken
from tests.harness.clock import Clock
from tests.routing.pages.scenes import staff


@pytest.fixture
def people(db: None) -> tuple[User, User]:
    return staff(StaffRole.FINANCE, name="Fay Finance"), staff(StaffRole.FINANCE, name="Sam Second")


def decided(found: Break, action: Action, by: User, reason: str = "as agreed", **more: object) -> Break:
    decide_breaks([found.public_id], Decision(action=action, reason=reason, **more), by=by)  # type: ignore[arg-type]
    found.refresh_from_db()
    return found


def of_kind(kind: str) -> Break:
    return Break.objects.filter(kind=kind).order_by("pk")[0]


def posted() -> dict[str, int]:
    sums: dict[str, int] = {}
    for header in LedgerTransaction.objects.filter(kind="provider_adjustment"):
        for leg in header.legs.select_related("account"):
            sums[leg.account.code] = sums.get(leg.account.code, 0) + leg.amount_micro_usd
    return {code: total for code, total in sums.items() if total}


def test_what_is_decided_is_posted_once_kept_by_the_next_match_and_taken_back_alone(people: tuple[User, User]) -> None:
    fay, _ = people
    invoice = matched_month()
    # They bill 56,000 tokens at 0.075 USD per million that we do not have: 4,200 micro-USD.
    missing = decided(of_kind("missing_receipt"), Action.ACCEPT, fay)
    assert (missing.state, missing.decided_by, missing.reason) == (BreakState.ACCEPTED, fay, "as agreed")
    payable = "provider_payable:customer:openai:openai-lanes"
    assert posted() == {payable: 4_200, "cost_of_service:customer": -4_200}
    decided(of_kind("missing_receipt"), Action.ACCEPT, fay)
    riddle = decided(of_kind("unexplained"), Action.WRITE_OFF, fay)
    # 1,234.56 micro-USD.
    assert posted()["write_off_provider:customer"] == -1_235
    siblings = list(Break.objects.filter(kind="time_boundary").order_by("pk"))
    assert siblings[0].cause_key == siblings[1].cause_key != ""
    ids = [each.public_id for each in siblings]
    decide_breaks(ids, Decision(action=Action.ACCEPT, reason="midnight"), by=fay)
    before = {each.public_id: (each.state, each.entry_key) for each in Break.objects.all()}
    ask_to_match(invoice)
    match_next_invoice()
    assert {each.public_id: (each.state, each.entry_key) for each in Break.objects.all()} == before
    decided(siblings[0], Action.REOPEN, fay, "looked again")
    siblings[1].refresh_from_db()
    assert (siblings[0].state, siblings[1].state) == (BreakState.EXPLAINED, BreakState.ACCEPTED)
    decided(riddle, Action.REOPEN, fay, "found it")
    assert riddle.state == BreakState.OPEN
    assert "write_off_provider:customer" not in posted()
    assert AuditEntry.objects.filter(object_type="break", object_id__in=ids).count() == 3
    with pytest.raises(InvalidRequest):
        decide_breaks([siblings[1].public_id, riddle.public_id], Decision(action=Action.DISPUTE, reason="all"), by=fay)
    riddle.refresh_from_db()
    assert riddle.state == BreakState.OPEN
    assert_books_hold()


def test_what_moves_more_than_the_limit_waits_for_a_second_person(people: tuple[User, User], settings: object) -> None:
    fay, sam = people
    matched_month()
    settings.ADJUSTMENT_APPROVAL_ABOVE_MICRO_USD = 1_000_000  # type: ignore[attr-defined]
    # The tax is 1.19 USD.
    tax = decided(of_kind("tax"), Action.ADJUST, fay)
    assert (tax.state, posted()) == (BreakState.PENDING, {})
    with pytest.raises(PermissionRefused):
        settle_pending([tax.public_id], agrees=True, reason="fine", by=fay)
    settle_pending([tax.public_id], agrees=True, reason="fine", by=sam)
    tax.refresh_from_db()
    assert (tax.state, posted()["cost_of_service:customer"]) == (BreakState.ADJUSTED, -1_190_000)
    credit = decided(of_kind("credit_or_commitment"), Action.ADJUST, fay)
    settle_pending([credit.public_id], agrees=False, reason="not ours", by=sam)
    credit.refresh_from_db()
    assert (credit.state, credit.decided_by) == (BreakState.EXPLAINED, None)
    assert decided(credit, Action.ASSIGN, fay, owner=sam).owner == sam
    assert decided(credit, Action.LINK, fay, entry_key=tax.entry_key).state == BreakState.LINKED


def test_many_are_agreed_to_at_once_with_an_entry_each_and_all_or_none(
    people: tuple[User, User], settings: object
) -> None:
    fay, sam = people
    matched_month()
    settings.ADJUSTMENT_APPROVAL_ABOVE_MICRO_USD = 0  # type: ignore[attr-defined]
    ids = list(
        Break.objects.filter(kind__in=["tax", "missing_receipt", "time_boundary"]).values_list("public_id", flat=True)
    )
    decide_breaks(ids, Decision(action=Action.ACCEPT, reason="as they say"), by=fay)
    own = of_kind("quantity")
    decide_breaks([own.public_id], Decision(action=Action.ACCEPT, reason="by Sam"), by=sam)
    # Sam cannot agree to their own among them, so to none.
    with pytest.raises(PermissionRefused):
        settle_pending([*ids, own.public_id], agrees=True, reason="looked at", by=sam)
    assert posted() == {}
    for _ in range(2):
        settle_pending(ids, agrees=True, reason="looked at", by=sam)
    # 1.19 USD of tax and 4,200 micro-USD that we lacked; what moved to the day after cancels out.
    assert posted()["cost_of_service:customer"] == -1_190_000 - 4_200
    agreed = AuditEntry.objects.filter(action="break.accept")
    assert sorted(agreed.values_list("object_id", "user__name")) == sorted((each, "Sam Second") for each in ids)
    settle_pending([own.public_id], agrees=False, reason="not ours", by=fay)
    with pytest.raises(InvalidRequest):
        settle_pending([own.public_id], agrees=True, reason="not ours", by=fay)
    assert_books_hold()


def test_a_posting_above_the_limit_is_taken_back_by_two_and_its_siblings_stay(
    people: tuple[User, User], settings: object
) -> None:
    fay, sam = people
    invoice = matched_month()
    # 92,000 tokens at 0.075 USD per million moved to the next day: 6,900 micro-USD on each side.
    settings.ADJUSTMENT_APPROVAL_ABOVE_MICRO_USD = 6_899  # type: ignore[attr-defined]
    pair = list(Break.objects.filter(kind="time_boundary").order_by("difference_pico_usd"))
    ids = [each.public_id for each in pair]
    decide_breaks(ids, Decision(action=Action.ADJUST, reason="midnight"), by=fay)
    settle_pending(ids, agrees=True, reason="seen", by=sam)
    before = Break.objects.get(pk=pair[1].pk)
    asked = decided(pair[0], Action.REOPEN, sam, "looked again")
    assert (asked.state, asked.asked_action, asked.entry_key != "") == (BreakState.PENDING, "reopen", True)
    assert LedgerTransaction.objects.filter(kind="provider_adjustment").count() == 2
    with pytest.raises(PermissionRefused):
        settle_pending([asked.public_id], agrees=True, reason="mine", by=sam)
    ask_to_match(invoice)
    match_next_invoice()
    # Refused: it stands as it was decided, by whom and why.
    settle_pending([asked.public_id], agrees=False, reason="leave it", by=fay)
    asked.refresh_from_db()
    assert (asked.state, asked.decided_by, asked.reason) == (BreakState.ADJUSTED, sam, "midnight")
    decided(asked, Action.REOPEN, fay, "looked again")
    for _ in range(2):
        settle_pending([asked.public_id], agrees=True, reason="so it is", by=sam)
    asked.refresh_from_db()
    assert (asked.state, asked.entry_key, asked.decided_by) == (BreakState.EXPLAINED, "", None)
    # What the sibling posted is left.
    assert posted()["cost_of_service:customer"] == -6_900
    assert Break.objects.get(pk=pair[1].pk).entry_key == before.entry_key
    assert_books_hold()


def test_a_corrected_bill_posts_back_what_was_posted_about_figures_that_are_gone(people: tuple[User, User]) -> None:
    fay, _ = people
    made = month_of()
    record(made)
    taken(made.bill)
    tax, missing = (decided(of_kind(kind), Action.ACCEPT, fay) for kind in ("tax", "missing_receipt"))
    decided(of_kind("credit_or_commitment"), Action.LINK, fay, entry_key=tax.entry_key)
    # The tax becomes 1.20 USD, and the credit moves too; 4,200 micro-USD stay as they were decided.
    taken(made.bill.replace(b"1.19000000", b"1.20000000").replace(b"-2.50000000", b"-2.40000000"))
    tax.refresh_from_db()
    assert (tax.state, tax.entry_key) == (BreakState.EXPLAINED, "")
    assert posted()["cost_of_service:customer"] == -4_200
    assert AuditEntry.objects.get(action="break.posted_back").object_id == tax.public_id
    decided(tax, Action.ACCEPT, fay)
    assert posted()["cost_of_service:customer"] == -1_204_200
    assert Break.objects.get(pk=missing.pk).entry_key == missing.entry_key
    assert_books_hold()


def test_a_month_is_closed_by_two_and_changes_no_more(
    people: tuple[User, User], clock: Clock, owner_cursor: psycopg.Cursor
) -> None:
    fay, sam = people
    clock.freeze(datetime(2026, 11, 5, tzinfo=UTC))
    invoice = matched_month()
    assert [item.key for item in checklist(MONTH) if not item.is_met] == ["breaks"]
    with pytest.raises(PeriodNotReady) as unmet:
        ask_to_close(MONTH, by=fay)
    assert "undecided" in unmet.value.message
    ids = list(Break.objects.values_list("public_id", flat=True))
    decide_breaks(ids, Decision(action=Action.DISPUTE, reason="sent to them"), by=fay)
    ask_to_close(MONTH, by=fay)
    with pytest.raises(PermissionRefused):
        close(MONTH, by=fay)
    close(MONTH, by=sam)
    assert close(MONTH, by=sam).close_count == 1
    content, sha256 = closing_bytes(MONTH)
    assert hashlib.sha256(content).digest() == sha256
    assert content.count(b"\nbreak,") == len(ids)
    for act in (
        lambda: decide_breaks(ids[:1], Decision(action=Action.REOPEN, reason="late"), by=fay),
        lambda: take_file(report(), [b"late"], by=fay),
        lambda: ask_to_match(invoice),
    ):
        with pytest.raises(PeriodClosed):
            act()
    columns = "business_key, body_hash, kind, reference, effective_at, booked_at"
    for attack in (
        "UPDATE billing_break SET state = 'open', decided_by_id = NULL",
        "DELETE FROM billing_invoiceline",
        f"INSERT INTO billing_ledgertransaction ({columns}) VALUES ('l', '', 'top_up', '', '2026-10-31 23:59Z', now())",
    ):
        assert broken_rule(owner_cursor, attack) == "period_is_closed"
    assert broken_rule(owner_cursor, "UPDATE billing_period SET close_count = 7") == "period_moves_by_its_states"
    with pytest.raises(PermissionRefused):
        take_back(MONTH, by=sam, reason="a late invoice")
    take_back(MONTH, by=fay, reason="a late invoice")
    decide_breaks(ids[:1], Decision(action=Action.REOPEN, reason="late"), by=fay)
    assert [event.action for event in PeriodEvent.objects.order_by("pk")] == ["asked", "closed", "reopened"]
    assert Period.objects.get().close_count == 1
    assert ProviderInvoice.objects.get().match_state == "idle"
    assert BreakEvent.objects.filter(action="reopen").count() == 1
    with pytest.raises(LanehouseError):
        periods.closing_bytes(MONTH)
