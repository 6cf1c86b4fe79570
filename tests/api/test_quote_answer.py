"""The quote's answer, field by field, with every figure worked out by hand.

Three rows say "Hello": two to gpt-4o-mini with 20 output tokens allowed, one to gpt-4o without a limit. OpenAI counts 8
input tokens for each: 1 of text and 7 of framing.
"""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from catalog.domain.records import TokenKind
from catalog.models import Card, Lane, RateLine, RateOrigin, RateVersion
from ground import clock as now_source
from routing.schemas import QuoteOut
from tests.api.world import Api, lines_of, row
from tests.harness.clock import Clock

STEPS = ["admit", "read", "parse", "resolve", "estimate", "score", "split", "price", "store", "persist", "total"]


def hello() -> bytes:
    unlimited = row("c", "Hello", model="gpt-4o")
    del unlimited["body"]["max_tokens"]
    return lines_of(row("a", "Hello"), row("b", "Hello"), unlimited)


@pytest.fixture
def response(api: Api, clock: Clock) -> Any:
    clock.freeze(now_source.now())
    response = api.post("/v1/quotes/model", hello(), "application/jsonl")
    assert response.status_code == 201, response.content
    return response


@pytest.fixture
def dearer(response: Any, clock: Clock) -> None:
    """After the quote, gpt-4o-mini sells at ten times its rates."""
    at = clock.advance(minutes=1)
    lane = Lane.objects.get(model__slug="gpt-4o-mini", lane_id="openai-direct")
    with transaction.atomic():
        version = RateVersion.objects.create(
            lane=lane, card=Card.SELL, origin=RateOrigin.OPERATOR, valid_from=at, made_at=at
        )
        for kind in TokenKind:
            rate = 3_000_000 if kind is TokenKind.OUTPUT else 750_000
            RateLine.objects.create(
                version=version, kind=kind, published_rate_micro_usd_per_mtok=rate, rate_micro_usd_per_mtok=rate
            )


@pytest.fixture
def quote(response: Any) -> dict[str, Any]:
    answer: dict[str, Any] = response.json()
    return answer


def test_it_has_every_published_field_and_no_other(quote: dict[str, Any]) -> None:
    shape = QuoteOut.model_validate(quote, strict=True)
    assert set(quote) == set(QuoteOut.model_fields)
    assert shape.model_dump() == quote


def test_the_head_names_the_quote_its_times_and_its_size(quote: dict[str, Any], clock: Clock) -> None:
    start_seconds = int(clock.now().timestamp())
    assert quote["id"].startswith("qt_")
    assert (quote["object"], quote["status"], quote["batch_id"]) == ("quote", "ready", None)
    assert (quote["created_at"], quote["expires_at"]) == (start_seconds, start_seconds + 1_800)
    assert (quote["workflow"], quote["row_count"], quote["model_count"]) == ("default", 3, 2)
    assert quote["catalog_version"] > 0
    assert type(quote["sla_snapshot_at"]) is int
    assert (quote["available_micro_usd"], quote["sufficient_credit"]) == (100_000_000, True)


def test_the_estimate_adds_up_by_hand(quote: dict[str, Any]) -> None:
    # Per kind, in micro-USD: tokens x rate / 1,000,000, rounded half to even; a fee of 20,000 for each lane.
    # mini: 18 in at 0.075 = 1.35, 40 out at 0.3 = 12. gpt-4o: 9 in at 1.25 = 11.25, 9 / 2 + 100 out at 5 = 520.
    assert quote["estimate"] == {
        "input_tokens": 27,
        "output_tokens": 144,
        "usage_charge_micro_usd": 1 + 12 + 11 + 520,
        "fee_micro_usd": 40_000,
        "total_micro_usd": 40_544,
        # Input less 5 %, half the output: 17 -> 1.275, 20 -> 6; 8 -> 10, 52 -> 260.
        "low_micro_usd": 1 + 6 + 10 + 260 + 40_000,
        # Input and 5 %, output at its limit or doubled: 19 -> 1.425, 40 -> 12; 10 -> 12.5, 208 -> 1,040.
        "high_micro_usd": 1 + 12 + 12 + 1_040 + 40_000,
        # A token a byte, the model's own 16,384 tokens of output, rounded up: 24 -> 1.8, 40 -> 12; 12 -> 15, 81,920.
        "ceiling_micro_usd": 2 + 12 + 15 + 81_920 + 40_000,
        # Each the dearest of high and 110 %, within the ceiling: 14.685 -> 15 but at most 14; 1,052.5 -> 1,053.
        "reservation_micro_usd": 14 + 1_053 + 40_000,
        # At OpenAI's synchronous rates, twice as high, without a fee: 2.7 + 24 + 22.5 + 1,040.
        "sync_charge_micro_usd": 3 + 24 + 22 + 1_040,
    }


def test_each_lane_says_what_runs_where_at_which_rate(quote: dict[str, Any]) -> None:
    mini, full = quote["lanes"]
    # Nobody has measured these lanes: the stated prior is 30 minutes and 1 %.
    unmeasured = {
        "p95_dispatch_ms": 1_000,
        "p50_completion_minutes": 30,
        "p95_completion_minutes": 30,
        "recent_error_rate_24h": 0.01,
        "sample_count": 0,
    }
    assert mini == unmeasured | {
        "lane_id": "openai-direct",
        "model": "gpt-4o-mini",
        "provider": "openai",
        "region": "global",
        "model_id": "gpt-4o-mini-2024-07-18",
        "model_snapshot": "gpt-4o-mini-2024-07-18",
        "row_count": 2,
        "input_tokens": 18,
        "output_tokens": 40,
        "input_rate_micro_usd_per_mtok": 75_000,
        "output_rate_micro_usd_per_mtok": 300_000,
        "list_input_rate_micro_usd_per_mtok": 150_000,
        "list_output_rate_micro_usd_per_mtok": 600_000,
        "usage_charge_micro_usd": 13,
        "fee_micro_usd": 20_000,
        "score_micro_usd": 20_013 + 30 * 500 + 5_000,
    }
    assert (full["model"], full["row_count"], full["input_tokens"], full["output_tokens"]) == ("gpt-4o", 1, 9, 104)
    assert (full["input_rate_micro_usd_per_mtok"], full["output_rate_micro_usd_per_mtok"]) == (1_250_000, 5_000_000)
    assert (full["usage_charge_micro_usd"], full["score_micro_usd"]) == (531, 40_531)


def test_the_lanes_add_up_to_the_estimate(quote: dict[str, Any]) -> None:
    for field in ("input_tokens", "output_tokens", "usage_charge_micro_usd", "fee_micro_usd"):
        assert sum(lane[field] for lane in quote["lanes"]) == quote["estimate"][field]
    assert sum(lane["row_count"] for lane in quote["lanes"]) == quote["row_count"]


def test_the_explanation_can_be_worked_out_by_hand(quote: dict[str, Any]) -> None:
    mini, _ = quote["explanation"]
    text = mini.pop("text")
    assert mini == {
        "model": "gpt-4o-mini",
        "row_count": 2,
        "input_tokens": 18,
        "output_tokens": 40,
        "low_input_tokens": 17,
        "low_output_tokens": 20,
        "high_input_tokens": 19,
        "high_output_tokens": 40,
        "ceiling_input_tokens": 24,
        "ceiling_output_tokens": 40,
        "chosen_lane_ids": ["openai-direct"],
        "runner_up_lane_id": None,
        "margin_micro_usd": None,
        "candidates": [
            {
                "lane_id": "openai-direct",
                "eligible": True,
                "reason": None,
                "reason_text": None,
                "constraint": None,
                "input_rate_micro_usd_per_mtok": 75_000,
                "output_rate_micro_usd_per_mtok": 300_000,
                "p95_completion_minutes": 30,
                "error_ppm": 10_000,
                "sample_count": 0,
                "charge_micro_usd": 20_013,
                "latency_penalty_micro_usd": 15_000,
                "error_penalty_micro_usd": 5_000,
                "score_micro_usd": 40_013,
            }
        ],
    }
    assert text == (
        "openai-direct is the only lane of gpt-4o-mini. Its score: $0.040013 = $0.020013 charge with its fee"
        " + $0.015000 for 30 min (p95) + $0.005000 for 1 % errors, a stated prior because it has not been measured."
    )
    assert quote["scoring"] == {
        "penalty_micro_usd_per_minute": 500,
        "penalty_micro_usd_per_percent": 5_000,
        "fan_out": True,
        "fee_micro_usd": 20_000,
        "margin_basis_points": 1_000,
    }


def test_every_step_is_timed_in_the_body_and_in_the_header(response: Any, quote: dict[str, Any]) -> None:
    timings_ms = quote["timings_ms"]
    assert list(timings_ms) == STEPS
    assert sum(timings_ms.values()) - timings_ms["total"] <= timings_ms["total"]
    header = dict(part.split(";dur=") for part in response["Server-Timing"].split(", "))
    assert {step: float(spent_ms) for step, spent_ms in header.items()} == timings_ms


def test_the_location_is_where_the_quote_stands(api: Api, response: Any, quote: dict[str, Any]) -> None:
    assert response["Location"] == f"/v1/quotes/{quote['id']}"
    assert api.get(response["Location"]).json() == quote | {"timings_ms": {}}


def test_an_accepted_quote_names_its_batch_and_what_is_left_of_the_credit(api: Api, quote: dict[str, Any]) -> None:
    batch_id = api.accept(quote["id"]).json()["id"]
    later = api.get(f"/v1/quotes/{quote['id']}").json()
    assert (later["status"], later["batch_id"]) == ("accepted", batch_id)
    assert later["available_micro_usd"] == 100_000_000 - 41_067


def test_an_accepted_quote_stays_accepted_after_its_time(api: Api, quote: dict[str, Any], clock: Clock) -> None:
    api.accept(quote["id"])
    clock.advance(hours=1)
    assert api.get(f"/v1/quotes/{quote['id']}").json()["status"] == "accepted"


@pytest.mark.parametrize(("seconds", "status"), [(1_799, "ready"), (1_800, "expired")])
def test_a_quote_expires_after_thirty_minutes(
    api: Api, quote: dict[str, Any], clock: Clock, seconds: int, status: str
) -> None:
    clock.advance(seconds=seconds)
    assert api.get(f"/v1/quotes/{quote['id']}").json()["status"] == status


def test_later_rates_do_not_touch_a_quote(api: Api, quote: dict[str, Any], dearer: None) -> None:
    assert api.get(f"/v1/quotes/{quote['id']}").json() == quote | {"timings_ms": {}}
    again = api.post("/v1/quotes/model", hello(), "application/jsonl").json()
    assert again["lanes"][0]["input_rate_micro_usd_per_mtok"] == 750_000
    assert again["catalog_version"] > quote["catalog_version"]


def test_a_batch_is_charged_what_its_quote_said_after_rates_changed(
    api: Api, quote: dict[str, Any], dearer: None
) -> None:
    assert api.accept(quote["id"]).status_code == 200
    assert api.get("/v1/wallet").json()["reserved_micro_usd"] == 41_067


def test_the_same_file_again_is_another_quote_at_the_same_price(api: Api, quote: dict[str, Any]) -> None:
    again = api.post("/v1/quotes/model", hello(), "application/jsonl").json()
    assert again["id"] != quote["id"]
    assert (again["estimate"], again["lanes"]) == (quote["estimate"], quote["lanes"])
