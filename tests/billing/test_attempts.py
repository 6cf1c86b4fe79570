"""Attempt facts: recorded once, exact, append-only, never lost for want of a partition."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import psycopg
import pytest

from billing.domain.records import AttemptOutcome, Attempts, CollectedJob, ProviderCost
from billing.models import AttemptFact
from billing.selectors import provider_costs_of_batch
from billing.services.attempts import ensure_partitions, record_attempts
from ground import clock as system_clock
from tests.billing.kit import at_once, broken_rule, rows


def job(job_id: int = 1, *, account: str = "main", completed_at: datetime | None = None) -> CollectedJob:
    return CollectedJob(
        organisation_id=1,
        batch_id=5,
        job_id=job_id,
        lane_id="openai-direct",
        provider="openai",
        provider_account=account,
        provider_project="project",
        completed_at=completed_at or system_clock.now().replace(microsecond=0),
    )


def attempts(count: int, *, cost_pico_usd: int = 75_000) -> Attempts:
    rows = np.arange(count)
    tokens = np.zeros((count, 5), dtype=np.int64)
    tokens[:, 0], tokens[:, 4] = 1, rows
    return Attempts(
        attempt_number=1,
        rows=rows,
        verdicts=((AttemptOutcome.SUCCEEDED, ""), (AttemptOutcome.FAILED, "provider_error")),
        verdict_indexes=(rows == 0).astype(np.int64),
        tokens=tokens,
        costs_pico_usd=np.full(count, cost_pico_usd),
    )


def test_a_jobs_attempts_are_recorded(db: None) -> None:
    collected = job()
    assert record_attempts(collected, attempts(3)) == 3
    fact = AttemptFact.objects.get(row=0)
    assert (fact.outcome, fact.code, fact.input_tokens, fact.cost_pico_usd) == ("failed", "provider_error", 1, 75_000)
    assert [each.output_tokens for each in AttemptFact.objects.order_by("row")] == [0, 1, 2]
    assert (fact.completed_at, fact.batch_id, fact.lane_id) == (collected.completed_at, 5, "openai-direct")


def test_a_repeated_collect_adds_nothing(db: None) -> None:
    collected = job()
    record_attempts(collected, attempts(3))
    assert record_attempts(collected, attempts(5)) == 2
    assert record_attempts(collected, attempts(5)) == 0
    assert AttemptFact.objects.count() == 5


def test_one_job_collected_by_four_at_once_is_recorded_once(db: None) -> None:
    collected = job()
    answers = at_once(4, lambda _: record_attempts(collected, attempts(200)))
    assert sorted(answers, key=str) == [0, 0, 0, 200]


def test_a_row_twice_in_one_collect_is_refused_whole(db: None) -> None:
    with pytest.raises(Exception, match="duplicate key"):
        record_attempts(job(), replace(attempts(3), rows=np.array([0, 1, 0])))
    assert not AttemptFact.objects.exists()


def test_cost_is_summed_exactly_by_account_billed_failures_included(db: None) -> None:
    record_attempts(job(1), attempts(7, cost_pico_usd=1))
    record_attempts(job(2), attempts(2, cost_pico_usd=2**62))
    record_attempts(job(3, account="spare"), attempts(1, cost_pico_usd=3))
    assert provider_costs_of_batch(organisation_id=1, batch_id=5) == (
        ProviderCost(provider="openai", provider_account="main", cost_pico_usd=2**63 + 7),
        ProviderCost(provider="openai", provider_account="spare", cost_pico_usd=3),
    )
    assert provider_costs_of_batch(organisation_id=2, batch_id=5) == ()


@pytest.mark.parametrize("statement", ["UPDATE {} SET cost_pico_usd = 0", "DELETE FROM {}"])
def test_attempts_are_append_only_also_in_a_partition_named_directly(attacker: psycopg.Cursor, statement: str) -> None:
    record_attempts(job(), attempts(1))
    [(partition,)] = rows(attacker, "SELECT tableoid::regclass::text FROM attempt_fact")
    for table in ("attempt_fact", partition):
        assert broken_rule(attacker, statement.format(table)) in {"no privilege", "journal_is_append_only"}
    assert AttemptFact.objects.get().cost_pico_usd == 75_000


def test_attempts_cannot_be_truncated(owner_cursor: psycopg.Cursor) -> None:
    assert broken_rule(owner_cursor, "TRUNCATE attempt_fact") == "journal_is_append_only"


def test_an_attempt_from_another_year_is_kept_in_the_default_partition(owner_cursor: psycopg.Cursor) -> None:
    record_attempts(job(completed_at=datetime(2019, 5, 1, tzinfo=UTC)), attempts(1))
    assert rows(owner_cursor, "SELECT tableoid::regclass::text FROM attempt_fact") == [("attempt_fact_default",)]


def test_the_months_ahead_have_their_partitions(owner_cursor: psycopg.Cursor) -> None:
    at = datetime(2031, 12, 31, 23, 59, tzinfo=UTC)
    ensure_partitions(at)
    ensure_partitions(at)
    record_attempts(job(1, completed_at=at), attempts(1))
    record_attempts(job(2, completed_at=at + timedelta(minutes=1)), attempts(1))
    assert rows(owner_cursor, "SELECT tableoid::regclass::text FROM attempt_fact ORDER BY completed_at") == [
        ("attempt_fact_y2031m12",),
        ("attempt_fact_y2032m01",),
    ]
    assert rows(owner_cursor, "SELECT to_regclass('attempt_fact_y2032m02') IS NOT NULL") == [(True,)]
