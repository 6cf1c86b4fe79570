"""The published OpenAPI against the product: generated calls meet no 5xx, and no status or shape that is not in it."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from django.test import Client
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from accounts.models import Organisation
from config.wsgi import application
from simulators.running import RunningSimulator
from tests.api.world import Api, row
from tests.harness.world import do_due_steps, make_tenant

pytestmark = [pytest.mark.faults, pytest.mark.timeout(600)]
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES_PER_CALL = 20
RULES = settings(
    max_examples=EXAMPLES_PER_CALL,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def ids_that_exist(api: Api, simulator: RunningSimulator) -> dict[str, str]:
    """Give, by the name of a path's parameter, the id of something that the tenant has."""
    batch_id = api.accept(api.quote(row("a"))["id"]).json()["id"]
    simulator.control.advance(3_600)
    for _ in range(3):
        do_due_steps()
        simulator.control.advance(3_600)
    batch = api.batch(batch_id)
    endpoint = api.post("/v1/webhook_endpoints", {"url": "https://hooks.example.com/"}).json()
    return {
        "quote_id": api.quote(row("a"))["id"],
        "batch_id": batch_id,
        "file_id": batch["output_file_id"],
        "receipt_id": batch["receipt_id"],
        "model_name": "gpt-4o-mini",
        "endpoint_id": endpoint["id"],
    }


def with_known_ids(case: Any, known: dict[str, str]) -> Any:
    """Let a generated call ask for what exists: the rest of it is tried on something then."""
    for name in case.path_parameters or {}:
        case.path_parameters[name] = known.get(name, case.path_parameters[name])
    if case.query and "workflow" in case.query:
        del case.query["workflow"]
    return case


def test_generated_calls_are_answered_as_published(db: None, simulator: RunningSimulator) -> None:
    api = Api(make_tenant())
    # Here the limits are not what is asked about.
    Organisation.objects.update(calls_per_minute=1_000_000, accepts_per_minute=1_000_000)
    known = ids_that_exist(api, simulator)
    schema = schemathesis.openapi.from_dict(Client().get("/v1/openapi.json").json())
    schema.app = application
    failures: dict[str, str] = {}
    for found in schema.get_all_operations():
        assert isinstance(found, Ok), found
        operation = found.ok()

        @RULES
        @given(case=operation.as_strategy(), asks_for_known=st.booleans())
        def call(case: Any, *, asks_for_known: bool) -> None:
            asked = with_known_ids(case, known) if asks_for_known else case
            asked.call_and_validate(headers=dict(api.tenant.headers), checks=CHECKS)

        try:
            call()
        except (AssertionError, BaseExceptionGroup) as error:
            failures[operation.label] = str(getattr(error, "exceptions", error))[:2_000]
    assert failures == {}
