"""Matching: each cause is found with its class and its amount, what nobody can explain stays, and nothing is lost."""

from __future__ import annotations

from collections import defaultdict
from datetime import date

from hypothesis import given, settings
from hypothesis import strategies as st

from accounts.models import StaffRole
from billing.reconciliation.domain.decisions import Action
from billing.reconciliation.domain.naming import name_differences
from billing.reconciliation.domain.sides import BreakKind, Known, KnownRates, Place, Sides
from billing.reconciliation.models import Break, BreakState, Bucket, FileState
from billing.reconciliation.services.decisions import Decision, decide_breaks
from tests.billing.reconciliation.kit import month_of, record, taken
from tests.routing.pages.scenes import staff


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
    # Each day's output; all input differs in some way.
    assert {bucket.token_class for bucket in exact} == {"output"}
    assert exact.count() == 28


def test_a_corrected_bill_clears_what_it_mends_and_asks_again_where_a_decided_figure_moved(db: None) -> None:
    made = month_of()
    record(made)
    taken(made.bill)
    fay = staff(StaffRole.FINANCE, name="Fay Finance")
    riddle, tax = (Break.objects.get(kind=kind) for kind in ("unexplained", "tax"))
    decision = Decision(action=Action.DISPUTE, reason="sent to them")
    decide_breaks([riddle.public_id, tax.public_id], decision, by=fay)
    # The riddle was 88,000 tokens for 0.00783456 USD instead of 0.0066; the tax 1.19.
    corrected = made.bill.replace(b"0.00783456", b"0.00660000").replace(b"1.19000000", b"1.20000000")
    taken(corrected)
    riddle.refresh_from_db()
    tax.refresh_from_db()
    assert (riddle.state, riddle.decided_by) == (BreakState.CLEARED, None)
    assert (tax.state, int(tax.difference_pico_usd)) == (BreakState.EXPLAINED, 1_200_000_000_000)
    assert [event.action for event in tax.events.order_by("pk")] == ["opened", "dispute", "matched"]
    assert BreakKind.UNEXPLAINED not in found()


PLACES = st.builds(
    Sides,
    place=st.builds(
        Place,
        day=st.dates(date(2026, 10, 1), date(2026, 10, 5)),
        model=st.sampled_from(["m-2026-01-01", "m-latest", "n"]),
        tier=st.sampled_from(["batch", "standard"]),
        token_class=st.sampled_from(["input_uncached", "input_cache_read", "output"]),
        project=st.just(""),
    ),
    invoiced_line_count=st.integers(0, 2),
    invoiced_quantity=st.none() | st.integers(0, 3),
    invoiced_pico_usd=st.integers(-3, 6),
    ours_job_count=st.integers(0, 2),
    ours_quantity=st.integers(0, 3),
    ours_pico_usd=st.integers(0, 6),
    failed_pico_usd=st.integers(0, 2),
    long_quantity=st.integers(0, 2),
    duplicate_line_pico_usd=st.integers(0, 2),
    duplicate_job_pico_usd=st.integers(0, 2),
    is_outside=st.booleans(),
)
RATES = {("n", "output"): KnownRates(batch=frozenset({1, 2}), standard=frozenset({2, 4}))}


@settings(max_examples=150, deadline=None)
@given(st.lists(PLACES, max_size=12, unique_by=lambda sides: sides.place), st.sampled_from([1, 3]))
def test_every_difference_gets_exactly_one_name(compared: list[Sides], minor: int) -> None:
    named = name_differences(compared, Known(rates=RATES, minor_unit_pico_usd=minor))
    differing = [each for each in compared if each.difference_pico_usd and not each.is_outside]
    assert sorted(each.sides.place for each in named) == sorted(each.place for each in differing)
    for each in named:
        assert each.said
        if each.kind is BreakKind.TIME_BOUNDARY:
            run = [sides for sides in compared if sides.place in each.cause]
            lines = sum(max(1, sides.invoiced_line_count) for sides in run)
            # Of a bill that prints every pico-USD nothing may be left.
            assert abs(sum(sides.difference_pico_usd for sides in run)) <= (minor * lines if minor > 1 else 0)
