"""Cases from real life that concern money (``tests/cases/billing``): settled with no fee, at the prices given."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from billing.domain.rating import charged_tokens
from billing.domain.records import ChargedTokens, TokenCounts
from billing.services.settlement import settle_batch
from catalog.domain.records import Rates
from tests.billing.kit import assert_books_hold, group, hold, make_organisation, settlement

FOLDER = Path(__file__).resolve().parents[1] / "cases" / "billing"
CASES = [json.loads(line) for line in (FOLDER / "expect.jsonl").read_text().splitlines()]


def rates(price: dict[str, int]) -> Rates:
    return Rates(
        input_rate_micro_usd_per_mtok=price["in"],
        cached_input_rate_micro_usd_per_mtok=price.get("cached_in", price["in"]),
        cache_write_5m_rate_micro_usd_per_mtok=price.get("cache_write", price["in"]),
        cache_write_1h_rate_micro_usd_per_mtok=price.get("cache_write", price["in"]),
        output_rate_micro_usd_per_mtok=price["out"],
    )


def tokens(usage: dict[str, Any]) -> TokenCounts:
    """Read OpenAI's usage: cached tokens stand inside the prompt, reasoning inside the completion."""
    cached = usage.get("prompt_tokens_details", {}).get("cached_tokens", 0)
    return TokenCounts(
        input_tokens=usage["prompt_tokens"] - cached,
        cached_input_tokens=cached,
        output_tokens=usage["completion_tokens"],
    )


def charged(case: dict[str, Any]) -> dict[str, list[ChargedTokens]]:
    """Give each model's charged tokens, row by row, at the price that stood in the quote."""
    if "repeat" in case:
        repeat = case["repeat"]
        each = charged_tokens(tokens(repeat["usage"]), rates(case["prices"][repeat["model"]]))
        return {repeat["model"]: [*each] * repeat["rows"]}
    found: dict[str, list[ChargedTokens]] = {}
    for row in case["rows"]:
        if row["response"]["status_code"] == 200:
            body = row["response"]["body"]
            found.setdefault(body["model"], []).extend(
                charged_tokens(tokens(body["usage"]), rates(case["prices"][body["model"]]))
            )
    return found


@pytest.mark.parametrize("expected", CASES, ids=[case["id"] for case in CASES])
def test_a_case_settles_at_its_exact_amount(db: None, expected: dict[str, Any]) -> None:
    case = json.loads((FOLDER / expected["input"]).read_text())
    organisation = make_organisation(money=10_000)
    reserved_micro_usd = case.get("reserved_micro_usd", 1_000)
    hold(organisation, "batch_1", a=reserved_micro_usd)

    receipt = settle_batch(
        settlement(
            organisation,
            "batch_1",
            *(
                group(model, *((each.kind, each.rate_micro_usd_per_mtok, each.tokens) for each in found))
                for model, found in charged(case).items()
            ),
        )
    )

    exact_micro_usd = Decimal(expected["exact_micro_usd"])
    assert sum(line.exact_pico_usd for line in receipt.lines.all()) == exact_micro_usd * 1_000_000
    assert abs(receipt.total_micro_usd - exact_micro_usd) <= Decimal("0.5")
    assert receipt.released_micro_usd == expected.get(
        "released_micro_usd", max(reserved_micro_usd - receipt.total_micro_usd, 0)
    )
    assert_books_hold()


def test_the_parts_of_a_cached_prompt_are_priced_apart(db: None) -> None:
    expected = next(case for case in CASES if "parts" in case)
    case = json.loads((FOLDER / expected["input"]).read_text())
    amounts = [each.tokens * each.rate_micro_usd_per_mtok // 1_000_000 for each in charged(case)["gpt-4o-mini"]]
    assert amounts == [expected["parts"][part] for part in ("in", "cached_in", "out")]
