"""Workflows: the list, one with its history, making, editing and archiving."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, cast

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from accounts.models import MemberRole, Membership, User
from accounts.pages import member_page, role_page
from ground.errors import InvalidRequest
from routing.models import WorkflowVersion
from routing.services.workflows import Author, archive_workflow, create_workflow, update_workflow
from routing.workflow_form import FIELD_OF, WorkflowForm, shown_in_form
from routing.workflows import DEFAULT_WORKFLOW, newest_versions, workflow_history, workflow_version

WRITERS = (MemberRole.ADMIN, MemberRole.DEVELOPER)


@require_safe
@member_page
def workflow_list(request: HttpRequest, membership: Membership) -> HttpResponse:
    """Show the house's profile and the organisation's workflows, archived ones last."""
    context = {
        "active_nav": "workflows",
        "may_write": membership.role in WRITERS,
        "house": DEFAULT_WORKFLOW,
        "rows": list(newest_versions(membership.organisation)[:500]),
    }
    return render(request, "routing/workflow_list.html", context)


@require_safe
@member_page
def workflow_detail(request: HttpRequest, membership: Membership, workflow_id: str) -> HttpResponse:
    """Show what a workflow says, and what it said before."""
    version = _found(membership, workflow_id)
    context = {
        "active_nav": "workflows",
        "title": version.workflow.name,
        "crumbs": _crumbs(),
        "version": version,
        "workflow": version.workflow,
        "may_write": membership.role in WRITERS and version.workflow.archived_at is None,
        "history": workflow_history(version),
    }
    return render(request, "routing/workflow_detail.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@role_page(*WRITERS)
def workflow_new(request: HttpRequest, membership: Membership) -> HttpResponse:
    """Ask for a new workflow, and make it."""
    form = WorkflowForm(request.POST if request.method == "POST" else None, initial=shown_in_form(DEFAULT_WORKFLOW))
    if request.method == "POST" and form.is_valid():
        try:
            made = create_workflow(membership.organisation, form.wanted(form.cleaned_data["name"]), _author(request))
        except InvalidRequest as error:
            _add_error(form, error)
        else:
            messages.success(request, f"The workflow {made.workflow.name} was made.")
            return redirect("routing:workflow-detail", made.workflow.public_id)
    return _form(request, form, title="New workflow", submit="Create workflow", back=reverse("routing:workflow-list"))


@require_http_methods(["GET", "HEAD", "POST"])
@role_page(*WRITERS)
def workflow_edit(request: HttpRequest, membership: Membership, workflow_id: str) -> HttpResponse:
    """Ask for what a workflow is to say from now on, and make that its next version."""
    version = _in_use(membership, workflow_id)
    form = WorkflowForm(
        request.POST if request.method == "POST" else None, initial=shown_in_form(version.profile), is_named=True
    )
    if request.method == "POST" and form.is_valid():
        wanted = form.wanted(version.workflow.name)
        changes = {
            field.name: getattr(wanted, field.name) for field in fields(wanted) if field.name not in {"name", "version"}
        }
        try:
            changed = update_workflow(membership.organisation, workflow_id, _author(request), **changes)
        except InvalidRequest as error:
            _add_error(form, error)
        else:
            is_same = changed.number == version.number
            words = "Nothing was changed." if is_same else f"Saved as version {changed.number}."
            messages.success(request, words)
            return redirect("routing:workflow-detail", workflow_id)
    back = reverse("routing:workflow-detail", args=[workflow_id])
    return _form(request, form, title=f"Edit {version.workflow.name}", submit="Save", back=back)


@require_http_methods(["GET", "HEAD", "POST"])
@role_page(*WRITERS)
def workflow_archive(request: HttpRequest, membership: Membership, workflow_id: str) -> HttpResponse:
    """Say what archiving ends, and archive."""
    version = _in_use(membership, workflow_id)
    if request.method == "POST":
        archive_workflow(membership.organisation, workflow_id)
        messages.success(request, f"The workflow {version.workflow.name} was archived.")
        return redirect("routing:workflow-list")
    context = {"active_nav": "workflows", "title": f"Archive {version.workflow.name}", "workflow": version.workflow}
    return render(request, "routing/workflow_archive.html", context)


def _form(request: HttpRequest, form: WorkflowForm, *, title: str, submit: str, back: str) -> HttpResponse:
    context = {"active_nav": "workflows", "title": title, "form": form, "submit": submit, "back_url": back}
    return render(request, "routing/workflow_form.html", context, status=422 if form.errors else 200)


def _found(membership: Membership, workflow_id: str) -> WorkflowVersion:
    found = workflow_version(membership.organisation, workflow_id)
    if found.workflow.public_id != workflow_id:
        # A page has one address.
        raise Http404
    return found


def _in_use(membership: Membership, workflow_id: str) -> WorkflowVersion:
    found = _found(membership, workflow_id)
    if found.workflow.archived_at is not None:
        raise Http404("The workflow was archived.")
    return found


def _author(request: HttpRequest) -> Author:
    return Author(user=cast(User, request.user))


def _crumbs() -> list[dict[str, Any]]:
    return [{"label": "Workflows", "url": reverse("routing:workflow-list")}]


def _add_error(form: WorkflowForm, error: InvalidRequest) -> None:
    name = FIELD_OF.get(error.param or "")
    form.add_error(name if name in form.fields else None, error.message)
