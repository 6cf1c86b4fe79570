"""Cancelling a batch: by a customer, or by an operator for one. The dialog says first what is charged anyway."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods
from django_htmx.http import HttpResponseClientRefresh

from accounts.models import MemberRole, Membership, StaffRole, User
from accounts.pages import region_asked_for, role_page, staff_page
from billing.domain.money import round_pico_to_micro
from ground.errors import InvalidRequest
from routing.models import Batch, BatchStatus
from routing.oversight import any_batch_by_id
from routing.selectors import batch_by_id, collected_charge_by_group
from routing.services.closing import cancel_batch
from routing.views import shown

_DIALOG = "dialog"
_OPEN = frozenset({BatchStatus.VALIDATING, BatchStatus.IN_PROGRESS})
_CANCELLERS = frozenset({MemberRole.ADMIN, MemberRole.DEVELOPER, StaffRole.OPERATOR, StaffRole.SUPERADMIN})


def may_cancel(role: str, batch: Batch) -> bool:
    """Say whether somebody of this role may cancel a batch now."""
    return role in _CANCELLERS and batch.status in _OPEN and not batch.ending


@require_http_methods(["GET", "HEAD", "POST"])
@role_page(MemberRole.ADMIN, MemberRole.DEVELOPER)
def batch_cancel(request: HttpRequest, membership: Membership, batch_id: str) -> HttpResponse:
    """Say what a cancel leaves to pay, and cancel. Alone: the content of ``dialog``."""
    batch = batch_by_id(organisation=membership.organisation, public_id=batch_id)
    back = {"active_nav": "batches", "batch_url": reverse("routing:batch-detail", args=[batch_id])}
    return _cancel(request, batch, back)


@require_http_methods(["GET", "HEAD", "POST"])
@staff_page(StaffRole.OPERATOR)
def any_batch_cancel(request: HttpRequest, _user: User, batch_id: str) -> HttpResponse:
    """Do the same for a customer."""
    batch = any_batch_by_id(batch_id)
    back = {"active_nav": "any-batches", "batch_url": reverse("routing:any-batch-detail", args=[batch_id])}
    return _cancel(request, batch, back | {"customer_name": batch.organisation.name})


def _cancel(request: HttpRequest, batch: Batch, back: dict[str, str]) -> HttpResponse:
    is_dialog = region_asked_for(request) == _DIALOG
    if request.method != "POST":
        context = _what_it_leaves(batch) | back | {"in_dialog": is_dialog}
        return render(request, f"routing/{'_' if is_dialog else ''}batch_cancel.html", context)
    try:
        cancelled = cancel_batch(organisation=batch.organisation, public_id=batch.public_id)
    except InvalidRequest as error:
        messages.error(request, error.message)
    else:
        if cancelled.status == BatchStatus.CANCELLED:
            messages.success(request, "The batch is cancelled. Nothing was sent and nothing is charged.")
        elif cancelled.status == BatchStatus.CANCELLING:
            messages.success(request, "The batch is being cancelled. What finished by now is still collected.")
        else:
            messages.info(request, "Every request is done already, so the batch is left to finish.")
    return HttpResponseClientRefresh() if is_dialog else redirect(back["batch_url"])


def _what_it_leaves(batch: Batch) -> dict[str, Any]:
    finished_count = batch.completed_count + batch.failed_count
    return {
        "title": "Cancel the batch",
        "batch": batch,
        "name": shown.batch_name(batch),
        "is_open": batch.status in _OPEN and not batch.ending,
        "finished_count": finished_count,
        "open_count": batch.row_count - finished_count,
        "charged_micro_usd": sum(map(round_pico_to_micro, collected_charge_by_group(batch).values())),
        "fee_micro_usd": sum(sub_lane.fee_micro_usd for sub_lane in batch.sub_lanes.all()),
    }
