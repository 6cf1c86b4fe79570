"""Operators move a job that was never sent to another lane."""

from __future__ import annotations

from django import forms
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from accounts.action_pages import Action, ask, done, say_error
from accounts.models import StaffRole, User
from accounts.pages import staff_page
from ground import clock
from ground.errors import InvalidRequest, NotFound
from ground.reasons import REASON_MAX_CHARACTERS, REASON_MIN_CHARACTERS
from routing.models import ProviderJob
from routing.oversight import any_job_by_token
from routing.services.re_routing import may_be_moved, move_job, move_of


class MoveForm(forms.Form):
    """Why a job moves."""

    reason = forms.CharField(label="Reason", min_length=REASON_MIN_CHARACTERS, max_length=REASON_MAX_CHARACTERS)


@require_http_methods(["GET", "HEAD", "POST"])
@staff_page(StaffRole.OPERATOR)
def job_move(request: HttpRequest, user: User, token: str) -> HttpResponse:
    """Say where the rows of a job would go, and move them there."""
    try:
        job = any_job_by_token(token)
    except NotFound as error:
        raise Http404(error.message) from error
    form = MoveForm(request.POST if request.method == "POST" else None)
    batch_url = reverse("routing:any-batch-detail", args=[job.batch.public_id])
    if form.is_bound and form.is_valid():
        try:
            lane_id = move_job(token=token, reason=form.cleaned_data["reason"], user=user)
        except InvalidRequest as error:
            say_error(form, error)
        else:
            return done(request, batch_url, f"{job.row_count:,} rows go to {lane_id}.")
    action = Action(
        title="Move to another lane", submit="Move", back_url=batch_url, nav="any-batches", lead=_preview(job)
    )
    return ask(request, action, form)


def may_move(role: str, job: ProviderJob) -> bool:
    """Say whether somebody of this role may move a job, which has its batch, now."""
    return role in {StaffRole.OPERATOR, StaffRole.SUPERADMIN} and may_be_moved(job)


def _preview(job: ProviderJob) -> tuple[str, ...]:
    try:
        move = move_of(job, clock.now())
    except InvalidRequest as error:
        return (error.message,)
    rows = f"{job.row_count:,} row{'' if job.row_count == 1 else 's'}"
    return (
        f"{rows} of {job.sub_lane.model_slug} leave {job.sub_lane.lane_id} for {move.lane.lane_id}.",
        "They were not sent yet, so nothing runs twice, and the customer pays what was quoted.",
    )
