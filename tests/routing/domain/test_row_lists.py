"""Which rows a job carries, packed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.domain.row_lists import pack_rows, unpack_rows


@given(st.sets(st.integers(0, 2_000_000), max_size=300))
def test_what_is_unpacked_is_what_was_packed(rows: set[int]) -> None:
    assert unpack_rows(pack_rows(sorted(rows))).tolist() == sorted(rows)


@given(st.sets(st.integers(0, 10_000), max_size=50))
def test_the_same_rows_are_packed_to_the_same_bytes_however_they_are_given(rows: set[int]) -> None:
    as_array = np.array(sorted(rows), dtype=np.int64)
    assert pack_rows(as_array) == pack_rows(iter(sorted(rows)))


def test_a_million_consecutive_rows_take_few_bytes() -> None:
    assert len(pack_rows(np.arange(1_000_000))) < 5_000


def test_a_memoryview_is_read_as_well() -> None:
    assert unpack_rows(memoryview(pack_rows([0, 7]))).tolist() == [0, 7]


@pytest.mark.parametrize("rows", [[1, 1], [2, 1], [-1, 0]])
def test_rows_that_do_not_increase_are_refused(rows: list[int]) -> None:
    with pytest.raises(AssertionError):
        pack_rows(rows)
