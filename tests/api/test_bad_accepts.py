"""Accepts that are refused: the code, the field, and that nothing is held or made."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from accounts.models import Organisation, User
from billing.models import Hold
from catalog.domain.records import Rotation
from catalog.services.rotation import rotate_lane
from ground import clock as now_source
from routing.models import Batch
from tests.api.world import Api, error_of, left, row
from tests.harness.clock import Clock
from tests.harness.world import make_tenant


def refused(api: Api, quote_id: str, status: int, code: str, param: str | None = None, **body: Any) -> dict[str, Any]:
    before = left(api.tenant)
    error = error_of(api.accept(quote_id, **body), status, code, param)
    assert left(api.tenant) == before
    return error


@pytest.fixture
def quote_id(api: Api) -> str:
    return str(api.quote(row("a"), row("b"))["id"])


def test_without_credit_nothing_is_held_and_the_estimate_is_named(db: None) -> None:
    poor = Api(make_tenant(credit_micro_usd=20_000))
    quote = poor.quote(row("a"))
    error = refused(poor, quote["id"], 402, "insufficient_credit")
    assert error["type"] == "billing_error"
    assert error["available_micro_usd"] == 20_000
    assert error["required_micro_usd"] == quote["estimate"]["reservation_micro_usd"]
    assert error["estimate"] == quote["estimate"]
    assert str(quote["estimate"]["total_micro_usd"]) in error["message"]


def test_an_account_that_never_had_money_has_insufficient_credit(db: None) -> None:
    poor = Api(make_tenant(credit_micro_usd=0))
    refused(poor, poor.quote(row("a"))["id"], 402, "insufficient_credit")


def test_a_blocked_account_accepts_nothing(api: Api, quote_id: str) -> None:
    Organisation.objects.filter(pk=api.tenant.organisation.pk).update(billing_blocked_at=now_source.now())
    refused(api, quote_id, 402, "billing_blocked")
    assert api.get("/v1/wallet").json()["blocked"] is True


def test_a_quote_expires_by_the_databases_clock(api: Api, quote_id: str, clock: Clock) -> None:
    start = clock.freeze(now_source.now())
    expires_at = api.get(f"/v1/quotes/{quote_id}").json()["expires_at"]
    clock.freeze(start + timedelta(seconds=expires_at - start.timestamp() + 1))
    error = refused(api, quote_id, 400, "quote_expired", "quote_id")
    assert "Quote the file again" in error["message"]


def test_a_quote_can_be_accepted_until_its_last_second(api: Api, quote_id: str, clock: Clock) -> None:
    clock.advance(minutes=29, seconds=50)
    assert api.accept(quote_id).status_code == 200


def test_the_same_accept_again_is_the_same_batch(api: Api, quote_id: str, clock: Clock) -> None:
    first = api.accept(quote_id, metadata={"run": "7"})
    clock.advance(hours=2)
    second = api.accept(quote_id, metadata={"run": "7"})
    assert (first.status_code, second.status_code) == (200, 200)
    assert second.json()["id"] == first.json()["id"]
    assert ("idempotent-replayed" in first, second["idempotent-replayed"]) == (False, "true")
    assert (Batch.objects.count(), Hold.objects.count()) == (1, 1)


def test_another_body_for_a_used_quote_is_refused_and_names_the_batch(api: Api, quote_id: str) -> None:
    batch_id = api.accept(quote_id).json()["id"]
    error = refused(api, quote_id, 400, "quote_already_used", "quote_id", metadata={"run": "7"})
    assert batch_id in error["message"]


def test_a_used_quote_replays_also_for_a_blocked_account(api: Api, quote_id: str) -> None:
    batch_id = api.accept(quote_id).json()["id"]
    Organisation.objects.filter(pk=api.tenant.organisation.pk).update(billing_blocked_at=now_source.now())
    assert api.accept(quote_id).json()["id"] == batch_id


def test_a_lane_taken_out_since_the_quote_refuses_the_accept(api: Api, quote_id: str) -> None:
    operator = User.objects.create_user(email="operator@example.com", name="Operator", created_at=now_source.now())
    rotate_lane("gpt-4o-mini", "openai-direct", Rotation.OUT, "on fire", operator)
    refused(api, quote_id, 400, "lane_unavailable", "quote_id")


@pytest.mark.parametrize("window", ["48h", "1h", "", "24H"])
def test_no_other_window_is_sold(api: Api, quote_id: str, window: str) -> None:
    refused(api, quote_id, 400, "invalid_value", "completion_window", completion_window=window)


def test_a_window_that_is_no_string_is_of_the_wrong_type(api: Api, quote_id: str) -> None:
    refused(api, quote_id, 400, "invalid_type", "completion_window", completion_window=24)


def test_the_endpoint_must_be_the_quotes(api: Api, quote_id: str) -> None:
    refused(api, quote_id, 400, "invalid_value", "endpoint", endpoint="/v1/embeddings")


def test_an_input_file_beside_the_quote_must_be_the_quotes(api: Api, quote_id: str) -> None:
    refused(api, quote_id, 400, "invalid_value", "input_file_id", input_file_id="file-other")


def test_the_quotes_own_id_may_stand_as_its_file(api: Api, quote_id: str) -> None:
    response = api.accept(quote_id, input_file_id=quote_id, endpoint="/v1/chat/completions", completion_window="24h")
    assert response.status_code == 200


def test_a_parameter_that_nobody_knows_is_refused(api: Api, quote_id: str) -> None:
    refused(api, quote_id, 400, "unsupported_parameter", "priority", priority="high")


def test_a_call_that_names_no_quote_says_so(api: Api) -> None:
    error_of(api.post("/v1/batches", {}), 400, "missing_required_parameter", "quote_id")
    error_of(api.accept(""), 400, "missing_required_parameter", "quote_id")


def test_a_quote_named_as_a_file_alone_says_where_it_belongs(api: Api, quote_id: str) -> None:
    response = api.post("/v1/batches", {"input_file_id": quote_id})
    error_of(response, 400, "missing_required_parameter", "quote_id")


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ({f"k{number}": "v" for number in range(17)}, "invalid_value"),
        ({"k" * 65: "v"}, "invalid_value"),
        ({"k": "v" * 513}, "invalid_value"),
        ({"k": 7}, "invalid_type"),
        ({"k": None}, "invalid_type"),
        ({"k": {"deep": "v"}}, "invalid_type"),
        ({"quote_id": 7}, "invalid_type"),
        (["k"], "invalid_type"),
        ("k", "invalid_type"),
        ({"k": "a\x00b"}, "invalid_value"),
        ({"k\x00": "v"}, "invalid_value"),
    ],
)
def test_metadata_keeps_openais_rules(api: Api, quote_id: str, metadata: Any, code: str) -> None:
    refused(api, quote_id, 400, code, "metadata", metadata=metadata)


def test_metadata_at_its_limits_comes_back_as_it_was(api: Api, quote_id: str) -> None:
    metadata = {f"{number:02}".ljust(64, "\u20ac"): "\U0001f600" * 512 for number in range(16)}
    batch_id = api.accept(quote_id, metadata=metadata).json()["id"]
    assert api.batch(batch_id)["metadata"] == metadata


def test_half_a_surrogate_pair_is_no_json(api: Api, quote_id: str) -> None:
    refused(api, quote_id, 400, "invalid_json_line", metadata={"k": "\ud800"})
    refused(api, quote_id, 400, "invalid_json_line", metadata={"\udfff": "v"})
