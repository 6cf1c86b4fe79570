"""Binary rows are to PostgreSQL what the same values are when they are given one by one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ground.bulk import HEADER, TRAILER, Column, Kind, binary_rows

NAMES = "at, small, middle, large, word, row_small, row_large"
TYPES = ("timestamptz", "smallint", "integer", "bigint", "text", "smallint", "bigint")
INSTANTS = st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 -- bounds
SMALL, LARGE = st.integers(-(2**15), 2**15 - 1), st.integers(-(2**63), 2**63 - 1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=timedelta(seconds=5))
@given(
    at=INSTANTS,
    small=SMALL,
    middle=st.integers(-(2**31), 2**31 - 1),
    large=LARGE,
    word=st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20),
    rows=st.lists(st.tuples(SMALL, LARGE), max_size=5),
)
def test_a_copied_row_has_the_values_it_was_made_of(
    owner_cursor: psycopg.Cursor,
    at: datetime,
    small: int,
    middle: int,
    large: int,
    word: str,
    rows: list[tuple[int, int]],
) -> None:
    each = np.array(rows, dtype=np.int64).reshape(-1, 2)
    columns: list[Column] = [
        (Kind.TIMESTAMPTZ, at),
        (Kind.SMALLINT, small),
        (Kind.INTEGER, middle),
        (Kind.BIGINT, large),
        (Kind.TEXT, word),
        (Kind.SMALLINT, each[:, 0]),
        (Kind.BIGINT, each[:, 1]),
    ]
    typed = ", ".join(f"{name} {kind}" for name, kind in zip(NAMES.split(", "), TYPES, strict=True))
    owner_cursor.execute(f"CREATE TEMP TABLE IF NOT EXISTS copied ({typed})")
    owner_cursor.execute("TRUNCATE copied")
    with owner_cursor.copy(f"COPY copied ({NAMES}) FROM STDIN (FORMAT BINARY)") as copy:
        for piece in (HEADER, *binary_rows(columns, len(rows)), TRAILER):
            copy.write(piece)
    found = owner_cursor.execute(f"SELECT {NAMES} FROM copied").fetchall()
    assert sorted(found) == sorted((at, small, middle, large, word, *row) for row in rows)


@pytest.mark.parametrize("number", [2**15, -(2**15) - 1])
def test_a_number_that_does_not_fit_is_refused_and_never_cut(number: int) -> None:
    for value in (number, np.array([0, number])):
        with pytest.raises(OverflowError, match="does not fit into smallint"):
            binary_rows([(Kind.SMALLINT, value)], 2)
