"""What a settled batch counts as usage."""

from __future__ import annotations

from collections.abc import Iterable

from billing.domain.rating import RatedBatch
from billing.domain.records import ChargedGroup, LineKind

_COLUMN_OF_KIND = {
    LineKind.INPUT: "input_tokens",
    LineKind.CACHED_INPUT: "cached_input_tokens",
    LineKind.CACHE_WRITE_5M: "cache_write_tokens",
    LineKind.CACHE_WRITE_1H: "cache_write_tokens",
    LineKind.OUTPUT: "output_tokens",
}
_COUNTS = (
    "request_count",
    "input_tokens",
    "cached_input_tokens",
    "cache_write_tokens",
    "output_tokens",
    "usage_charge_micro_usd",
    "fee_micro_usd",
)


def usage_of(rated: RatedBatch, groups: Iterable[ChargedGroup]) -> list[dict[str, str | int]]:
    """Give one fact for each model and lane of a receipt, in their order; the receipt's total is the sum of all.

    Requests are counted on the primary lane of their model group, as their charge is. Charges are net of the ceiling
    credit. ``billing_fold_usage`` counts the same from a receipt that is there.
    """
    facts: dict[tuple[str, str], dict[str, int]] = {}

    def count(model_slug: str, lane_id: str, column: str, more: int) -> None:
        fact = facts.setdefault((model_slug, lane_id), dict.fromkeys(_COUNTS, 0))
        fact[column] += more

    for line in rated.lines:
        if line.kind is LineKind.CONTROL_PLANE_FEE:
            count(line.model_slug, line.lane_id, "fee_micro_usd", line.amount_micro_usd)
            continue
        count(line.model_slug, line.lane_id, "usage_charge_micro_usd", line.amount_micro_usd)
        if line.tokens is not None:
            count(line.model_slug, line.lane_id, _COLUMN_OF_KIND[line.kind], line.tokens)
    for group in groups:
        if group.row_count:
            count(group.model_slug, group.lane_id, "request_count", group.row_count)
    return [
        {"model_slug": model_slug, "lane_id": lane_id, **fact} for (model_slug, lane_id), fact in sorted(facts.items())
    ]
