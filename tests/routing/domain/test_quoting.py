"""The figures of a quote, each worked out by hand."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from datetime import timedelta

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.domain.records import ModelName
from ground.errors import RowErrors
from routing.domain.estimate.tokens import RowTokens
from routing.domain.offering import QuoteSettings
from routing.domain.placement import RowPlacement
from routing.domain.plan import QuotePlan
from routing.domain.pricing import price_group
from routing.domain.quoting import make_quote_plan
from routing.domain.scoring import WorkflowProfile
from tests.routing.domain.sample import AT, EMBEDDER, GPT_4O, HOUSE, catalog, jsonl, rates, row


def quote(*rows: object) -> QuotePlan:
    return make_quote_plan(jsonl(*rows), HOUSE, WorkflowProfile(), QuoteSettings(), AT)


def column(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


def tokens(given_in: int, out: int, high: int, worst_in: int, worst_out: int) -> RowTokens:
    return RowTokens(
        input_tokens=column(given_in),
        output_tokens=column(out),
        output_high_tokens=column(high),
        ceiling_input_tokens=column(worst_in),
        ceiling_output_tokens=column(worst_out),
    )


def test_a_groups_figures_are_as_worked_out_by_hand() -> None:
    # sell 0.075 and 0.3 micro-USD a token
    charge = price_group(
        tokens(1_001, 301, 500, 4_003, 1_001),
        rates(75_000, 300_000),
        rates(150_000, 600_000),
        vocabulary_is_public=True,
        margin_basis_points=1_000,
    )
    # 75.075 -> 75, 90.3 -> 90
    assert charge.usage_charge_micro_usd == 75 + 90
    # low: 1,001 x 0.95 = 950 whole tokens x 0.075 = 71.25 -> 71; 150 x 0.3 = 45
    assert charge.low_micro_usd == 71 + 45
    # high: 1,052 (up) x 0.075 = 78.9 -> 79; 500 x 0.3 = 150
    assert charge.high_micro_usd == 79 + 150
    # ceiling, up per kind: 300.225 -> 301; 300.3 -> 301
    assert charge.ceiling_micro_usd == 301 + 301
    # reservation: max(78.9 + 150, 1.1 x 165.375 = 181.9125) = 228.9 -> 229, under the ceiling
    assert charge.reservation_micro_usd == 229
    # 150.15 -> 150; 180.6 -> 181
    assert charge.sync_charge_micro_usd == 150 + 181


def test_ties_go_to_the_even_neighbour_and_the_ceiling_bounds_the_rest() -> None:
    # 10 x 0.05 = 0.5 -> 0 and 30 x 0.05 = 1.5 -> 2, half to even; the ceiling of the same tokens: 1 and 2
    charge = price_group(
        tokens(10, 30, 900, 10, 30),
        rates(50_000, 50_000),
        rates(0, 0),
        vocabulary_is_public=False,
        margin_basis_points=1_000,
    )
    assert charge.usage_charge_micro_usd == 0 + 2
    assert charge.ceiling_micro_usd == 1 + 2
    assert charge.high_micro_usd == 3
    assert charge.reservation_micro_usd == 3


def test_the_margin_decides_where_it_is_above_high() -> None:
    # closed vocabulary, high = 1.2 x 1,000 x 1 = 1,200 micro-USD; 1.5 x 1,000 = 1,500; ceiling 9,000
    charge = price_group(
        tokens(1_000, 0, 0, 9_000, 0),
        rates(1_000_000, 0),
        rates(0, 0),
        vocabulary_is_public=False,
        margin_basis_points=5_000,
    )
    assert charge.high_micro_usd == 1_200
    assert charge.reservation_micro_usd == 1_500


def test_a_whole_quote_adds_its_groups_and_fees() -> None:
    plan = quote(row("a"), row("b", model="gpt-4o", max_tokens=10), row("c"))
    assert (plan.row_count, plan.model_count) == (3, 2)
    assert plan.estimate.fee_micro_usd == 2 * 20_000
    usage = [group.charge.usage_charge_micro_usd for group in plan.groups]
    assert plan.estimate.total_micro_usd == sum(usage) + 40_000
    # "Name one river." has 15 bytes; ceiling = 15 + 4 + 3 a row; limits 50 + 50 and 10
    mini, large = plan.groups
    assert (mini.charge.ceiling_input_tokens, mini.charge.ceiling_output_tokens) == (44, 100)
    # mini: 44 x 0.075 = 3.3 -> 4; 100 x 0.3 = 30.  large: 22 x 1.25 = 27.5 -> 28; 10 x 5 = 50
    assert mini.charge.ceiling_micro_usd == 4 + 30
    assert large.charge.ceiling_micro_usd == 28 + 50
    assert plan.estimate.ceiling_micro_usd == 34 + 78 + 40_000
    assert plan.placement.group_indexes.tolist() == [0, 1, 0]
    assert [item.model_id for item in plan.lanes] == ["gpt-4o-mini@openai-direct", "gpt-4o@openai-direct"]


def test_output_is_estimated_from_limit_and_rule() -> None:
    plan = quote(row("a", max_tokens=None), row("b", max_tokens=7, n=3), row("c", max_tokens=None, n=2))
    first = int(plan.placement.input_tokens[0])
    free = first // 2 + 100
    assert plan.estimate.output_tokens == free + 7 * 3 + free * 2
    # the model's own limit stands in where a row sets none
    assert plan.groups[0].charge.ceiling_output_tokens == 16_384 + 7 * 3 + 16_384 * 2


def test_names_as_written_share_a_group_by_their_pin() -> None:
    plan = quote(row("a", model="gpt-4o"), row("b", model="gpt-4o-2024-08-06"))
    assert plan.model_count == 1
    assert plan.groups[0].model_snapshot == "gpt-4o-2024-08-06"
    assert plan.groups[0].row_count == 2


def test_embeddings_have_no_framing_and_no_output() -> None:
    slug = EMBEDDER.slug
    plan = quote(
        row("a", url="/v1/embeddings", model=slug, input=[[1, 2, 3], [4]]),
        row("b", url="/v1/embeddings", model=slug, input=["river"]),
    )
    assert plan.placement.input_tokens[0] == 4
    assert plan.estimate.output_tokens == 0
    # 4 listed tokens and 5 bytes
    assert plan.groups[0].charge.ceiling_input_tokens == 9


def test_responses_rows_count_input_and_instructions() -> None:
    plan = quote(row("a", url="/v1/responses", input="river", instructions="Answer.", max_output_tokens=9))
    # 5 + 7 bytes, two messages of 4, 3 for the request
    assert plan.groups[0].charge.ceiling_input_tokens == 12 + 8 + 3
    assert plan.groups[0].charge.ceiling_output_tokens == 9


def test_escaped_text_counts_as_what_it_stands_for() -> None:
    item = row("a", messages=[{"role": "user", "content": "caf\u00e9 \u6771\u4eac \U0001f600"}])
    plain, escaped = json.dumps(item, ensure_ascii=False), json.dumps(item)
    assert escaped != plain
    bodies = [plain.encode(), escaped.encode()]
    plans = [make_quote_plan(body, HOUSE, WorkflowProfile(), QuoteSettings(), AT) for body in bodies]
    assert plans[0].estimate == plans[1].estimate


def test_a_data_uri_is_never_counted_as_text() -> None:
    png = "iVBORw0KGgoAAAANSUhEUgAABAAAAAQACAYAAAB" + "A" * 40_000
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{png[: len(png) // 4 * 4]}"}}
    plan = quote(row("a", model="gpt-4o", messages=[{"role": "user", "content": [image]}]))
    # 1,024 x 1,024 px -> 768 x 768 -> four tiles: 85 + 4 x 170, and 4 + 3 of framing
    assert plan.estimate.input_tokens == 765 + 7
    assert plan.groups[0].charge.ceiling_input_tokens == 765 + 7


def test_a_retired_model_is_refused_from_its_day_on_and_names_its_successor() -> None:
    retiring = replace(GPT_4O, retires_at=AT, successor_slug="gpt-4o-mini")
    old = catalog(retiring)
    body = jsonl(row("a", model="gpt-4o"))
    with pytest.raises(RowErrors, match="Use gpt-4o-mini") as refused:
        make_quote_plan(body, old, WorkflowProfile(), QuoteSettings(), AT)
    assert (refused.value.code, refused.value.errors[0].custom_id) == ("model_retired", "a")
    assert make_quote_plan(body, old, WorkflowProfile(), QuoteSettings(), AT - timedelta(seconds=1)).row_count == 1


def test_an_unknown_model_is_answered_by_near_matches() -> None:
    with pytest.raises(RowErrors, match=r"'gpt-4o-mimi' does not exist\. Did you mean gpt-4o-mini") as refused:
        quote(row("a"), row("b", model="gpt-4o-mimi"))
    assert [(error.row, error.line, error.custom_id) for error in refused.value.errors] == [(1, 2, "b")]


def test_a_model_is_refused_at_an_endpoint_it_is_not_offered_at() -> None:
    with pytest.raises(RowErrors) as refused:
        quote(row("a", url="/v1/embeddings", input="x"))
    assert refused.value.code == "unsupported_endpoint"


def test_an_alias_resolves_to_the_pin_of_its_model() -> None:
    alias = ModelName(name="latest", model_slug="gpt-4o", model_snapshot="gpt-4o-2024-08-06")
    named = replace(HOUSE, names={**HOUSE.names, "latest": alias})
    plan = make_quote_plan(jsonl(row("a", model="latest")), named, WorkflowProfile(), QuoteSettings(), AT)
    assert plan.groups[0].model_slug == "gpt-4o"


def test_steps_are_timed_by_the_injected_timer() -> None:
    ticks = itertools.count(step=5)
    plan = make_quote_plan(jsonl(row()), HOUSE, WorkflowProfile(), QuoteSettings(), AT, timer=lambda: next(ticks))
    assert set(plan.timings_ns) == {"parse", "resolve", "estimate", "score", "split", "price"}
    assert all(value % 5 == 0 and value > 0 for value in plan.timings_ns.values())


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["gpt-4o", "gpt-4o-mini", "claude-3-5-haiku"]),
            # Claude's lanes take no message without text.
            st.text(max_size=60).map("a{}".format),
            st.integers(0, 900),
        ),
        min_size=1,
        max_size=12,
    )
)
@settings(max_examples=150, deadline=None)
def test_figures_keep_their_order_and_rows_their_place(rows: list[tuple[str, str, int]]) -> None:
    items = [
        row(str(index), model=name, max_tokens=limit or None, messages=[{"role": "user", "content": text}])
        for index, (name, text, limit) in enumerate(rows)
    ]
    plan = quote(*items)
    figures = plan.estimate
    assert figures.low_micro_usd <= figures.total_micro_usd <= figures.ceiling_micro_usd
    assert figures.total_micro_usd <= figures.reservation_micro_usd <= figures.ceiling_micro_usd
    assert figures.high_micro_usd <= figures.ceiling_micro_usd
    assert sum(group.row_count for group in plan.groups) == plan.row_count == len(rows)
    assert sum(item.row_count for item in plan.lanes) == len(rows)
    assert figures.input_tokens == int(plan.placement.input_tokens.sum())
    body = jsonl(*items)
    assert [orjson.loads(plan.placement.line_of(body, index))["custom_id"] for index in range(len(rows))] == [
        str(index) for index in range(len(rows))
    ]


def test_a_placement_survives_packing() -> None:
    placement = quote(row("a"), row("b", model="gpt-4o")).placement
    packed = placement.pack()
    again = RowPlacement.unpack(packed)
    assert again.pack() == packed
    assert again.offsets.tolist() == placement.offsets.tolist()
    assert len(packed) == 16 + 2 * 24


@pytest.mark.parametrize("packed", [b"", b"LHRP", b"LHRQ" + bytes(12), b"LHRP\x02\x00\x05\x00" + bytes(8)])
def test_what_is_not_a_placement_is_refused(packed: bytes) -> None:
    with pytest.raises(ValueError, match="packed row placement"):
        RowPlacement.unpack(packed)


def test_a_placement_cut_short_or_with_a_tail_is_refused() -> None:
    packed = quote(row("a")).placement.pack()
    for broken in (packed[:-1], packed + b"\0"):
        with pytest.raises(ValueError, match=re.compile("length|buffer")):
            RowPlacement.unpack(broken)


def test_what_claude_cannot_carry_is_refused_with_its_row_and_line() -> None:
    good, bad = row("a", model="claude-3-5-haiku"), row("b", model="claude-3-5-haiku", logit_bias={"50256": -100})
    with pytest.raises(RowErrors) as refused:
        quote(good, good | {"custom_id": "c"}, bad)
    (error,) = refused.value.errors
    assert (error.code, error.param, error.row, error.line, error.custom_id) == (
        "unsupported_parameter",
        "body.logit_bias",
        2,
        3,
        "b",
    )


def test_what_claude_can_do_without_is_dropped_and_said() -> None:
    rows = [row(str(number), model="claude-3-5-haiku", store=True) for number in range(3)]
    (lane,) = quote(*rows, row("plain", model="claude-3-5-haiku")).lanes
    assert [(said.parameter, said.row_count) for said in lane.dropped] == [("body.store", 3)]


def test_what_openai_shaped_lanes_get_is_never_dropped() -> None:
    (lane,) = quote(row("a", store=True, logit_bias={"50256": -100})).lanes
    assert (lane.dropped, lane.mapped) == ((), ())
