"""Reads of workflows: always an organisation's own; and the house's profile, which needs no name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.db.models import F, QuerySet

from accounts.models import Organisation
from catalog.selectors import current_catalog
from ground.errors import NotFound
from ground.ids import is_public_id
from routing.domain.scoring import WorkflowProfile
from routing.models import WorkflowVersion

DEFAULT_WORKFLOW: Final = WorkflowProfile()
ID_PREFIX: Final = "wf_"


def workflow_named(organisation: Organisation, reference: str | None) -> WorkflowProfile:
    """Give the newest version of a workflow by its name or id; the house's profile for None, empty or ``default``.

    Raises:
        NotFound: The organisation has none of this name, or it was archived.
    """
    if reference in {None, "", DEFAULT_WORKFLOW.name}:
        return DEFAULT_WORKFLOW
    found = workflow_version(organisation, str(reference))
    if found.workflow.archived_at is not None:
        raise NotFound(f"The workflow {found.workflow.name!r} was archived.", param="workflow")
    return found.profile


def workflow_version(organisation: Organisation, reference: str, *, param: str = "workflow") -> WorkflowVersion:
    """Give the newest version of a workflow, with it: by its name among those in use, or by its id among all.

    Raises:
        NotFound: The organisation has none.
    """
    rows = newest_versions(organisation)
    if is_public_id(reference, ID_PREFIX):
        found = rows.filter(workflow__public_id=reference).first()
    elif "\x00" in reference:
        found = None
    else:
        found = rows.filter(workflow__name=reference, workflow__archived_at__isnull=True).first()
    if found is None:
        raise NotFound(
            f"There is no workflow {reference[:60]!r}; GET /v1/workflows lists yours, leave it out for the default.",
            param=param,
        )
    return found


def newest_versions(organisation: Organisation, *, with_archived: bool = True) -> QuerySet[WorkflowVersion]:
    """Give the newest version of each of an organisation's workflows, by name; archived ones after those in use."""
    rows = WorkflowVersion.objects.select_related("workflow").filter(
        workflow__organisation=organisation, number=F("workflow__version_number")
    )
    if not with_archived:
        rows = rows.filter(workflow__archived_at__isnull=True)
    return rows.order_by(F("workflow__archived_at").desc(nulls_first=True), "workflow__name", "pk")


def workflow_history(version: WorkflowVersion, count: int = 20) -> list[WorkflowVersion]:
    """Give a workflow's newest versions, newest first, with who made them."""
    rows = WorkflowVersion.objects.select_related("workflow", "created_by", "api_key")
    return list(rows.filter(workflow=version.workflow_id).order_by("-number")[:count])


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """What constraints may name: the regions of all lanes, and their providers, each in order."""

    regions: tuple[str, ...]
    providers: tuple[str, ...]


def places() -> Places:
    """Give the regions and providers that the catalog knows."""
    lanes = current_catalog().lanes.values()
    return Places(
        regions=tuple(sorted({lane.region for lane in lanes})),
        providers=tuple(sorted({lane.provider for lane in lanes})),
    )
