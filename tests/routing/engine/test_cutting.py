"""Cutting a lane's rows into jobs: every row in exactly one part, every part within the limits."""

from __future__ import annotations

from io import BytesIO
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.domain.records import Rates
from routing.domain.pins import LanePlan
from routing.domain.placement import RowPlacement
from routing.payloads import Payload
from routing.services.jobs import cut_rows

RATES = Rates(
    input_rate_micro_usd_per_mtok=1,
    cached_input_rate_micro_usd_per_mtok=1,
    cache_write_5m_rate_micro_usd_per_mtok=1,
    cache_write_1h_rate_micro_usd_per_mtok=1,
    output_rate_micro_usd_per_mtok=1,
)
Row = tuple[int, int, int]
rows_of_files = st.lists(st.tuples(st.integers(10, 4_000), st.integers(1, 900), st.integers(0, 2)), max_size=60)


def payload_of(rows: list[Row]) -> Payload:
    lengths = np.array([length for length, _, _ in rows], dtype=np.int32)
    return Payload(
        BytesIO(),
        RowPlacement(
            offsets=np.cumsum(lengths, dtype=np.int64) - lengths,
            lengths=lengths,
            input_tokens=np.array([tokens for _, tokens, _ in rows], dtype=np.int32),
            group_indexes=np.zeros(len(rows), dtype=np.int32),
            lane_indexes=np.array([lane for _, _, lane in rows], dtype=np.int32),
        ),
    )


def lane(index: int, *, rows: int, size_bytes: int, tokens: int, minimum_rows: int = 1) -> LanePlan:
    return LanePlan(
        index=index,
        lane_id="openai-direct",
        provider="openai",
        region="global",
        model_id="m",
        row_count=0,
        input_tokens=0,
        fee_micro_usd=0,
        provider_rates=RATES,
        enqueued_tokens_limit=tokens,
        maximum_rows_per_job=rows,
        maximum_bytes_per_job=size_bytes,
        max_output_tokens=0,
        minimum_rows=minimum_rows,
    )


@given(rows_of_files, st.integers(1, 20), st.integers(300, 30_000), st.one_of(st.just(0), st.integers(1, 3_000)))
def test_the_parts_are_the_rows_and_each_fits(rows: list[Row], most: int, size_bytes: int, tokens: int) -> None:
    payload = payload_of(rows)
    for index in range(3):
        limits = lane(index, rows=most, size_bytes=size_bytes, tokens=tokens)
        parts = list(cut_rows(payload, limits, payload.rows_of(index)))
        assert [row for part in parts for row in part.tolist()] == [
            number for number, (_, _, of_lane) in enumerate(rows) if of_lane == index
        ]
        for part in parts:
            assert 1 <= len(part) <= most
            if len(part) > 1:
                assert sum(rows[row][0] * 2 + 256 for row in part.tolist()) <= size_bytes
                assert not tokens or sum(rows[row][1] for row in part.tolist()) <= tokens


@given(rows_of_files)
def test_no_part_could_take_the_next_row(rows: list[Row]) -> None:
    payload = payload_of(rows)
    parts = list(cut_rows(payload, lane(0, rows=7, size_bytes=9_000, tokens=1_500), payload.rows_of(0)))
    for part, following in pairwise(parts):
        longer = [*part.tolist(), int(following[0])]
        assert (
            len(longer) > 7
            or sum(rows[row][0] * 2 + 256 for row in longer) > 9_000
            or sum(rows[row][1] for row in longer) > 1_500
        )


@pytest.mark.parametrize(
    ("count", "sizes"),
    [(100, [100]), (250, [250]), (251, [151, 100]), (350, [250, 100]), (501, [250, 151, 100]), (40, [40])],
)
def test_the_last_part_is_no_smaller_than_the_lane_takes_where_two_parts_allow_it(count: int, sizes: list[int]) -> None:
    payload = payload_of([(10, 1, 0)] * count)
    limits = lane(0, rows=250, size_bytes=1_000_000, tokens=0, minimum_rows=100)
    parts = list(cut_rows(payload, limits, payload.rows_of(0)))
    assert [len(part) for part in parts] == sizes
    assert [row for part in parts for row in part.tolist()] == list(range(count))


def test_a_part_that_cannot_spare_rows_stays_as_it_is() -> None:
    payload = payload_of([(10, 1, 0)] * 160)
    limits = lane(0, rows=150, size_bytes=1_000_000, tokens=0, minimum_rows=100)
    assert [len(part) for part in cut_rows(payload, limits, payload.rows_of(0))] == [150, 10]
