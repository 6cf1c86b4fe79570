from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks.domain.ladder import DELAYS_SECONDS, next_attempt_at, retry_after_seconds

AT = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


def wait_seconds(failure_count: int, delivery_id: str = "dlv_1", asked: int | None = None) -> float:
    due_at = next_attempt_at(
        failed_at=AT, failure_count=failure_count, delivery_id=delivery_id, retry_after_seconds=asked
    )
    assert due_at is not None
    return (due_at - AT).total_seconds()


@given(st.integers(1, 6), st.text("0123456789ABCDEFGHJKMNPQRSTVWXYZ", min_size=26, max_size=26))
def test_each_wait_is_its_step_give_or_take_a_tenth(failure_count: int, delivery_id: str) -> None:
    step_seconds = DELAYS_SECONDS[failure_count - 1]
    assert 0.9 * step_seconds <= wait_seconds(failure_count, delivery_id) <= 1.1 * step_seconds


def test_the_steps_are_those_that_are_promised_and_there_are_seven_attempts() -> None:
    assert DELAYS_SECONDS == (30, 120, 600, 3_600, 21_600, 86_400)
    assert next_attempt_at(failed_at=AT, failure_count=7, delivery_id="dlv_1") is None


def test_what_failed_together_comes_back_spread_over_the_window() -> None:
    waits = [wait_seconds(3, f"dlv_{number}") for number in range(500)]
    assert len({round(wait) for wait in waits}) > 80
    assert abs(sum(waits) / len(waits) - 600) < 6


def test_the_wait_is_the_same_whoever_computes_it() -> None:
    assert wait_seconds(2) == wait_seconds(2)


@pytest.mark.parametrize(("asked", "expected"), [(3_600, 3_600), (86_400, 86_400), (10**9, 86_400)])
def test_a_longer_wait_is_honoured_up_to_a_day(asked: int, expected: int) -> None:
    assert wait_seconds(1, asked=asked) == expected


def test_a_shorter_wait_than_the_step_changes_nothing() -> None:
    assert wait_seconds(2, asked=5) == wait_seconds(2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("120", 120),
        (" 0 ", 0),
        ("100000", 86_400),
        ("9" * 18, 86_400),
        ("Sun, 29 Nov 2026 12:02:00 GMT", 120),
        ("Sunday, 29-Nov-26 12:02:00 GMT", 120),
        ("Mon, 29 Nov 2027 12:00:00 GMT", 86_400),
        ("Sun, 29 Nov 2026 11:00:00 GMT", None),
        ("-5", None),
        ("abc", None),
        ("1e9", None),
        ("1.5", None),
        ("٣", None),
        ("", None),
        ("Sun, 99 Nov 2026 12:02:00 GMT", None),
        ("Sun, 29 Nov 99999999999 12:02:00 GMT", None),
    ],
)
def test_retry_after_is_read_as_seconds_or_a_date_or_not_at_all(text: str, expected: int | None) -> None:
    assert retry_after_seconds(text, AT) == expected


def test_part_of_a_second_is_a_whole_one() -> None:
    assert retry_after_seconds("Sun, 29 Nov 2026 12:02:00 GMT", AT + timedelta(milliseconds=500)) == 120
