"""What an accepted quote binds, as it is stored."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from catalog.domain.records import Rates, TokenKind
from routing.domain.pins import BatchPlan, GroupPlan, LanePlan

amounts = st.integers(0, 2**62)
texts = st.text(min_size=1, max_size=20)
rates = st.builds(
    Rates,
    input_rate_micro_usd_per_mtok=amounts,
    cached_input_rate_micro_usd_per_mtok=amounts,
    cache_write_5m_rate_micro_usd_per_mtok=amounts,
    cache_write_1h_rate_micro_usd_per_mtok=amounts,
    output_rate_micro_usd_per_mtok=amounts,
    derived=st.frozensets(st.sampled_from(TokenKind)),
)
lanes = st.builds(
    LanePlan,
    index=st.integers(0, 9),
    lane_id=texts,
    provider=texts,
    region=texts,
    model_id=texts,
    row_count=amounts,
    input_tokens=amounts,
    fee_micro_usd=amounts,
    provider_rates=rates,
    enqueued_tokens_limit=amounts,
    maximum_rows_per_job=amounts,
    maximum_bytes_per_job=amounts,
    max_output_tokens=amounts,
)
groups = st.builds(
    GroupPlan,
    index=st.integers(0, 9),
    group_key=texts,
    model_slug=texts,
    model_snapshot=texts,
    primary_lane_id=texts,
    rate_version_id=amounts,
    sell_rates=rates,
    reservation_micro_usd=amounts,
    lanes=st.lists(lanes, min_size=1, max_size=3, unique_by=lambda lane: lane.lane_id).map(tuple),
)
plans = st.builds(
    BatchPlan,
    total_micro_usd=amounts,
    ceiling_micro_usd=amounts,
    fee_micro_usd=amounts,
    groups=st.lists(groups, max_size=3).map(tuple),
)


@given(plans)
def test_a_plan_is_read_as_it_was_written_to_the_last_digit(plan: BatchPlan) -> None:
    assert BatchPlan.from_bytes(plan.to_bytes()) == plan
    assert BatchPlan.from_bytes(memoryview(plan.to_bytes())) == plan


@given(groups)
def test_a_lane_is_found_by_its_id(group: GroupPlan) -> None:
    assert group.quoted_lane(group.lanes[-1].lane_id) == group.lanes[-1]
    assert group.quoted_lane("".join(lane.lane_id for lane in group.lanes) + "no") is None
