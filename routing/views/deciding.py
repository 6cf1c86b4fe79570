"""Operators decide what becomes of a job of which nobody can tell whether its provider has it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods
from django_htmx.http import HttpResponseClientRefresh

from accounts.models import StaffRole, User
from accounts.pages import region_asked_for, staff_page
from ground.errors import InvalidRequest
from routing.forms import UnclearJobForm
from routing.models import ProviderJob, UnclearChoice
from routing.oversight import any_job_by_token
from routing.services.deciding import decide_unclear_job

_DIALOG = "dialog"
_SAID = {
    UnclearChoice.SEND_AGAIN: "The job is sent again.",
    UnclearChoice.ADOPT: "The provider's job is taken for ours; its results prove it.",
    UnclearChoice.GIVE_UP: "The job is given up. Its rows go to another lane with the same pin, or fail.",
}


@require_http_methods(["GET", "HEAD", "POST"])
@staff_page(StaffRole.OPERATOR)
def unclear_job_decide(request: HttpRequest, user: User, token: str) -> HttpResponse:
    """Show what is known of an unclear job, and take the decision. Alone: the content of ``dialog``."""
    job = any_job_by_token(token)
    is_dialog = region_asked_for(request) == _DIALOG
    batch_url = reverse("routing:any-batch-detail", args=[job.batch.public_id])
    form = UnclearJobForm(request.POST if request.method == "POST" else None, job=job)
    if request.method == "POST" and form.is_valid():
        choice, batch_ref = form.chosen()
        try:
            decide_unclear_job(
                token=token, choice=choice, reason=form.cleaned_data["reason"], user=user, batch_ref=batch_ref
            )
        except InvalidRequest as error:
            # Only a race comes here: the job was found, or somebody else decided, while the form was open.
            messages.error(request, error.message)
        else:
            messages.success(request, _SAID[choice])
        return HttpResponseClientRefresh() if is_dialog else redirect(batch_url)
    context = {
        "active_nav": "any-batches",
        "title": "Decide about an unclear job",
        "job": job,
        "candidates": [_shown(candidate) for candidate in job.candidates],
        "decisions": job.decisions.select_related("decided_by").order_by("-pk"),
        "is_unclear": job.unclear_since is not None,
        "form": form,
        "batch_url": batch_url,
        "in_dialog": is_dialog,
    }
    template = f"routing/{'_' if is_dialog else ''}unclear_job.html"
    return render(request, template, context, status=422 if request.method == "POST" else 200)


def may_decide(role: str, job: ProviderJob) -> bool:
    """Say whether somebody of this role may decide about a job now."""
    return job.unclear_since is not None and role in {StaffRole.OPERATOR, StaffRole.SUPERADMIN}


def _shown(candidate: dict[str, Any]) -> dict[str, Any]:
    return candidate | {"created_at": datetime.fromtimestamp(candidate["created_at"], UTC)}
