"""Accepting a quote whose lanes or models have changed since: kept where it can be, else refused with a new quote."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from billing.models import Hold
from catalog.domain.records import Rotation
from catalog.models import Lane, Model
from ground import clock
from routing.models import Batch
from routing.payloads import open_payload
from routing.services.file_batches import validate_next_batch
from routing.services.file_quotes import price_next_file
from simulators.running import RunningSimulator
from tests.api.uploads import uploaded
from tests.api.world import Api, error_of, row
from tests.harness.world import keep_models_in_service
from tests.routing.engine.lanes import FIRST, SECOND, add_lane, rotate

MINI, OTHER, SUCCESSOR = "gpt-4o-mini", "gpt-4o", "gpt-4.1-mini"


@pytest.fixture(autouse=True)
def models_stay(db: None) -> None:
    keep_models_in_service()


def retire(slug: str, *, successor: str | None) -> None:
    named = Model.objects.get(slug=successor) if successor else None
    Model.objects.filter(slug=slug).update(retires_at=clock.now() - timedelta(seconds=1), successor=named)


def refusal(response: Any, code: str) -> dict[str, Any]:
    """Give the error after checking that nothing was held."""
    error = error_of(response, 400, code, "quote_id")
    assert not Hold.objects.exists()
    assert not Batch.objects.exists()
    return error


def models_of(quote_id: str, count: int) -> list[str]:
    with open_payload(quote_id) as payload:
        return [bytes(body["model"]).decode().strip('"') for body in payload.bodies(np.arange(count))]


def test_a_retired_model_is_refused_with_its_successor_quoted(api: Api, simulator: RunningSimulator) -> None:
    rows = [row("a"), row("b", model=OTHER), row("c", temperature=0.10)]
    quote = api.quote(*rows)
    retire(MINI, successor=SUCCESSOR)
    error = refusal(api.accept(quote["id"]), "model.deprecated_post_quote")
    offer = error["quote"]
    assert error["alternative"] == SUCCESSOR
    assert (offer["object"], offer["status"], offer["row_count"]) == ("quote", "ready", 3)
    assert {(lane["model"], lane["row_count"]) for lane in offer["lanes"]} == {(SUCCESSOR, 2), (OTHER, 1)}
    assert offer["id"] in error["message"]
    assert api.get(f"/v1/quotes/{offer['id']}").json()["estimate"] == offer["estimate"]
    assert models_of(offer["id"], 3) == [SUCCESSOR, OTHER, SUCCESSOR]
    with open_payload(offer["id"]) as payload:
        assert list(payload.custom_ids_json(np.arange(3))) == [b'"a"', b'"b"', b'"c"']
        temperatures = [bytes(body.get("temperature", b"")) for body in payload.bodies(np.arange(3))]
        assert temperatures == [b"", b"", b"0.1"]
    assert api.accept(offer["id"]).status_code == 200


def test_a_batch_of_a_file_that_was_priced_before_fails_with_a_new_quote(api: Api) -> None:
    file = uploaded(api)
    assert price_next_file()
    retire(MINI, successor=SUCCESSOR)
    wanted = {"input_file_id": file["id"], "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    batch_id = api.post("/v1/batches", wanted).json()["id"]
    assert validate_next_batch()
    batch = api.batch(batch_id)
    (error,) = batch["errors"]["data"]
    assert (batch["status"], error["code"]) == ("failed", "model.deprecated_post_quote")
    assert not Hold.objects.exists()
    (offer_id,) = re.findall(r"qt_\w+", error["message"])
    assert api.accept(offer_id).status_code == 200


def test_rows_are_sent_on_as_they_were_written_but_for_the_model(api: Api) -> None:
    text = (
        b'{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"max_tokens":5,"temperature":0.10,'
        b'"messages":[{"role":"user","content":"\\u00e9 Zanzibar"}],"model":"gpt-4o-mini"}}\n\n'
    )
    quote = api.post("/v1/quotes/model", text, "application/jsonl").json()
    retire(MINI, successor=SUCCESSOR)
    offer = refusal(api.accept(quote["id"]), "model.deprecated_post_quote")["quote"]
    with open_payload(offer["id"]) as payload:
        (members,) = payload.bodies(np.arange(1))
        body = {name: bytes(value) for name, value in members.items()}
    assert body == {
        "max_tokens": b"5",
        "temperature": b"0.10",
        "messages": b'[{"role":"user","content":"\\u00e9 Zanzibar"}]',
        "model": b'"gpt-4.1-mini"',
    }


def test_a_retired_model_without_a_successor_has_no_new_quote(api: Api) -> None:
    quote = api.quote(row("a"))
    retire(MINI, successor=None)
    error = refusal(api.accept(quote["id"]), "model.deprecated_post_quote")
    assert (error["alternative"], error["quote"]) == (None, None)


def test_a_successor_that_cannot_be_quoted_is_named_without_a_quote(api: Api) -> None:
    quote = api.quote(row("a"))
    retire(MINI, successor=SUCCESSOR)
    Lane.objects.filter(model__slug=SUCCESSOR).update(rotation=Rotation.OUT.value, rotation_reason="maintenance")
    error = refusal(api.accept(quote["id"]), "model.deprecated_post_quote")
    assert (error["alternative"], error["quote"]) == (SUCCESSOR, None)


def test_the_only_lane_retired_is_the_pin_retired(api: Api) -> None:
    quote = api.quote(row("a"))
    Model.objects.filter(slug=MINI).update(successor=Model.objects.get(slug=SUCCESSOR))
    Lane.objects.filter(model__slug=MINI).update(retires_at=clock.now() - timedelta(seconds=1))
    error = refusal(api.accept(quote["id"]), "model.deprecated_post_quote")
    assert error["quote"]["lanes"][0]["model"] == SUCCESSOR


def test_the_whole_accept_is_refused_for_one_group(api: Api) -> None:
    quote = api.quote(row("a"), row("b", model=OTHER))
    retire(OTHER, successor=None)
    refusal(api.accept(quote["id"]), "model.deprecated_post_quote")


def test_a_lane_out_of_rotation_gives_its_rows_to_the_next_at_the_quoted_price(
    api: Api, simulator: RunningSimulator, run: Any
) -> None:
    add_lane()
    quote = api.quote(row("a"), row("b"))
    rotate(FIRST, Rotation.OUT)
    accepted = api.accept(quote["id"])
    assert accepted.status_code == 200
    run()
    batch = api.batch(accepted.json()["id"])
    lanes = [(lane["lane_id"], lane["row_count"], lane["re_dispatched_count"]) for lane in batch["lanes"]]
    assert lanes == [(FIRST, 0, 0), (SECOND, 2, 2)]
    receipt = api.get(f"/v1/batches/{batch['id']}/receipt").json()
    quoted = quote["lanes"][0]
    assert {line["rate_micro_usd_per_mtok"] for line in receipt["lines"] if line["kind"] == "input"} == {
        quoted["input_rate_micro_usd_per_mtok"]
    }
    assert (receipt["fee_micro_usd"], {line["lane_id"] for line in receipt["lines"]}) == (20_000, {FIRST})


def test_a_lane_out_of_rotation_without_another_is_refused(api: Api) -> None:
    quote = api.quote(row("a"))
    rotate(FIRST, Rotation.OUT)
    error = refusal(api.accept(quote["id"]), "lane_unavailable")
    assert error["quote"] is None


def test_rows_too_few_for_every_other_lane_are_refused_with_a_quote_where_there_is_one(api: Api) -> None:
    quote = api.quote(row("a"))
    add_lane(minimum_rows=2)
    rotate(FIRST, Rotation.OUT)
    assert refusal(api.accept(quote["id"]), "lane_unavailable")["quote"] is None


def test_a_lane_nobody_has_an_account_for_takes_no_rows_but_may_be_quoted(api: Api) -> None:
    # Without a stand-in there is no account at all, so no other lane can take the rows.
    quote = api.quote(row("a"))
    add_lane()
    rotate(FIRST, Rotation.OUT)
    offer = refusal(api.accept(quote["id"]), "lane_unavailable")["quote"]
    assert [lane["lane_id"] for lane in offer["lanes"]] == [SECOND]


def test_a_lane_that_drains_is_honoured(api: Api) -> None:
    quote = api.quote(row("a"))
    rotate(FIRST, Rotation.DRAIN)
    assert api.accept(quote["id"]).status_code == 200


def test_an_accept_that_was_made_before_is_replayed_whatever_changed_since(api: Api) -> None:
    quote = api.quote(row("a"))
    first = api.accept(quote["id"])
    retire(MINI, successor=None)
    again = api.accept(quote["id"])
    assert (again.status_code, again["idempotent-replayed"]) == (200, "true")
    assert again.json()["id"] == first.json()["id"]
