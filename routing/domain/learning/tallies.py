"""The ratio of settled to estimated tokens, learned with shrinkage towards a parent's ratio.

A tally keeps what its rows settled at and what was estimated for them, both forgotten by half-lives of rows, and with
``n`` rows of memory the ratio is ``(n x settled / estimated + k x parent) / (n + k)``: recursive least squares with one
unknown and weights 1 / estimate. ``k`` = (sd of a row / sd of a job) squared.

References:
    The project's measured study of token estimators, "Recalibration from receipts": k, half-lives, bounds, the step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

ONE_PPM = 1_000_000
STEP_PPM = 25_000
# A customer's rows that count when a model's own ratio is made; more make it no surer.
HOUSE_ROWS_AT_MOST = 2_000.0
HOUSE_PRIOR_ROWS = 64.0
HOUSE_SHARES_AT_LEAST = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioRules:
    """How one kind of ratio learns: ``k`` and half-life in rows, the bounds, and the rows before which it is 1."""

    shrinkage_rows: float
    half_life_rows: float
    lowest_ppm: int = 800_000
    highest_ppm: int = 1_250_000
    prior_rows: float = 0.0


JOB_INPUT = RatioRules(shrinkage_rows=1.0, half_life_rows=2_000.0)
CUSTOMER_INPUT = RatioRules(shrinkage_rows=64.0, half_life_rows=20_000.0)
# What models write differs far more than how they count, between workflows and jobs; the row's limit bounds it.
WORKFLOW_OUTPUT = RatioRules(
    shrinkage_rows=4.0, half_life_rows=20_000.0, lowest_ppm=20_000, highest_ppm=8_000_000, prior_rows=50.0
)
JOB_OUTPUT = RatioRules(shrinkage_rows=4.0, half_life_rows=2_000.0, lowest_ppm=20_000, highest_ppm=8_000_000)


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """What was settled and estimated, and over how many rows; all three as they are remembered."""

    settled_tokens: float = 0.0
    estimated_tokens: float = 0.0
    row_count: float = 0.0


def ratio_ppm(tally: Tally, parent_ppm: int, rules: RatioRules) -> int:
    """Give the ratio that a tally stands for."""
    if tally.row_count < max(rules.prior_rows, 0.5) or tally.estimated_tokens <= 0:
        return parent_ppm
    rows, own = tally.row_count, tally.settled_tokens / tally.estimated_tokens
    ratio = (rows * own + rules.shrinkage_rows * parent_ppm / ONE_PPM) / (rows + rules.shrinkage_rows)
    return min(rules.highest_ppm, max(rules.lowest_ppm, round(ratio * ONE_PPM)))


def learn_rows(
    tally: Tally, settled: Sequence[int], estimated: Sequence[int], parent_ppm: int, rules: RatioRules
) -> Tally:
    """Give the tally after some rows, one after the other; no row moves the ratio by more than 2.5 %.

    What a row says beyond that is not dropped but cut: rows that agree still carry the ratio to where they are.

    Args:
        tally: Before them.
        settled: Tokens that each row settled at.
        estimated: What was estimated for it, before any ratio; over 0.
        parent_ppm: The parent's ratio, fixed for all of them.
        rules: Of this kind of ratio.
    """
    kept = 0.5 ** (1.0 / rules.half_life_rows)
    lowest, highest = rules.lowest_ppm / ONE_PPM, rules.highest_ppm / ONE_PPM
    step, pull = STEP_PPM / ONE_PPM, rules.shrinkage_rows
    parent = parent_ppm / ONE_PPM
    total, expected, count = tally.settled_tokens, tally.estimated_tokens, tally.row_count
    ratio = _bounded(total, expected, count, pull, parent, lowest, highest)
    for actual, estimate in zip(settled, estimated, strict=True):
        total, expected, count = total * kept, expected * kept + estimate, count * kept + 1.0
        weight = (count + pull) / count
        least = ((ratio * (1 - step)) * weight - pull * parent / count) * expected - total
        most = ((ratio * (1 + step)) * weight - pull * parent / count) * expected - total
        total += min(max(actual, least), most)
        ratio = _bounded(total, expected, count, pull, parent, lowest, highest)
    return Tally(settled_tokens=total, estimated_tokens=expected, row_count=count)


def _bounded(
    total: float, expected: float, count: float, pull: float, parent: float, lowest: float, highest: float
) -> float:
    if count <= 0 or expected <= 0:
        return parent
    return min(highest, max(lowest, (count * total / expected + pull * parent) / (count + pull)))


def house_ratio_ppm(customers: Iterable[tuple[int, float]]) -> int:
    """Give a model's own ratio from its customers' (ratio by their rows alone, rows).

    The mean by rows, of which a customer brings 2,000 at most, and never more than a quarter of the whole: what is
    missing is taken to stand at 1. So one customer, whatever it sends, moves it by a quarter of its own bound at most.
    """
    weighed = [(own_ppm, min(rows, HOUSE_ROWS_AT_MOST)) for own_ppm, rows in customers if rows > 0]
    together = sum(rows for _, rows in weighed)
    heaviest = max((rows for _, rows in weighed), default=0.0)
    prior = max(HOUSE_PRIOR_ROWS, HOUSE_SHARES_AT_LEAST * heaviest - together)
    mean = (sum(own_ppm * rows for own_ppm, rows in weighed) + ONE_PPM * prior) / (together + prior)
    return min(CUSTOMER_INPUT.highest_ppm, max(CUSTOMER_INPUT.lowest_ppm, round(mean)))
