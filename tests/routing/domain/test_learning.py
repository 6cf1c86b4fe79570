"""What settled rows teach: it comes to the truth, and nothing moves it too far."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.domain.records import Endpoint
from routing.domain.jsonl import fast
from routing.domain.jsonl.compiled import borrowed_machine
from routing.domain.jsonl.table import FileLimits
from routing.domain.learning.jobs import job_keys_of
from routing.domain.learning.records import Band, JobRatios, Learned, ModelRatios
from routing.domain.learning.spreads import (
    INPUT_SCALE,
    OUTPUT_SCALE,
    count_ratios,
    percentile_ppm,
    read_counts,
    with_rows,
)
from routing.domain.learning.tallies import (
    CUSTOMER_INPUT,
    JOB_INPUT,
    ONE_PPM,
    WORKFLOW_OUTPUT,
    RatioRules,
    Tally,
    house_ratio_ppm,
    learn_rows,
    ratio_ppm,
)
from routing.domain.long_files import LongFile, make_long_quote_plan
from routing.domain.offering import Pricing, QuoteSettings
from routing.domain.plan import QuotePlan
from routing.domain.quoting import (
    KnownFile,
    ReadTable,
    file_of,
    group_rows,
    lines_of,
    make_quote_plan,
    read_table,
)
from routing.domain.resolve import resolve_model
from routing.domain.scoring import WorkflowProfile
from tests.routing.domain.sample import AT, HOUSE, jsonl, row

RULES = [JOB_INPUT, CUSTOMER_INPUT, WORKFLOW_OUTPUT]


def test_a_ratio_is_its_rows_and_as_many_of_the_parents_as_it_shrinks_by() -> None:
    tally = Tally(settled_tokens=6_600, estimated_tokens=6_000, row_count=64)
    # 64 rows at 1.1, and 64 at the parent's 1.02
    assert ratio_ppm(tally, 1_020_000, CUSTOMER_INPUT) == 1_060_000
    # 64 at 1.1 and one at 1.02: 71.42 / 65
    assert ratio_ppm(tally, 1_020_000, JOB_INPUT) == 1_098_769
    assert ratio_ppm(Tally(), 1_020_000, JOB_INPUT) == 1_020_000


def test_the_first_row_of_a_job_moves_it_by_half_of_what_it_says() -> None:
    tally = learn_rows(Tally(), [1_020], [1_000], ONE_PPM, JOB_INPUT)
    assert ratio_ppm(tally, ONE_PPM, JOB_INPUT) == 1_010_000


@pytest.mark.parametrize(("true_ratio", "rules"), [(1.13, JOB_INPUT), (0.87, CUSTOMER_INPUT), (0.2, WORKFLOW_OUTPUT)])
def test_a_ratio_comes_to_the_truth_and_stays(true_ratio: float, rules: RatioRules) -> None:
    source = random.Random(4)
    estimated = [source.randrange(50, 900) for _ in range(3_000)]
    settled = [round(each * true_ratio * source.gauss(1, 0.025)) for each in estimated]
    tally = learn_rows(Tally(), settled, estimated, ONE_PPM, rules)
    assert abs(ratio_ppm(tally, ONE_PPM, rules) / ONE_PPM / true_ratio - 1) < 0.02
    assert tally.row_count < rules.half_life_rows / 0.69


@given(
    rows=st.lists(st.tuples(st.integers(0, 10**9), st.integers(1, 10**6)), max_size=30),
    parent_ppm=st.integers(800_000, 1_250_000),
    rules=st.sampled_from(RULES),
)
def test_no_row_moves_a_ratio_beyond_its_step_and_none_beyond_its_bounds(
    rows: list[tuple[int, int]], parent_ppm: int, rules: RatioRules
) -> None:
    tally, rules = Tally(), replace(rules, prior_rows=0.0)
    before = ratio_ppm(tally, parent_ppm, rules)
    for settled, estimated in rows:
        tally = learn_rows(tally, [settled], [estimated], parent_ppm, rules)
        after = ratio_ppm(tally, parent_ppm, rules)
        assert rules.lowest_ppm <= after <= rules.highest_ppm
        assert abs(after - before) <= before * 0.025 + 1
        before = after


def test_a_models_own_ratio_is_its_customers_mean_and_no_customer_has_more_than_a_quarter() -> None:
    assert house_ratio_ppm([]) == ONE_PPM
    # one alone: three quarters are taken to stand at 1
    assert house_ratio_ppm([(1_200_000, 5_000.0)]) == 1_050_000
    # 36 rows at 1.1 are a quarter of 36 + 108
    assert house_ratio_ppm([(1_100_000, 36.0)]) == 1_025_000
    honest = [(1_100_000, 2_000.0)] * 9
    poisoned = house_ratio_ppm([*honest, (1_250_000, 10.0**9)])
    assert poisoned - house_ratio_ppm([*honest, (1_100_000, 2_000.0)]) <= 150_000 / 10
    assert house_ratio_ppm([(1_250_000, 10.0**9)] * 3) <= 1_187_500


def test_percentiles_are_those_of_the_rows() -> None:
    quoted = np.full(100, 1_000)
    settled = np.arange(900, 1_100, 2)
    counts = read_counts(with_rows(b"", count_ratios(INPUT_SCALE, settled, quoted)), INPUT_SCALE.count)
    assert counts.sum() == 100
    assert percentile_ppm(INPUT_SCALE, counts, 50) == pytest.approx(909_000, rel=0.005)
    assert percentile_ppm(INPUT_SCALE, counts, 950) == pytest.approx(1_089_000, rel=0.005)
    assert percentile_ppm(OUTPUT_SCALE, count_ratios(OUTPUT_SCALE, settled * 0 + 1, quoted), 50) < 20_000


SYSTEM = {"role": "system", "content": "Answer \u201cyes\u201d or no."}
TOOLS = [{"type": "function", "function": {"name": "find"}}]


def keys_of(*bodies: dict[str, Any], salt: bytes = b"acme", escaped: bool = False) -> list[int]:
    rows = [row(f"r{number}", **body) for number, body in enumerate(bodies)]
    file = jsonl(*rows)
    if escaped:
        file = file.decode().encode("ascii", "backslashreplace").replace(b"\\\\u", b"\\u")
    table = fast.read_rows(file, FileLimits())
    lines = list(lines_of(file, table, np.arange(len(table))))
    keys = job_keys_of(lines, salt)
    # What is known to be plain is read by its opening, all else by a decode.
    assert any(roles for _, roles in lines)
    assert job_keys_of([(line, None) for line, _ in lines], salt) == keys
    return keys


def test_rows_of_one_template_are_one_job() -> None:
    def asked(text: str, system: Any = SYSTEM, **more: Any) -> dict[str, Any]:
        return {"messages": [system, {"role": "user", "content": text}], **more}

    plain, same, limited, tools, schema, other = keys_of(
        asked("Is it green?"),
        asked("Is it blue?"),
        asked("Is it red?", max_tokens=5, top_p=0.5),
        asked("Is it red?", tools=TOOLS),
        asked("Is it red?", response_format={"type": "json_object"}),
        asked("Is it red?", system={"role": "system", "content": "Answer at length."}),
    )
    assert plain == same == limited
    assert len({plain, tools, schema, other, 0}) == 5
    assert keys_of(asked("Is it green?"), escaped=True) == [plain]
    assert keys_of(asked("Is it green?"), salt=b"another customer") != [plain]
    assert keys_of({"messages": [{"role": "user", "content": "No template."}]}) == [0]


def learned_of(file: bytes) -> Learned:
    """What teaches the first row's job a ratio of its own, and all others of its model another one."""
    job = job_keys_of([(file.splitlines()[0], None)], b"salt")[0]
    known = ModelRatios(
        input_ppm=1_100_000,
        output_ppm=500_000,
        input_band=Band(low_ppm=970_000, high_ppm=1_040_000),
        output_band=Band(low_ppm=400_000, high_ppm=1_500_000),
        jobs={job: JobRatios(input_ppm=1_200_000, output_ppm=250_000)},
    )
    return Learned(version=9, salt=b"salt", models={"gpt-4o-mini": known})


def quoted(file: bytes, learned: Learned) -> QuotePlan:
    return make_quote_plan(file, HOUSE, WorkflowProfile(), QuoteSettings(), AT, learned=learned)


def test_a_quote_uses_what_was_learned_and_pins_its_version() -> None:
    texts = ["In which country does the Danube rise, and where does it end?" * 4, "Name one river. " * 20]
    file = jsonl(
        row("a", messages=[SYSTEM, {"role": "user", "content": texts[0]}], max_tokens=400),
        row("b", messages=[{"role": "user", "content": texts[1]}], max_tokens=400),
        row("c", model="gpt-4o"),
    )
    plain, taught = quoted(file, Learned()), quoted(file, learned_of(file))
    assert (plain.learned_version, taught.learned_version) == (0, 9)
    first, second = plain.placement.input_tokens[:2].tolist()
    expected = [(first * 6 + 2) // 5, (second * 11 + 5) // 10]
    assert taught.placement.input_tokens[:2].tolist() == expected
    assert taught.groups[1].charge == plain.groups[1].charge
    charge, by_formula = taught.groups[0].charge, plain.groups[0].charge
    # half of the input and 100, as the prior, then a quarter and a half of it
    outputs = [(expected[0] // 2 + 100 + 2) // 4, (expected[1] // 2 + 100 + 1) // 2]
    assert charge.output_tokens == sum(outputs)
    assert (charge.ceiling_input_tokens, charge.ceiling_output_tokens) == (
        by_formula.ceiling_input_tokens,
        by_formula.ceiling_output_tokens,
    )
    assert charge.low_input_tokens == charge.input_tokens * 97 // 100
    assert charge.high_input_tokens == -(-charge.input_tokens * 104 // 100)
    assert charge.low_output_tokens == charge.output_tokens * 4 // 10
    assert charge.high_output_tokens == sum(-(-each * 3 // 2) for each in outputs)


def test_the_compiled_pass_and_the_plain_one_find_the_same_jobs() -> None:
    def turns(*roles: str, system: str = "Answer \u201cyes\u201d or no.") -> list[dict[str, str]]:
        return [{"role": role, "content": system if role == "system" else f"Is {role} green?"} for role in roles]

    shapes: list[dict[str, Any]] = [
        *({"messages": turns("system", "user")} for _ in range(5)),
        {"messages": turns("system", "user", system="Answer at length.")},
        {"messages": turns("user", "system")},
        {"messages": turns("system", "user", "assistant", "system")},
        {"messages": turns("system", "user"), "tools": TOOLS},
        {"messages": turns("developer", "user"), "response_format": {"type": "json_object"}},
        {"messages": turns("user")},
        {"messages": [{"role": "system", "content": [{"type": "text", "text": "In parts."}]}, *turns("user")]},
    ]
    rows = [row(f"r{number}", **body) for number, body in enumerate(shapes)]
    spaced = b"".join(
        json.dumps(each, ensure_ascii=number % 2 == 0).encode() + b"\n" for number, each in enumerate(rows)
    )
    keys = [job_keys_of([(line, None)], b"salt")[0] for line in spaced.splitlines()]
    # One system text is one job wherever it stands; the row without any has none.
    assert len(set(keys)) == 7
    jobs = {
        key: JobRatios(input_ppm=800_000 + 50_000 * n, output_ppm=None) for n, key in enumerate(dict.fromkeys(keys))
    }
    learned = Learned(version=1, salt=b"salt", models={"gpt-4o-mini": ModelRatios(jobs=jobs)})
    resolved = {"gpt-4o-mini": resolve_model(HOUSE, "gpt-4o-mini", Endpoint.CHAT_COMPLETIONS, AT)}
    found = []
    with borrowed_machine() as machine:
        for table in (read_table(spaced, FileLimits(), machine), fast.read_rows(spaced, FileLimits())):
            groups = group_rows(table, resolved)
            file = file_of(spaced, table, groups, learned)
            found.append((type(file), file.tokens_of(groups.models[0], 0, groups.rows_of(0)).input_tokens.tolist()))
    assert [kind for kind, _ in found] == [KnownFile, ReadTable]
    assert found[0][1] == found[1][1]


def test_a_long_file_uses_it_to_the_last_digit_too() -> None:
    bodies: list[dict[str, Any]] = [
        {"messages": [SYSTEM, {"role": "user", "content": f"Is {n} green?"}]} for n in range(40)
    ]
    bodies += [{"tools": TOOLS}, {"messages": [{"role": "user", "content": "No template."}]}]
    file = jsonl(*(row(f"r{n}", **body) for n, body in enumerate(bodies)))
    learned = learned_of(file)
    pricing = Pricing(catalog=HOUSE, workflow=WorkflowProfile(), settings=QuoteSettings(), at=AT, learned=learned)
    blocks = [file[start : start + 700] for start in range(0, len(file), 700)]
    long = make_long_quote_plan(
        LongFile(blocks=lambda: blocks, read=lambda offset, size: file[offset : offset + size]), pricing
    )
    plan = quoted(file, learned)
    assert long.groups == plan.groups
    assert long.placement.pack() == plan.placement.pack()
