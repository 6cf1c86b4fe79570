"""Many callers at once: one quote is one batch, and no money is promised twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Any

from django.db import connection
from django.test import override_settings

from billing.models import Hold
from billing.selectors import prove_ledger
from routing.models import Batch, Quote
from tests.api.world import Api, lines_of, row
from tests.harness.world import make_tenant

CASES = Path(__file__).resolve().parents[1] / "cases" / "api"


def at_once(calls: list[Callable[[], Any]]) -> list[Any]:
    """Make every call from a thread of its own, all let go at the same moment."""
    barrier = Barrier(len(calls))

    def one(call: Callable[[], Any]) -> Any:
        barrier.wait()
        try:
            return call()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(one, calls))


def test_eight_accepts_of_one_quote_are_one_batch(api: Api) -> None:
    quote_id = api.quote(row("a"), row("b", model="gpt-4o"))["id"]
    answers = at_once([partial(Api(api.tenant).accept, quote_id) for _ in range(8)])
    assert [answer.status_code for answer in answers] == [200] * 8
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert sum("idempotent-replayed" in answer for answer in answers) == 7
    assert Batch.objects.count() == 1
    # One hold for each of the two models.
    assert Hold.objects.count() == 2


def test_eight_different_bodies_for_one_quote_are_one_batch(api: Api) -> None:
    quote_id = api.quote(row("a"))["id"]
    answers = at_once([partial(Api(api.tenant).accept, quote_id, metadata={"n": str(n)}) for n in range(8)])
    assert sorted(answer.status_code for answer in answers) == [200] + [400] * 7
    assert {answer.json()["error"]["code"] for answer in answers if answer.status_code == 400} == {"quote_already_used"}
    assert (Batch.objects.count(), Hold.objects.count()) == (1, 1)


@override_settings(CONTROL_PLANE_FEE_MICRO_USD=0)
def test_two_accepts_of_600_on_a_balance_of_1000_are_one_batch(db: None) -> None:
    case = json.loads((CASES / "144-parallel-accepts.json").read_text("utf-8"))
    api = Api(make_tenant(credit_micro_usd=case["balance_micro_usd"]))
    # 8 input tokens and 5 % at 0.075, up to 1,997 output tokens at 0.3: 0.675 + 599.1 micro-USD, rounded up.
    quotes = [api.quote(row("a", "Hello", max_tokens=1_997)) for _ in range(2)]
    assert [quote["estimate"]["reservation_micro_usd"] for quote in quotes] == case["quote_amounts"] == [600, 600]
    answers = at_once([partial(Api(api.tenant).accept, quote["id"]) for quote in quotes])
    assert sorted(answer.status_code for answer in answers) == [200, 402]
    (refusal,) = (answer.json()["error"] for answer in answers if answer.status_code == 402)
    assert refusal["code"] == "insufficient_credit"
    assert refusal["estimate"] == quotes[0]["estimate"]
    wallet = api.get("/v1/wallet").json()
    assert (wallet["reserved_micro_usd"], wallet["available_micro_usd"]) == (600, 400)
    assert prove_ledger().holds


def test_quotes_in_parallel_are_all_made(api: Api) -> None:
    body = lines_of(*(row(f"r{number}") for number in range(200)))
    bad = lines_of(row("a"), row("a"))

    answers = at_once(
        [partial(Api(api.tenant).post, "/v1/quotes/model", each, "application/jsonl") for each in [body, bad] * 4]
    )
    assert [answer.status_code for answer in answers] == [201, 400] * 4
    assert len({answer.json()["id"] for answer in answers if answer.status_code == 201}) == 4
    assert Quote.objects.count() == 4
