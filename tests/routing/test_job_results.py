"""The columns of a job's results say what a record for each row would say."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from routing.job_results import JobResults, Verdict
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


@given(rows=st.sets(st.integers(0, 25), min_size=1), results=st.lists(SUCCESSES | FAILURES, max_size=30))
def test_each_row_has_its_first_result_or_the_missing_one(rows: set[int], results: list[RowResult]) -> None:
    collected = JobResults(np.array(sorted(rows), dtype=np.int64))
    first: dict[int, tuple[RowResult, int]] = {}
    kept = b""
    for result in results:
        if result.row in rows and result.row not in first:
            first[result.row] = (result, len(kept))
        kept += collected.take(result, len(kept))
    table = collected.table(MISSING)
    assert table.rows.tolist() == sorted(rows)
    for position, row in enumerate(table.rows.tolist()):
        verdict = table.verdicts[table.verdict_indexes[position]]
        if row not in first:
            assert (verdict, table.body_lengths[position], sum(table.tokens[position])) == (MISSING, 0, 0)
            continue
        result, offset = first[row]
        assert verdict == Verdict(outcome=result.outcome, code=result.code, healable=result.healable)
        assert table.status_codes[position] == (result.status_code or 0)
        assert kept[table.body_offsets[position] :][: table.body_lengths[position]] == (result.body or b"")
        assert table.body_offsets[position] == offset
        usage = result.usage
        assert TokenUsage(**dict(zip(usage.__struct_fields__, table.tokens[position].tolist(), strict=True))) == usage
    foreign = sum(result.row not in rows for result in results)
    assert (collected.taken_count, collected.foreign_count) == (len(first), foreign)
    assert collected.duplicate_count == len(results) - foreign - len(first)
