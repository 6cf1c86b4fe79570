"""Files: what was uploaded and what batches put out; the list, one file, its bytes, and deleting."""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe
from django_htmx.http import HttpResponseClientRefresh

from accounts.models import MemberRole, Membership
from accounts.pages import member_page, region_asked_for, role_page
from accounts.zones import zone_of
from ground import clock
from ground.errors import InvalidRequest, NotFound, RangeNotSatisfiable
from routing.api.downloads import download
from routing.batch_rows import results_are_gone
from routing.file_pages import ListedFile, ListedFiles, file_facts, listed_file_page
from routing.forms import FILE_STATE_WORDS, FileFilterForm
from routing.models import FilePurpose
from routing.selectors import batch_by_id, file_by_id
from routing.services.deletions import delete_batch_files, delete_file
from routing.views import shown
from routing.views.files import may_download
from routing.views.lists import REGION, ROWS_PER_PAGE
from routing.views.polling import ENDED

_DIALOG = "dialog"
_BADGES = {"kept": ("ok", "Kept"), "over": ("off", "Time is over"), "deleted": ("off", "Deleted")}
_PURPOSES = {FilePurpose.BATCH: "Input", FilePurpose.BATCH_OUTPUT: "Output"}


@require_safe
@member_page
def file_list(request: HttpRequest, membership: Membership) -> HttpResponse:
    """Show an organisation's files, newest first, also those that are gone. Alone: the region ``list``."""
    form = FileFilterForm(request.GET)
    page = ListedFiles(files=(), has_more=False)
    after = request.GET.get("after") or ""
    if form.is_valid():
        page = listed_file_page(
            membership.organisation,
            after=after or None,
            limit=ROWS_PER_PAGE,
            chosen=form.wanted(zone_of(request, membership.organisation)),
        )
    chosen = form.chosen()
    kept = {name: value for name, value in chosen.items() if name != "state"}
    context = {
        "active_nav": "files",
        "form": form,
        "rows": [_row(listed) for listed in page.files],
        "tabs": [
            {"key": key, "label": label, "url": f"{request.path}?{urlencode({**kept, 'state': key} if key else kept)}"}
            for key, label in FILE_STATE_WORDS.items()
        ],
        "active_tab": chosen.get("state", ""),
        "chips": form.chips(without=frozenset({"state"})),
        "is_filtered": bool(chosen),
        "is_first_page": not after,
        "newest_url": request.path + form.query(),
        "older_url": request.path + form.query(after=page.files[-1].stored.public_id) if page.has_more else "",
        "at": clock.now(),
    }
    is_region = region_asked_for(request) == REGION
    return render(request, f"routing/{'_' if is_region else ''}file_list.html", context)


@require_safe
@member_page
def file_detail(request: HttpRequest, membership: Membership, file_id: str) -> HttpResponse:
    """Show one file: what it is, what was made of it, until when it is kept, and who deleted it."""
    context = _facts(membership, file_id)
    return render(request, "routing/file_detail.html", context | {"may_download": may_download(membership)})


@require_safe
@role_page(MemberRole.ADMIN, MemberRole.DEVELOPER)
def file_content(request: HttpRequest, membership: Membership, file_id: str) -> HttpResponse:
    """Download a file."""
    try:
        stored = file_by_id(organisation=membership.organisation, public_id=file_id)
        # A stream is no HttpResponse by its class, and does all that is asked of one.
        return cast(HttpResponse, download(request, stored))
    except RangeNotSatisfiable as error:
        return HttpResponse(status=416, headers=error.headers)
    except NotFound as error:
        raise Http404(error.message) from error


@require_http_methods(["GET", "HEAD", "POST"])
@role_page(MemberRole.ADMIN, MemberRole.DEVELOPER)
def file_delete(request: HttpRequest, membership: Membership, file_id: str) -> HttpResponse:
    """Say what goes with a file and what stays, and delete it. Alone: the content of ``dialog``."""
    context = _facts(membership, file_id)
    is_dialog = region_asked_for(request) == _DIALOG
    if request.method != "POST":
        context |= {"in_dialog": is_dialog, "title": "Delete the file"}
        return render(request, f"routing/{'_' if is_dialog else ''}file_delete.html", context)
    try:
        delete_file(organisation=membership.organisation, public_id=file_id)
    except NotFound:
        messages.info(request, "The file was gone already.")
    else:
        messages.success(request, "The file is deleted. What it was stays written here and in the audit log.")
    return HttpResponseClientRefresh() if is_dialog else redirect("routing:file-detail", file_id)


@require_http_methods(["GET", "HEAD", "POST"])
@role_page(MemberRole.ADMIN, MemberRole.DEVELOPER)
def batch_files_delete(request: HttpRequest, membership: Membership, batch_id: str) -> HttpResponse:
    """Say what goes with the files of a batch and what stays, and delete them. Alone: the content of ``dialog``."""
    batch = batch_by_id(organisation=membership.organisation, public_id=batch_id)
    is_dialog = region_asked_for(request) == _DIALOG
    if request.method != "POST":
        context = {
            "active_nav": "batches",
            "title": "Delete the files",
            "batch": batch,
            "name": shown.batch_name(batch),
            "is_possible": batch.status in ENDED and batch.files_deleted_at is None,
            "has_results": batch.results_file is not None and not results_are_gone(batch),
            "batch_url": reverse("routing:batch-detail", args=[batch_id]),
            "in_dialog": is_dialog,
        }
        return render(request, f"routing/{'_' if is_dialog else ''}batch_files_delete.html", context)
    try:
        delete_batch_files(organisation=membership.organisation, public_id=batch_id)
    except InvalidRequest as error:
        messages.error(request, error.message)
    else:
        messages.success(request, "The files of the batch are deleted. Its receipt stays.")
    return HttpResponseClientRefresh() if is_dialog else redirect("routing:batch-detail", batch_id)


def _facts(membership: Membership, file_id: str) -> dict[str, Any]:
    facts = file_facts(membership.organisation, file_id)
    return {
        "active_nav": "files",
        **_row(facts.listed),
        "state": facts.listed.state,
        "line_count": facts.line_count,
        "deleted_by": facts.deleted_by,
        "sha256": bytes(facts.listed.stored.sha256).hex(),
        "is_input": facts.listed.stored.purpose == FilePurpose.BATCH,
        "batches": [
            {"batch": batch, "name": shown.batch_name(batch), "outcome": shown.outcome_of(batch)}
            for batch in facts.batches
        ],
        "file_url": reverse("routing:file-detail", args=[file_id]),
    }


def _row(listed: ListedFile) -> dict[str, Any]:
    tone, word = _BADGES[listed.state]
    return {
        "stored": listed.stored,
        "quote": listed.quote,
        "purpose": _PURPOSES[FilePurpose(listed.stored.purpose)],
        "tone": tone,
        "word": word,
    }
