"""The operators' lanes page: what every lane is doing, and taking one in or out of rotation."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe
from django_htmx.http import reswap, retarget, trigger_client_event

from accounts.models import StaffRole, User
from accounts.pages import region_asked_for, staff_page
from catalog.domain.records import Rotation
from catalog.forms import LaneFilterForm, LaneRotateForm
from catalog.selectors import LaneDetail, LaneOverview, catalog_versions, lane_detail, lanes_overview, provider_names
from catalog.services.rotation import rotate_lane
from ground import clock
from ground.errors import InvalidRequest

POLL_SECONDS = 5
_WORDS = {Rotation.IN: "in rotation", Rotation.DRAIN: "draining", Rotation.OUT: "out of rotation"}


@require_safe
@staff_page(StaffRole.OPERATOR, StaffRole.SUPPORT, StaffRole.FINANCE)
def lane_list(request: HttpRequest, user: User) -> HttpResponse:
    """Show the lanes; alone: the region ``lanes``, which asks again every few seconds (204 while nothing moved)."""
    version = ".".join(map(str, catalog_versions()))
    fragment = region_asked_for(request) == "lanes"
    if fragment and request.GET.get("v") == version:
        return HttpResponse(status=204)
    form = LaneFilterForm(request.GET, providers=provider_names())
    filters = {name: value for name, value in form.cleaned_data.items() if value} if form.is_valid() else {}
    context = {
        "active_nav": "lanes",
        "form": form,
        "filters": _chips(form, filters),
        "lanes": [_row(overview) for overview in lanes_overview(**filters)],
        "may_rotate": may_rotate(user),
        "poll_url": f"{request.path}?{urlencode({**filters, 'v': version})}",
        "poll_seconds": POLL_SECONDS,
        "at": clock.now(),
    }
    return render(request, "catalog/_lanes.html" if fragment else "catalog/lane_list.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@staff_page(StaffRole.OPERATOR)
def lane_rotate(request: HttpRequest, user: User, model_slug: str, lane_id: str) -> HttpResponse:
    """Ask for a new rotation and its reason, and set it. Alone: the content of ``dialog``."""
    detail = lane_detail(model_slug, lane_id)
    if request.method == "POST":
        form = LaneRotateForm(request.POST, overview=detail.overview)
        if form.is_valid():
            rotation = Rotation(form.cleaned_data["rotation"])
            try:
                changed = rotate_lane(model_slug, lane_id, rotation, form.cleaned_data["reason"], user)
            except InvalidRequest as error:
                # Only a race comes here: the lane lost its adapter or retired while the form was open.
                form.add_error(None, error.message)
            else:
                return _rotated(request, lane_detail(model_slug, lane_id).overview, changed=changed)
        return _rotate_form(request, detail, form, status=422)
    first = Rotation.DRAIN if detail.overview.lane.rotation == Rotation.IN else Rotation.IN
    return _rotate_form(request, detail, LaneRotateForm(overview=detail.overview, initial={"rotation": first.value}))


def _rotate_form(request: HttpRequest, detail: LaneDetail, form: LaneRotateForm, status: int = 200) -> HttpResponse:
    template = "catalog/_rotate.html" if region_asked_for(request) == "dialog" else "catalog/lane_rotate.html"
    context = {
        "active_nav": "lanes",
        "title": f"Rotate {detail.overview.lane.model_slug}",
        "detail": detail,
        "row": _row(detail.overview),
        "form": form,
        "at": clock.now(),
    }
    return render(request, template, context, status=status)


def _rotated(request: HttpRequest, overview: LaneOverview, *, changed: bool) -> HttpResponse:
    lane = overview.lane
    text = f"{lane.model_slug} on {lane.lane_id} {'is now' if changed else 'was already'} {_WORDS[lane.rotation]}."
    if region_asked_for(request) != "dialog":
        messages.success(request, text)
        return redirect("catalog:lane-list")
    row = _row(overview)
    response = render(request, "catalog/_lane_row.html", {"row": row, "may_rotate": True, "at": clock.now()})
    trigger_client_event(response, "dialog-close")
    trigger_client_event(response, "toast", {"text": text})
    return reswap(retarget(response, f"#{row['anchor']}"), "outerHTML")


def may_rotate(user: User) -> bool:
    """Say whether somebody may change the rotation of lanes."""
    return user.staff_role in {StaffRole.OPERATOR, StaffRole.SUPERADMIN}


def _row(overview: LaneOverview) -> dict[str, Any]:
    lane, card = overview.lane, overview.lane.rate_card
    anchor = f"lane-{lane.model_slug}-{lane.lane_id}".replace(".", "_").replace(":", "_")
    return {
        "overview": overview,
        "lane": lane,
        "health": overview.health,
        "input_rate_micro_usd_per_mtok": card.sell.input_rate_micro_usd_per_mtok if card else None,
        "output_rate_micro_usd_per_mtok": card.sell.output_rate_micro_usd_per_mtok if card else None,
        "anchor": anchor,
        "rotate_url": reverse("catalog:lane-rotate", args=[lane.model_slug, lane.lane_id]),
    }


def _chips(form: LaneFilterForm, filters: dict[str, str]) -> list[dict[str, str]]:
    """Give one chip per filter: what it says, and the address without it."""
    chips = []
    for name, value in filters.items():
        rest = urlencode({other: kept for other, kept in filters.items() if other != name})
        said = dict(getattr(form.fields[name], "choices", [])).get(value, value)
        chips.append({"label": f"{form.fields[name].label}: {said}", "url": f"?{rest}"})
    return chips
