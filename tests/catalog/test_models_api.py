"""``GET /v1/models``: OpenAI's shape, our rates."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from accounts.models import User
from accounts.services.organisations import create_api_key, create_organisation
from catalog.domain.records import Rotation
from catalog.services.rotation import rotate_lane
from tests.harness.clock import Clock
from tests.harness.world import keep_models_in_service


@pytest.fixture
def api(clock: Clock) -> Client:
    organisation = create_organisation(slug="acme", name="Acme", at=clock.now())
    _, key = create_api_key(organisation=organisation, name="tests", at=clock.now())
    return Client(headers={"authorization": f"Bearer {key.text}"})


def _get(api: Client, name: str, status: int = 200) -> dict[str, Any]:
    response = api.get(f"/v1/models/{name}")
    assert response.status_code == status
    answer: dict[str, Any] = response.json()
    return answer


def test_the_list_has_openais_shape_and_only_what_is_offered(api: Client) -> None:
    keep_models_in_service()
    answer = api.get("/v1/models").json()
    assert answer["object"] == "list"
    assert len(answer["data"]) == 100
    ids = [model["id"] for model in answer["data"]]
    assert ids == sorted(ids)
    assert "gpt-4o-mini" in ids
    assert not {"gpt-4-turbo", "o1", "gpt-3.5-turbo"} & set(ids)
    assert all(model["object"] == "model" and isinstance(model["created"], int) for model in answer["data"])


def test_a_model_says_its_rates_and_lanes(api: Client) -> None:
    model = _get(api, "gpt-4o-mini")
    assert (model["id"], model["owned_by"], model["available"]) == ("gpt-4o-mini", "openai", True)
    assert model["model_snapshot"] == "gpt-4o-mini-2024-07-18"
    (lane,) = model["lanes"]
    assert (lane["lane_id"], lane["provider"], lane["region"], lane["rotation"]) == (
        "openai-direct",
        "openai",
        "global",
        "in",
    )
    assert lane["rates"] == {
        "input_rate_micro_usd_per_mtok": 75_000,
        "cached_input_rate_micro_usd_per_mtok": 37_500,
        "cache_write_5m_rate_micro_usd_per_mtok": 93_750,
        "cache_write_1h_rate_micro_usd_per_mtok": 150_000,
        "output_rate_micro_usd_per_mtok": 300_000,
        "derived": ["cache_write_1h", "cache_write_5m"],
    }
    assert lane["list_rates"]["input_rate_micro_usd_per_mtok"] == 150_000
    assert (lane["p95_completion_minutes"], lane["recent_error_rate_24h"], lane["sample_count"]) == (30, 0.01, 0)


def test_what_the_provider_bills_us_is_not_told(api: Client) -> None:
    assert "provider_batch" not in api.get("/v1/models").content.decode()


@pytest.mark.parametrize("name", ["gpt-4o-2024-08-06", "gpt-4o"])
def test_a_dated_id_or_alias_is_found_under_the_name_asked_for(api: Client, name: str) -> None:
    model = _get(api, name)
    assert (model["id"], model["model_snapshot"]) == (name, "gpt-4o-2024-08-06")
    assert set(model["names"]) == {"gpt-4o", "gpt-4o-2024-08-06"}


def test_a_name_with_a_colon_is_found(api: Client) -> None:
    assert _get(api, "amazon.nova-lite-v1:0")["model_snapshot"] == "amazon.nova-lite-v1:0"


@pytest.mark.parametrize("name", ["gpt-9-imaginary", "GPT-4o", "a/b", "%00"])
def test_an_unknown_model_is_not_found(api: Client, name: str) -> None:
    error = _get(api, name, status=404)["error"]
    assert error["code"] == "not_found"


def test_a_retired_model_is_not_found_and_names_its_successor(api: Client) -> None:
    error = _get(api, "gpt-4-turbo", status=404)["error"]
    assert error["successor"] == "gpt-5.6-sol"
    assert "gpt-5.6-sol" in error["message"]


def test_an_operators_words_stay_inside(api: Client, operator: User) -> None:
    rotate_lane("gpt-4o", "openai-direct", Rotation.OUT, "their account manager is on holiday", operator)
    model = _get(api, "gpt-4o")
    assert model["available"] is False
    assert (model["lanes"][0]["rotation"], model["lanes"][0]["rotation_reason"]) == ("out", "operator")
    assert _get(api, "amazon.nova-lite")["lanes"][0]["rotation_reason"] == "no_adapter"


def test_without_a_key_there_is_no_answer(db: None) -> None:
    assert Client().get("/v1/models").status_code == 401
