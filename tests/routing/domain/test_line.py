"""Who goes next where not all can."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from routing.domain.line import Piece, fitting, in_line, urgency

AT = datetime(2026, 12, 1, tzinfo=UTC)


def piece(job_id: int, organisation_id: int, tokens: int, minutes: int = 0) -> Piece:
    finish_by = AT + timedelta(minutes=minutes)
    return Piece(job_id=job_id, organisation_id=organisation_id, tokens=tokens, finish_by=finish_by)


PIECES = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 1_000), st.integers(0, 5)), max_size=20).map(
    lambda drawn: [piece(number, *each) for number, each in enumerate(drawn)]
)
HAD = st.fixed_dictionaries({organisation_id: st.integers(0, 2_000) for organisation_id in (1, 2, 3)})


@given(PIECES, HAD)
def test_everybody_stands_in_the_line_once_and_nobody_is_ahead_by_more_than_a_piece(
    pieces: list[Piece], had: dict[int, int]
) -> None:
    line = in_line(pieces, had)
    assert sorted(each.job_id for each in line) == list(range(len(pieces)))
    given_tokens = dict(had)
    for position, chosen in enumerate(line):
        waiting = {each.organisation_id for each in line[position:]}
        assert given_tokens[chosen.organisation_id] == min(given_tokens[each] for each in waiting)
        given_tokens[chosen.organisation_id] += chosen.tokens
    for organisation_id in {each.organisation_id for each in line}:
        own = [each for each in line if each.organisation_id == organisation_id]
        assert own == sorted(own, key=urgency)


def test_ten_rows_go_before_what_is_left_of_three_hundred_thousand() -> None:
    parts = [piece(number, 1, 10_000_000) for number in range(6)]
    # Of another organisation, also behind what the first was given; and of the same one, half an hour later.
    assert in_line([*parts, piece(6, 2, 2_000)], {1: 10_000_000, 2: 0})[0].job_id == 6
    assert in_line([*parts, piece(6, 1, 2_000, minutes=30)], {1: 0})[0].job_id == 6
    # What is to be finished two hours earlier goes first, however large.
    assert in_line([parts[0], piece(6, 1, 2_000, minutes=120)], {1: 0})[0].job_id == 0


def test_nobody_overtakes_a_piece_that_does_not_fit() -> None:
    line = [piece(0, 1, 50), piece(1, 2, 80), piece(2, 1, 5)]
    assert [each.job_id for each in fitting(line, room_tokens=100, is_empty=False)] == [0]
    assert [each.job_id for each in fitting(line, room_tokens=135, is_empty=False)] == [0, 1, 2]
    # An empty place takes the first whatever its size.
    assert [each.job_id for each in fitting(line, room_tokens=10, is_empty=True)] == [0]
    assert fitting(line, room_tokens=10, is_empty=False) == []
