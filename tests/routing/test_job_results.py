"""The columns of a job's results say what a record for each row would say."""

from __future__ import annotations

from itertools import groupby

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple

from routing.job_results import JobResults, Verdict
from routing.providers.answered import AnsweredRows
from routing.providers.base import Outcome, RowCode, RowResult, TokenUsage

MISSING = Verdict(outcome=Outcome.FAILED, code=None, healable=True)
TOKENS = st.integers(0, 2**31 - 1)
USAGES = st.builds(
    TokenUsage,
    input_tokens=TOKENS,
    cached_input_tokens=TOKENS,
    cache_write_5m_tokens=TOKENS,
    cache_write_1h_tokens=TOKENS,
    output_tokens=TOKENS,
    reasoning_tokens=TOKENS,
)
SUCCESSES = st.builds(
    RowResult,
    row_key=st.just(""),
    row=st.integers(0, 30),
    outcome=st.just(Outcome.SUCCEEDED),
    code=st.none(),
    healable=st.just(False),
    status_code=st.just(200),
    body=st.binary(max_size=5),
    usage=USAGES,
)
FAILURES = st.builds(
    RowResult,
    row_key=st.just(""),
    row=st.integers(0, 30),
    outcome=st.sampled_from([Outcome.FAILED, Outcome.EXPIRED, Outcome.CANCELLED]),
    code=st.sampled_from(RowCode),
    healable=st.booleans(),
    status_code=st.none() | st.just(500),
    body=st.none(),
    usage=USAGES,
)


RESULTS = st.lists(SUCCESSES | FAILURES, max_size=30)


def together(results: list[RowResult]) -> AnsweredRows:
    return AnsweredRows(
        status_code=200,
        rows=np.array([result.row for result in results], dtype=np.int64),
        tokens=np.array([astuple(result.usage) for result in results], dtype=np.int64),
        bodies=[result.body or b"" for result in results],
    )


def take(collected: JobResults, results: list[RowResult], *, at_once: bool) -> bytes:
    """Take results as an adapter gives them, row by row or successes together, and give the bodies to be kept."""
    for succeeded, group in groupby(results, key=lambda result: result.outcome is Outcome.SUCCEEDED):
        run = list(group)
        for read in [together(run)] if at_once and succeeded else run:
            collected.take(read)
    return b"".join(collected.take_bodies())


@given(rows=st.sets(st.integers(0, 25), min_size=1), parts=st.lists(RESULTS, max_size=4), at_once=st.booleans())
def test_each_row_has_its_first_result_or_the_missing_one(
    rows: set[int], parts: list[list[RowResult]], *, at_once: bool
) -> None:
    collected = JobResults(np.array(sorted(rows), dtype=np.int64))
    kept = b"".join([take(collected, part, at_once=at_once) for part in parts])
    results = [result for part in parts for result in part]
    first: dict[int, RowResult] = {}
    for result in results:
        if result.row in rows:
            first.setdefault(result.row, result)
    table = collected.table(MISSING)
    assert table.rows.tolist() == sorted(rows)
    for position, row in enumerate(table.rows.tolist()):
        verdict = table.verdicts[table.verdict_indexes[position]]
        if row not in first:
            assert (verdict, table.body_lengths[position], sum(table.tokens[position])) == (MISSING, 0, 0)
            continue
        result = first[row]
        assert verdict == Verdict(outcome=result.outcome, code=result.code, healable=result.healable)
        assert table.status_codes[position] == (result.status_code or 0)
        assert kept[table.body_offsets[position] :][: table.body_lengths[position]] == (result.body or b"")
        assert tuple(table.tokens[position].tolist()) == astuple(result.usage)
    assert len(kept) == table.body_lengths.sum()
    foreign = sum(result.row not in rows for result in results)
    assert (collected.taken_count, collected.foreign_count) == (len(first), foreign)
    assert collected.duplicate_count == len(results) - foreign - len(first)


def test_bodies_that_wait_are_given_in_the_order_of_their_rows() -> None:
    collected = JobResults(np.arange(4))
    bodies = {2: b"two", 0: b"zero", 3: b"three"}
    kept = take(collected, [success(row, body) for row, body in bodies.items()], at_once=True)
    assert kept + take(collected, [success(1, b"one")], at_once=False) == b"zerotwothreeone"
    assert collected.table(MISSING).body_offsets.tolist() == [0, 12, 4, 7]


def success(row: int, body: bytes) -> RowResult:
    return RowResult(
        row_key="",
        row=row,
        outcome=Outcome.SUCCEEDED,
        code=None,
        healable=False,
        status_code=200,
        body=body,
        usage=TokenUsage(),
    )
