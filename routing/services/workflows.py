"""Making, editing and archiving workflows. An edit is a new version; quotes keep the one they were made with."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from django.db import IntegrityError, transaction

from accounts.audit import record
from accounts.domain.audit import Change, Changes, changed
from accounts.models import ApiKey, Organisation, User
from ground import clock
from ground.errors import InvalidRequest, NotFound
from ground.ids import new_public_id
from routing.domain.constraints import DAY_MINUTES, LaneConstraints
from routing.domain.scoring import WorkflowProfile
from routing.models import Workflow, WorkflowVersion
from routing.workflows import DEFAULT_WORKFLOW, ID_PREFIX, places, workflow_version

NAME_MAX_CHARACTERS: Final = 64
PENALTY_MAX_MICRO_USD: Final = 1_000_000_000
RATE_MAX_MICRO_USD_PER_MTOK: Final = 1_000_000_000_000
WORKFLOWS_MAX_COUNT: Final = 100
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_LISTED_MAX_COUNT = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """Whose hand it is: a person on a page, or a program with a key."""

    user: User | None = None
    api_key: ApiKey | None = None


@transaction.atomic
def create_workflow(organisation: Organisation, wanted: WorkflowProfile, author: Author) -> WorkflowVersion:
    """Make a workflow and give its first version.

    Args:
        organisation: Whose it is.
        wanted: Its name and what it says; the version is not read.
        author: Who makes it.

    Raises:
        InvalidRequest: The name is taken or no name, a figure is out of bounds, a region or provider is unknown, or the
            organisation has 100 in use.
    """
    checked = _checked(wanted)
    if not _NAME.fullmatch(checked.name) or len(checked.name) > NAME_MAX_CHARACTERS:
        raise InvalidRequest(
            f"A name has 1 to {NAME_MAX_CHARACTERS} of a-z, 0-9 and '-', and does not begin with '-'.", param="name"
        )
    if checked.name == DEFAULT_WORKFLOW.name:
        raise InvalidRequest("'default' is the house's own profile. Choose another name.", param="name")
    in_use = Workflow.objects.filter(organisation=organisation, archived_at__isnull=True)
    if in_use.count() >= WORKFLOWS_MAX_COUNT:
        raise InvalidRequest(f"An organisation has up to {WORKFLOWS_MAX_COUNT} workflows. Archive one first.")
    at = clock.now()
    try:
        with transaction.atomic():
            workflow = Workflow.objects.create(
                public_id=new_public_id(ID_PREFIX, at), organisation=organisation, name=checked.name, created_at=at
            )
    except IntegrityError:
        raise InvalidRequest(f"There is a workflow {checked.name!r} already.", param="name") from None
    _record("workflow.created", workflow, {"name": (None, checked.name)}, author)
    return _add_version(workflow, checked, author)


@transaction.atomic
def update_workflow(organisation: Organisation, reference: str, author: Author, **changes: Any) -> WorkflowVersion:  # noqa: ANN401 -- the fields of a profile
    """Change some of what a workflow says, and give its newest version; without a difference there is no new one.

    Args:
        organisation: Whose it is.
        reference: Its name or id.
        author: Who changes it.
        changes: Fields of :class:`WorkflowProfile` but for name and version; constraints are replaced as a whole.

    Raises:
        NotFound: There is no such workflow in use.
        InvalidRequest: As :func:`create_workflow`.
    """
    current = _locked(organisation, reference)
    wanted = _checked(replace(current.profile, **changes))
    if wanted == current.profile:
        return current
    current.workflow.version_number += 1
    current.workflow.save(update_fields=["version_number"])
    _record("workflow.changed", current.workflow, changed(_said(current.profile), _said(wanted)), author)
    return _add_version(current.workflow, wanted, author)


@transaction.atomic
def archive_workflow(organisation: Organisation, reference: str) -> WorkflowVersion:
    """Take a workflow out of use; open quotes and running batches keep what it said.

    Raises:
        NotFound: There is no such workflow in use.
    """
    current = _locked(organisation, reference)
    current.workflow.archived_at = clock.now()
    current.workflow.save(update_fields=["archived_at"])
    _record("workflow.archived", current.workflow, {"state": ("in use", "archived")}, Author())
    return current


def _record(action: str, workflow: Workflow, changes: Changes, author: Author) -> None:
    record(
        action,
        object_type="workflow",
        object_id=workflow.public_id,
        organisation=workflow.organisation,
        changes=changes,
        user=author.user,
    )


def _said(profile: WorkflowProfile) -> dict[str, Change]:
    """Give a profile's fields flat, as the audit log compares them."""
    own: dict[str, Change] = {
        "penalty_micro_usd_per_minute": profile.penalty_micro_usd_per_minute,
        "penalty_micro_usd_per_percent": profile.penalty_micro_usd_per_percent,
        "fan_out": profile.fan_out,
        "webhook_mode": profile.webhook_mode.value,
    }
    constraints = profile.constraints
    return own | {field.name: _stored(getattr(constraints, field.name)) for field in fields(constraints)}


def _locked(organisation: Organisation, reference: str) -> WorkflowVersion:
    found = workflow_version(organisation, reference)
    # The version is read again under the lock: another edit may have come first.
    Workflow.objects.select_for_update().get(pk=found.workflow_id)
    current = workflow_version(organisation, found.workflow.public_id)
    if current.workflow.archived_at is not None:
        raise NotFound(f"The workflow {current.workflow.name!r} was archived.", param="workflow")
    return current


def _add_version(workflow: Workflow, wanted: WorkflowProfile, author: Author) -> WorkflowVersion:
    constraints = wanted.constraints
    return WorkflowVersion.objects.create(
        workflow=workflow,
        number=workflow.version_number,
        penalty_micro_usd_per_minute=wanted.penalty_micro_usd_per_minute,
        penalty_micro_usd_per_percent=wanted.penalty_micro_usd_per_percent,
        fan_out=wanted.fan_out,
        webhook_mode=wanted.webhook_mode.value,
        **{field.name: _stored(getattr(constraints, field.name)) for field in fields(constraints)},
        created_at=clock.now(),
        created_by=author.user,
        api_key=author.api_key,
    )


def _stored(value: tuple[str, ...] | int | None) -> list[str] | int | None:
    return list(value) if isinstance(value, tuple) else value


def _checked(wanted: WorkflowProfile) -> WorkflowProfile:
    """Give the profile with its lists in order and each name once."""
    for name in ("penalty_micro_usd_per_minute", "penalty_micro_usd_per_percent"):
        _check_bounds(name, getattr(wanted, name), 0, PENALTY_MAX_MICRO_USD)
    constraints = wanted.constraints
    for name in ("max_input_rate_micro_usd_per_mtok", "max_output_rate_micro_usd_per_mtok"):
        _check_bounds(f"constraints.{name}", getattr(constraints, name), 0, RATE_MAX_MICRO_USD_PER_MTOK)
    _check_bounds("constraints.finish_by_minutes", constraints.finish_by_minutes, 1, DAY_MINUTES)
    known = places()
    return replace(
        wanted,
        constraints=LaneConstraints(
            regions=_known("regions", "region", constraints.regions, known.regions),
            providers_allowed=_known("providers_allowed", "provider", constraints.providers_allowed, known.providers),
            providers_denied=_known("providers_denied", "provider", constraints.providers_denied, known.providers),
            max_input_rate_micro_usd_per_mtok=constraints.max_input_rate_micro_usd_per_mtok,
            max_output_rate_micro_usd_per_mtok=constraints.max_output_rate_micro_usd_per_mtok,
            finish_by_minutes=constraints.finish_by_minutes,
        ),
    )


def _check_bounds(param: str, value: int | None, lowest: int, highest: int) -> None:
    if value is not None and not lowest <= value <= highest:
        raise InvalidRequest(f"{param} is {lowest} to {highest}.", param=param)


def _known(param: str, what: str, given: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """Give names in order, each once; a misspelt one must not quietly leave no lane, or deny none."""
    for name in given[:_LISTED_MAX_COUNT]:
        if name not in known:
            raise InvalidRequest(
                f"There is no {what} {name[:40]!r}; there are {', '.join(known)}.", param=f"constraints.{param}"
            )
    if len(given) > _LISTED_MAX_COUNT:
        raise InvalidRequest(f"A list has up to {_LISTED_MAX_COUNT} names.", param=f"constraints.{param}")
    return tuple(sorted(set(given)))
