"""What comes when its month is closed: the month stays as it is, and the next open one takes it."""

from __future__ import annotations

import hashlib
from datetime import UTC, date, datetime
from threading import Thread

import numpy as np
import psycopg
import pytest
from django.db import connection, transaction

from accounts.models import StaffRole, User
from billing.domain.records import AttemptOutcome, Attempts, CollectedJob, JobTerms
from billing.models import LedgerTransaction
from billing.reconciliation.checklist import checklist
from billing.reconciliation.domain.decisions import Action
from billing.reconciliation.models import Break, BreakState, ProviderInvoice
from billing.reconciliation.period_models import AttemptRecording, Period
from billing.reconciliation.services.decisions import Decision, decide_breaks
from billing.reconciliation.services.matching import match_next_invoice
from billing.reconciliation.services.periods import ask_to_close, close, closing_bytes, take_back
from billing.services.attempts import ensure_partitions, record_attempts
from ground.errors import InvalidRequest
from tests.billing.kit import assert_books_hold, broken_rule
from tests.billing.reconciliation.kit import ACCOUNT, MONTH, RATES, matched_month
from tests.harness.clock import Clock
from tests.routing.pages.conftest import signed_in
from tests.routing.pages.scenes import staff

NOVEMBER, DECEMBER = date(2026, 11, 1), date(2026, 12, 1)


def attempts_of(at: datetime, *, job_id: int = -900, tokens: int = 4_000, is_test: bool = False) -> None:
    """Record a job of two rows, each with so many input tokens at 0.075 USD per million."""
    ensure_partitions(at)
    job = CollectedJob(
        organisation_id=1, batch_id=job_id, job_id=job_id, lane_id="openai-direct", provider="openai",
        provider_account=ACCOUNT, provider_project="proj_lanehouse", completed_at=at,
        terms=JobTerms(
            batch_public_id=f"batch_late{-job_id}", model_snapshot="gpt-4o-mini-2024-07-18",
            model_id="gpt-4o-mini-2024-07-18", is_test=is_test, rates=RATES,
        ),
    )  # fmt: skip
    per_row = np.zeros((2, 5), dtype=np.int64)
    per_row[:, 0] = tokens
    record_attempts(
        job,
        Attempts(
            attempt_number=1, rows=np.arange(2), verdicts=((AttemptOutcome.SUCCEEDED, ""),),
            verdict_indexes=np.zeros(2, dtype=np.int64), tokens=per_row,
            costs_pico_usd=np.full(2, tokens * 75_000, dtype=np.int64),
        ),
    )  # fmt: skip


@pytest.fixture
def closed(db: None, clock: Clock) -> tuple[User, User]:
    """Close October 2026 by two people, whom this gives."""
    fay, sam = staff(StaffRole.FINANCE, name="Fay Finance"), staff(StaffRole.FINANCE, name="Sam Second")
    clock.freeze(datetime(2026, 11, 5, tzinfo=UTC))
    matched_month()
    ids = list(Break.objects.values_list("public_id", flat=True))
    decide_breaks(ids, Decision(action=Action.DISPUTE, reason="sent to them"), by=fay)
    ask_to_close(MONTH, by=fay)
    close(MONTH, by=sam)
    return fay, sam


def matched() -> None:
    while match_next_invoice():
        pass


def test_a_late_job_becomes_a_break_of_the_next_open_month_and_the_closed_one_keeps_its_bytes(
    closed: tuple[User, User],
) -> None:
    fay, _ = closed
    before = closing_bytes(MONTH)
    october = ProviderInvoice.objects.filter(period=MONTH).values().get()
    attempts_of(datetime(2026, 10, 31, 23, 59, tzinfo=UTC))
    attempts_of(datetime(2026, 10, 30, tzinfo=UTC), job_id=-901, is_test=True)
    attempts_of(datetime(2026, 11, 1, tzinfo=UTC), job_id=-902)
    late = AttemptRecording.objects.get(late_for=MONTH)
    # Two rows of 4,000 tokens at 75,000 pico-USD.
    assert (late.carried_to, late.attempt_count, int(late.cost_pico_usd)) == (NOVEMBER, 2, 600_000_000)
    matched()
    november = ProviderInvoice.objects.get(period=NOVEMBER)
    found = Break.objects.get(invoice=november, day=None)
    assert (found.kind, found.state, int(found.difference_pico_usd)) == ("time_boundary", "explained", -600_000_000)
    assert found.evidence["jobs"][0]["batch_id"] == "batch_late900"
    # November's own job is there too: 600,000,000 of each.
    assert int(november.ours_pico_usd or 0) == 1_200_000_000
    decide_breaks([found.public_id], Decision(action=Action.ADJUST, reason="they billed it in October"), by=fay)
    entry = LedgerTransaction.objects.get(reference=found.public_id)
    assert entry.effective_at >= datetime(2026, 11, 1, tzinfo=UTC)
    assert closing_bytes(MONTH) == before
    assert ProviderInvoice.objects.filter(period=MONTH).values().get() == october
    page = signed_in(fay).get("/fin/periods/2026-10/").content.decode()
    assert ("Late attempts" in page, "batch_late900" in page, "November 2026" in page) == (True, True, True)
    assert "period=2026-11" in page
    assert_books_hold()


def test_reopening_gives_late_attempts_back_unless_a_closed_month_has_taken_them(
    closed: tuple[User, User], clock: Clock
) -> None:
    fay, sam = closed
    attempts_of(datetime(2026, 10, 20, tzinfo=UTC))
    matched()
    taken = Break.objects.get(invoice__period=NOVEMBER)
    decide_breaks([taken.public_id], Decision(action=Action.ACCEPT, reason="not billed"), by=fay)
    clock.freeze(datetime(2026, 12, 5, tzinfo=UTC))
    ask_to_close(NOVEMBER, by=fay)
    close(NOVEMBER, by=sam)
    # The next late one goes past both.
    attempts_of(datetime(2026, 10, 21, tzinfo=UTC), job_id=-903)
    assert AttemptRecording.objects.get(job_id=-903).carried_to == DECEMBER
    with pytest.raises(InvalidRequest) as refused:
        take_back(MONTH, by=fay, reason="a late invoice")
    assert (refused.value.code, Period.objects.get(month=MONTH).state) == ("invalid_value", "closed")
    take_back(NOVEMBER, by=fay, reason="a late invoice")
    take_back(MONTH, by=fay, reason="a late invoice")
    assert not AttemptRecording.objects.filter(late_for__isnull=False).exists()
    matched()
    taken.refresh_from_db()
    # What was posted about it is posted back, and October counts both.
    assert (taken.state, taken.entry_key) == (BreakState.CLEARED, "")
    october = ProviderInvoice.objects.get(period=MONTH)
    assert Break.objects.filter(invoice=october, day__in=[date(2026, 10, 20), date(2026, 10, 21)]).count() == 2
    assert_books_hold()


def test_a_month_is_not_closed_over_attempts_that_no_match_has_counted(db: None, clock: Clock) -> None:
    clock.freeze(datetime(2026, 11, 5, tzinfo=UTC))
    matched_month()
    attempts_of(datetime(2026, 10, 20, tzinfo=UTC))
    assert {item.key for item in checklist(MONTH) if not item.is_met} == {"breaks", "matched"}


def test_a_close_waits_for_whoever_records(db: None, clock: Clock) -> None:
    clock.freeze(datetime(2026, 11, 5, tzinfo=UTC))
    fay, sam = staff(StaffRole.FINANCE, name="Fay Finance"), staff(StaffRole.FINANCE, name="Sam Second")
    matched_month()
    ids = list(Break.objects.values_list("public_id", flat=True))
    decide_breaks(ids, Decision(action=Action.DISPUTE, reason="sent to them"), by=fay)
    ask_to_close(MONTH, by=fay)
    refusals: list[str] = []

    def close_it() -> None:
        try:
            close(MONTH, by=sam)
        except InvalidRequest as error:
            refusals.append(error.code)
        connection.close()

    with transaction.atomic():
        attempts_of(datetime(2026, 10, 20, tzinfo=UTC))
        closing = Thread(target=close_it)
        closing.start()
        _wait_for_a_waiter()
    closing.join()
    # It came in time, so the month is not what was agreed to close.
    assert (refusals, Period.objects.get().state) == (["period_not_ready"], "closing")
    assert AttemptRecording.objects.get(job_id=-900).late_for is None


def _wait_for_a_waiter() -> None:
    with connection.cursor() as cursor:
        while True:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
            row = cursor.fetchone()
            if row and row[0]:
                return


_ATTACKS = (
    ("UPDATE billing_providerinvoice SET period = '2026-12-01'", "period_is_closed"),
    ("UPDATE billing_break SET invoice_id = (SELECT id FROM billing_providerinvoice WHERE period > '2026-10-01')",
     "period_is_closed"),
    ("""INSERT INTO billing_breakevent (of_break_id, at, action, from_state, to_state, reason, said)
     SELECT id, now(), 'x', '', 'open', '', '' FROM billing_break LIMIT 1""", "period_is_closed"),
    ("UPDATE billing_bucket SET ours_pico_usd = 0", "period_is_closed"),
    ("UPDATE billing_invoicefile SET sha256 = '', total_pico_usd = 1", "period_is_closed"),
    ("DELETE FROM billing_break", "period_is_closed"),
    ("UPDATE billing_period SET export_sha256 = ''", "period_moves_by_its_states"),
    ("UPDATE billing_period SET state = 'closed', closed_by_id = requested_by_id", "period_moves_by_its_states"),
    ("UPDATE billing_attemptrecording SET cost_pico_usd = 0", "recording_is_append_only"),
    ("UPDATE billing_attemptrecording SET carried_to = '2027-01-01' WHERE late_for IS NOT NULL",
     "recording_is_append_only"),
)  # fmt: skip


def test_nothing_of_a_closed_month_is_moved_or_rewritten(
    closed: tuple[User, User], owner_cursor: psycopg.Cursor
) -> None:
    attempts_of(datetime(2026, 10, 20, tzinfo=UTC))
    assert [(attack, broken_rule(owner_cursor, attack)) for attack, _ in _ATTACKS] == list(_ATTACKS)
    for emptied in ("billing_period", "billing_attemptrecording", "billing_break"):
        with pytest.raises(psycopg.Error):
            owner_cursor.execute(f"TRUNCATE {emptied} CASCADE")
    content, sha256 = closing_bytes(MONTH)
    assert hashlib.sha256(content).digest() == sha256
