"""A customer's workflows: made, edited, listed and archived by calls, and what they do to a quote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from ground import clock as database_clock
from routing.models import Batch, WorkflowVersion
from routing.services.quotes import create_quote
from routing.workflows import workflow_named
from tests.api.world import Api, Left, error_of, left, lines_of, row
from tests.harness.clock import Clock
from tests.harness.world import Tenant, make_tenant
from webhooks.models import Event

WORKFLOWS, JSONL = "/v1/workflows", "application/jsonl"
NO_CONSTRAINTS: dict[str, Any] = {
    "regions": [],
    "providers_allowed": [],
    "providers_denied": [],
    "max_input_rate_micro_usd_per_mtok": None,
    "max_output_rate_micro_usd_per_mtok": None,
    "finish_by_minutes": None,
}


def make(api: Api, name: str = "nightly", **fields: Any) -> dict[str, Any]:
    response = api.post(WORKFLOWS, {"name": name, **fields})
    assert response.status_code == 201, response.content
    answer: dict[str, Any] = response.json()
    return answer


def change(api: Api, reference: str, **fields: Any) -> Any:
    return api.post(f"{WORKFLOWS}/{reference}", fields)


def quote(api: Api, workflow: str) -> Any:
    return api.post(f"/v1/quotes/model?workflow={workflow}", lines_of(row("a"), row("b")), JSONL)


def test_a_workflow_is_made_with_the_defaults_it_does_not_name(api: Api, clock: Clock) -> None:
    at = int(clock.freeze(database_clock.now()).timestamp())
    made = make(api)
    assert made.pop("id").startswith("wf_")
    assert made == {
        "object": "workflow",
        "name": "nightly",
        "version": 1,
        "created_at": at,
        "updated_at": at,
        "archived_at": None,
        "penalty_micro_usd_per_minute": 500,
        "penalty_micro_usd_per_percent": 5_000,
        "fan_out": True,
        "webhook_mode": "gather",
        "constraints": NO_CONSTRAINTS,
    }


def test_it_is_found_by_its_name_and_by_its_id(api: Api) -> None:
    made = make(api)
    assert api.get(f"{WORKFLOWS}/nightly").json() == made
    assert api.get(f"{WORKFLOWS}/{made['id']}").json() == made


def test_an_edit_is_a_new_version_and_leaves_what_it_does_not_name(api: Api, clock: Clock) -> None:
    clock.freeze(database_clock.now())
    made = make(api, fan_out=False, constraints={"regions": ["global"]})
    edited = change(api, "nightly", penalty_micro_usd_per_minute=0).json()
    assert edited == made | {"version": 2, "penalty_micro_usd_per_minute": 0}
    assert change(api, "nightly", penalty_micro_usd_per_minute=0).json()["version"] == 2
    replaced = change(api, "nightly", constraints={"finish_by_minutes": 60}).json()
    assert (replaced["version"], replaced["constraints"]) == (3, NO_CONSTRAINTS | {"finish_by_minutes": 60})
    patched = api.client.patch(f"{WORKFLOWS}/nightly", {"fan_out": True}, content_type="application/json").json()
    assert (patched["version"], patched["fan_out"]) == (4, True)


def test_the_list_pages_by_name_and_leaves_archived_ones_out(api: Api) -> None:
    for name in ("c", "a", "b", "gone"):
        make(api, name)
    assert api.client.delete(f"{WORKFLOWS}/gone").json()["deleted"] is True
    first = api.get(f"{WORKFLOWS}?limit=2").json()
    assert ([each["name"] for each in first["data"]], first["has_more"]) == (["a", "b"], True)
    second = api.get(f"{WORKFLOWS}?limit=2&after={first['last_id']}").json()
    assert ([each["name"] for each in second["data"]], second["has_more"]) == (["c"], False)


def test_an_archived_workflow_frees_its_name_and_is_read_by_its_id(api: Api, clock: Clock) -> None:
    at = clock.freeze(database_clock.now())
    made = make(api)
    api.client.delete(f"{WORKFLOWS}/nightly")
    error_of(api.client.delete(f"{WORKFLOWS}/nightly"), 404, "not_found", "workflow")
    error_of(change(api, made["id"], fan_out=False), 404, "not_found", "workflow")
    error_of(quote(api, made["id"]), 404, "not_found", "workflow")
    assert api.get(f"{WORKFLOWS}/{made['id']}").json()["archived_at"] == int(at.timestamp())
    assert make(api)["id"] != made["id"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"name": "Nightly"}, "name"),
        ({"name": ""}, "name"),
        ({"name": "a" * 65}, "name"),
        ({"name": "a\x00"}, "name"),
        ({"name": "default"}, "name"),
        ({"name": "taken"}, "name"),
        ({"penalty_micro_usd_per_minute": -1}, "penalty_micro_usd_per_minute"),
        ({"penalty_micro_usd_per_percent": 1_000_000_001}, "penalty_micro_usd_per_percent"),
        ({"webhook_mode": "never"}, "webhook_mode"),
        ({"constraints": {"regions": ["mars"]}}, "constraints.regions"),
        ({"constraints": {"providers_allowed": ["opanai"]}}, "constraints.providers_allowed"),
        ({"constraints": {"providers_denied": ["\x00"]}}, "constraints.providers_denied"),
        ({"constraints": {"finish_by_minutes": 0}}, "constraints.finish_by_minutes"),
        ({"constraints": {"finish_by_minutes": 1_441}}, "constraints.finish_by_minutes"),
        ({"constraints": {"max_input_rate_micro_usd_per_mtok": -1}}, "constraints.max_input_rate_micro_usd_per_mtok"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_name(api: Api, fields: dict[str, Any], param: str) -> None:
    make(api, "taken")
    error_of(api.post(WORKFLOWS, {"name": "x", **fields}), 400, "invalid_value", param)
    assert len(api.get(WORKFLOWS).json()["data"]) == 1


def test_a_misspelt_wish_is_refused(api: Api) -> None:
    error_of(api.post(WORKFLOWS, {"name": "x", "region": "us"}), 400, "unsupported_parameter", "region")
    error_of(
        api.post(WORKFLOWS, {"name": "x", "constraints": {"region": "us"}}),
        400,
        "unsupported_parameter",
        "constraints.region",
    )


def test_another_organisations_workflow_is_not_found(api: Api) -> None:
    made = make(api)
    other = Api(make_tenant("other"))
    for reference in ("nightly", made["id"]):
        error_of(other.get(f"{WORKFLOWS}/{reference}"), 404, "not_found", "workflow")
        error_of(change(other, reference, fan_out=False), 404, "not_found", "workflow")
        error_of(other.client.delete(f"{WORKFLOWS}/{reference}"), 404, "not_found", "workflow")
        error_of(quote(other, reference), 404, "not_found", "workflow")
    assert make(other)["name"] == "nightly"


def test_a_quote_is_scored_by_the_workflow_it_names(api: Api) -> None:
    make(api, penalty_micro_usd_per_minute=7, penalty_micro_usd_per_percent=11)
    quoted = quote(api, "nightly").json()
    assert (quoted["workflow"], quoted["workflow_version"]) == ("nightly", 1)
    # Nobody has measured the lane: the stated prior is 30 minutes and 1 %.
    (candidate,) = quoted["explanation"][0]["candidates"]
    assert (candidate["latency_penalty_micro_usd"], candidate["error_penalty_micro_usd"]) == (30 * 7, 11)


def test_a_later_edit_does_not_touch_an_open_quote(api: Api) -> None:
    make(api)
    quoted = quote(api, "nightly").json()
    change(api, "nightly", penalty_micro_usd_per_minute=9, constraints={"providers_denied": ["openai"]})
    api.client.delete(f"{WORKFLOWS}/nightly")
    assert api.get(f"/v1/quotes/{quoted['id']}").json() == quoted | {"timings_ms": {}}
    assert api.accept(quoted["id"]).status_code == 200


@pytest.mark.parametrize(
    ("constraints", "reason", "constraint"),
    [
        ({"regions": ["eu"]}, "region_not_allowed", "regions"),
        ({"providers_denied": ["openai"]}, "provider_denied", "providers_denied"),
        ({"providers_allowed": ["anthropic"]}, "provider_not_allowed", "providers_allowed"),
        # gpt-4o-mini is sold at 75,000 and 300,000 micro-USD per Mtok: half of the published rates.
        ({"max_input_rate_micro_usd_per_mtok": 74_999}, "above_highest_rate", "max_input_rate_micro_usd_per_mtok"),
        ({"max_output_rate_micro_usd_per_mtok": 299_999}, "above_highest_rate", "max_output_rate_micro_usd_per_mtok"),
        ({"finish_by_minutes": 29}, "finishes_too_late", "finish_by_minutes"),
    ],
)
def test_a_constraint_that_leaves_no_lane_is_named_with_the_lane(
    api: Api, nothing_done: Left, constraints: dict[str, Any], reason: str, constraint: str
) -> None:
    make(api, constraints=constraints)
    error = error_of(quote(api, "nightly"), 400, "lane_unavailable", "workflow")
    assert error["model"] == "gpt-4o-mini"
    (lane,) = error["rejected_lanes"]
    assert (lane["lane_id"], lane["reason"], lane["constraint"]) == ("openai-direct", reason, constraint)
    assert f"openai-direct: {lane['reason_text']}" in error["message"]


def test_a_constraint_that_is_just_met_leaves_the_lane(api: Api) -> None:
    make(
        api,
        constraints={
            "regions": ["global"],
            "providers_allowed": ["openai"],
            "providers_denied": ["anthropic"],
            "max_input_rate_micro_usd_per_mtok": 75_000,
            "max_output_rate_micro_usd_per_mtok": 300_000,
            "finish_by_minutes": 30,
        },
    )
    assert quote(api, "nightly").status_code == 201


@pytest.mark.parametrize(
    "change", ["UPDATE routing_workflowversion SET fan_out = false", "DELETE FROM routing_workflowversion"]
)
def test_a_version_is_never_edited(
    api: Api, owner_cursor: psycopg.Cursor, app_cursor: psycopg.Cursor, change: str
) -> None:
    make(api)
    with pytest.raises(psycopg.errors.RestrictViolation):
        owner_cursor.execute(change)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        app_cursor.execute(change)


def test_a_batch_keeps_the_webhook_mode_of_its_quote(tenant: Tenant, api: Api, run: Callable[[], None]) -> None:
    make(api, webhook_mode="each")
    profile = workflow_named(tenant.organisation, "nightly")
    quoted = create_quote(caller=tenant.caller, body=lines_of(row("a")), workflow=profile)
    change(api, "nightly", webhook_mode="gather")
    batch_id = api.accept(quoted.answer["id"]).json()["id"]
    run()
    assert Batch.objects.get(public_id=batch_id).status == "completed"
    assert [event.type for event in Event.objects.all()] == ["batch.completed"]


def test_nothing_is_stored_of_a_refused_workflow(tenant: Tenant, api: Api) -> None:
    before = left(tenant)
    error_of(api.post(WORKFLOWS, {"name": "Bad name"}), 400, "invalid_value", "name")
    assert left(tenant) == before
    assert not WorkflowVersion.objects.exists()
