"""When a provider is asked how a job is doing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.domain.polling import Pace, poll_wait_seconds

SECONDS = st.floats(0, 100_000)


@pytest.mark.parametrize(
    ("age_seconds", "wait_seconds"),
    # Half the way to the early end; twenty looks between 1,000 and 1,400 s; rarer after it; never over a minute.
    [(0, 60), (920, 40), (990, 5), (999, 2), (1_000, 20), (1_400, 20), (1_800, 40), (9_000, 60)],
)
def test_looks_are_rare_at_first_and_often_near_the_end(age_seconds: float, wait_seconds: float) -> None:
    pace = Pace(early_seconds=1_000, late_seconds=1_400)
    assert poll_wait_seconds(age_seconds, pace, least=2, most=60) == wait_seconds


def test_without_experience_it_is_a_twentieth_of_the_age() -> None:
    assert [poll_wait_seconds(age, None, least=1, most=60) for age in (0, 100, 10_000)] == [1, 5, 60]


@given(SECONDS, SECONDS, SECONDS)
def test_the_bounds_hold_whatever_was_learned(age_seconds: float, early: float, more: float) -> None:
    wait = poll_wait_seconds(age_seconds, Pace(early_seconds=early, late_seconds=early + more), least=1, most=60)
    assert 1 <= wait <= 60
