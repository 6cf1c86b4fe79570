"""Matching: each cause is found with its class and its amount, what nobody can explain stays, and nothing is lost."""

from __future__ import annotations

from collections import defaultdict

from billing.reconciliation.domain.sides import BreakKind
from billing.reconciliation.models import Break, BreakState, Bucket, FileState
from tests.billing.reconciliation.kit import month_of, record, taken


def found() -> dict[BreakKind, list[int]]:
    by_kind: dict[BreakKind, list[int]] = defaultdict(list)
    for each in Break.objects.exclude(state=BreakState.CLEARED):
        by_kind[BreakKind(each.kind)].append(int(each.difference_pico_usd))
    return {kind: sorted(differences) for kind, differences in by_kind.items()}


def test_every_class_is_found_with_its_amount_and_only_the_riddle_stays_unexplained(db: None) -> None:
    made = month_of()
    record(made)
    file = taken(made.bill)
    assert (file.state, file.bad_line_count, file.incomplete_reason) == (FileState.READ, 0, "")
    assert set(made.expected) == set(BreakKind)
    assert found() == made.expected
    invoice = file.invoice
    assert invoice.ours_pico_usd is not None
    assert invoice.ours_pico_usd == sum(int(attempts.costs_pico_usd.sum()) for _, attempts in made.jobs)
    difference = sum(sum(differences) for differences in made.expected.values())
    assert invoice.invoiced_pico_usd == invoice.ours_pico_usd + difference
    exact = Bucket.objects.filter(state="exact")
    # Each day's output, and the eighteen days less one... of input that agree in no way are breaks.
    assert {bucket.token_class for bucket in exact} == {"output"}
    assert exact.count() == 28
