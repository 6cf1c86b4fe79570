"""``/v1/workflows``: profiles that quotes may be asked under."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router

from routing.api.answers import caller_of, errors_of, json_answer
from routing.domain.constraints import LaneConstraints
from routing.domain.scoring import WebhookMode, WorkflowProfile
from routing.models import WorkflowVersion
from routing.schemas import (
    ConstraintsBody,
    WorkflowCreate,
    WorkflowDeletedOut,
    WorkflowListOut,
    WorkflowOut,
    WorkflowUpdate,
)
from routing.selectors import PAGE_DEFAULT, PAGE_MAX
from routing.services.workflows import Author, archive_workflow, create_workflow, update_workflow
from routing.workflows import newest_versions, workflow_version

router = Router(tags=["workflows"])
Limit = Annotated[int, Query(ge=1, le=PAGE_MAX)]


@router.post("", response={201: WorkflowOut, **errors_of(400)})
def create_workflow_profile(request: HttpRequest, body: WorkflowCreate) -> HttpResponse:
    """Make a workflow. `?workflow=` of a quote takes its name or its id."""
    caller = caller_of(request)
    wanted = WorkflowProfile(name=body.name, **_changes(body))
    made = create_workflow(caller.organisation, wanted, Author(api_key=caller.api_key))
    return json_answer(_answer(made), status=201)


@router.get("", response={200: WorkflowListOut, **errors_of(404)})
def list_workflows(request: HttpRequest, after: str | None = None, limit: Limit = PAGE_DEFAULT) -> dict[str, Any]:
    """Give a page of the workflows in use, by name; `after` is the last id of the page before."""
    rows = newest_versions(caller_of(request).organisation, with_archived=False)
    if after:
        last = workflow_version(caller_of(request).organisation, after, param="after")
        rows = rows.filter(workflow__name__gt=last.workflow.name)
    page = list(rows[: limit + 1])
    data = [_answer(version) for version in page[:limit]]
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": len(page) > limit,
    }


@router.get("/{workflow}", response={200: WorkflowOut, **errors_of(404)})
def get_workflow(request: HttpRequest, workflow: str) -> dict[str, Any]:
    """Give a workflow by its name, or by its id also after it was archived."""
    return _answer(workflow_version(caller_of(request).organisation, workflow))


@router.patch("/{workflow}", response={200: WorkflowOut, **errors_of(404)})
def update_workflow_profile(request: HttpRequest, workflow: str, body: WorkflowUpdate) -> dict[str, Any]:
    """Change a workflow: what is named, `constraints` as a whole. Quotes keep the version they were made with."""
    caller = caller_of(request)
    return _answer(update_workflow(caller.organisation, workflow, Author(api_key=caller.api_key), **_changes(body)))


@router.post("/{workflow}", response={200: WorkflowOut, **errors_of(404)})
def change_workflow_profile(request: HttpRequest, workflow: str, body: WorkflowUpdate) -> dict[str, Any]:
    """Change a workflow as `PATCH` does."""
    return update_workflow_profile(request, workflow, body)


@router.delete("/{workflow}", response={200: WorkflowDeletedOut, **errors_of(404)})
def delete_workflow(request: HttpRequest, workflow: str) -> dict[str, Any]:
    """Archive a workflow: its name is free again; open quotes and running batches keep what it said."""
    archived = archive_workflow(caller_of(request).organisation, workflow)
    return {"id": archived.workflow.public_id, "object": "workflow", "deleted": True}


def _changes(body: WorkflowCreate | WorkflowUpdate) -> dict[str, Any]:
    """Give the fields of a profile that the caller named; null leaves a field as it is."""
    named: dict[str, Any] = {}
    for name in ("penalty_micro_usd_per_minute", "penalty_micro_usd_per_percent", "fan_out"):
        value = getattr(body, name)
        if value is not None:
            named[name] = value
    if body.webhook_mode is not None:
        named["webhook_mode"] = WebhookMode(body.webhook_mode)
    if body.constraints is not None:
        named["constraints"] = _constraints(body.constraints)
    return named


def _constraints(body: ConstraintsBody) -> LaneConstraints:
    return LaneConstraints(
        regions=tuple(body.regions),
        providers_allowed=tuple(body.providers_allowed),
        providers_denied=tuple(body.providers_denied),
        max_input_rate_micro_usd_per_mtok=body.max_input_rate_micro_usd_per_mtok,
        max_output_rate_micro_usd_per_mtok=body.max_output_rate_micro_usd_per_mtok,
        finish_by_minutes=body.finish_by_minutes,
    )


def _answer(version: WorkflowVersion) -> dict[str, Any]:
    workflow = version.workflow
    return {
        "id": workflow.public_id,
        "object": "workflow",
        "name": workflow.name,
        "version": version.number,
        "created_at": int(workflow.created_at.timestamp()),
        "updated_at": int(version.created_at.timestamp()),
        "archived_at": int(workflow.archived_at.timestamp()) if workflow.archived_at else None,
        "penalty_micro_usd_per_minute": version.penalty_micro_usd_per_minute,
        "penalty_micro_usd_per_percent": version.penalty_micro_usd_per_percent,
        "fan_out": version.fan_out,
        "webhook_mode": version.webhook_mode,
        "constraints": {
            "regions": version.regions,
            "providers_allowed": version.providers_allowed,
            "providers_denied": version.providers_denied,
            "max_input_rate_micro_usd_per_mtok": version.max_input_rate_micro_usd_per_mtok,
            "max_output_rate_micro_usd_per_mtok": version.max_output_rate_micro_usd_per_mtok,
            "finish_by_minutes": version.finish_by_minutes,
        },
    }
