"""The operators' SLA wall, and one lane with its charts, rates and rotations."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from accounts.models import StaffRole, User
from accounts.pages import region_asked_for, staff_page
from accounts.zones import zone_of
from catalog.domain.records import Lane
from catalog.forms import LaneFilterForm
from catalog.health import BUCKET_COUNT, LaneSpan, lane_span, sla_wall
from catalog.selectors import LaneDetail, catalog_versions, lane_detail, provider_names
from catalog.views import may_rotate
from ground import clock
from ground.charts import Axis, Chart, Series, line_chart

_REGION = "wall"
_POLL_SECONDS = 15
_SPANS = {"24h": ("24 hours", timedelta(hours=24)), "7d": ("7 days", timedelta(days=7))}
_READERS = (StaffRole.OPERATOR, StaffRole.SUPPORT, StaffRole.FINANCE)
_TEN_THOUSAND, _MILLION, _BILLION = 10_000, 1_000_000, 1_000_000_000


@require_safe
@staff_page(*_READERS)
def wall(request: HttpRequest, _user: User) -> HttpResponse:
    """Show every lane's health, the worst first. Alone: the region ``wall`` (204 while nothing moved)."""
    version = ".".join(map(str, catalog_versions()))
    is_region = region_asked_for(request) == _REGION
    if is_region and request.GET.get("v") == version:
        return HttpResponse(status=204)
    form = LaneFilterForm(request.GET, providers=provider_names())
    filters = {name: value for name, value in form.cleaned_data.items() if value} if form.is_valid() else {}
    context = {
        "active_nav": "sla",
        "form": form,
        "is_filtered": bool(filters),
        "rows": sla_wall(**filters),
        "poll_url": f"{request.path}?{urlencode({**filters, 'v': version})}",
        "poll_seconds": _POLL_SECONDS,
        "at": clock.now(),
    }
    return render(request, f"catalog/{'_' if is_region else ''}wall.html", context)


@require_safe
@staff_page(*_READERS)
def lane_page(request: HttpRequest, user: User, model_slug: str, lane_id: str) -> HttpResponse:
    """Show one lane: its health over a span, rates, and why its rotation changed."""
    detail = lane_detail(model_slug, lane_id)
    chosen = request.GET.get("range", "24h")
    if chosen not in _SPANS:
        chosen = "24h"
    words, span = _SPANS[chosen]
    at = clock.now()
    lane = detail.overview.lane
    zone = zone_of(request, None)
    samples = lane_span(model_slug, lane_id, until=at, span=span)
    axis = Axis(since=samples.since, bucket=samples.bucket, count=BUCKET_COUNT, zone=zone)
    context = {
        "active_nav": "sla",
        "crumbs": [{"label": "SLA wall", "url": reverse("catalog:wall")}],
        "title": f"{model_slug} on {lane_id}",
        "detail": detail,
        "lane": lane,
        "health": detail.overview.health,
        "charts": _charts(axis, samples, lane, _rotation_events(detail)),
        "cards": _cards(lane),
        "tabs": [{"key": key, "label": f"Last {label}", "url": f"?range={key}"} for key, (label, _) in _SPANS.items()],
        "active_tab": chosen,
        "span_words": words,
        "chart_zone": zone.key,
        "may_rotate": may_rotate(user),
        "at": at,
    }
    return render(request, "catalog/lane_page.html", context)


def _rotation_events(detail: LaneDetail) -> list[tuple[datetime, str]]:
    """Give the newest rotations, for the charts; the log beside them has who and why."""
    return [(entry.changed_at, f"{entry.from_rotation} to {entry.to_rotation}") for entry in detail.rotations]


def _charts(axis: Axis, samples: LaneSpan, lane: Lane, events: Sequence[tuple[datetime, str]]) -> list[Chart]:
    return [
        line_chart(
            "Error rate over 24 h, %",
            axis,
            [Series(label="Error rate", values=samples.error_ppm)],
            _percent,
            least_top=_TEN_THOUSAND,
            events=events,
        ),
        line_chart(
            "Completion, minutes",
            axis,
            [
                Series(label="p50", values=samples.p50_completion_minutes),
                Series(label="p95", values=samples.p95_completion_minutes),
            ],
            lambda minutes: f"{minutes:,} min",
            events=events,
        ),
        line_chart(
            "Dispatch p95, milliseconds",
            axis,
            [Series(label="p95", values=samples.p95_dispatch_ms)],
            lambda milliseconds: f"{milliseconds:,} ms",
            events=events,
        ),
        _headroom_chart(axis, samples, lane, events),
    ]


def _headroom_chart(axis: Axis, samples: LaneSpan, lane: Lane, events: Sequence[tuple[datetime, str]]) -> Chart:
    """Draw what is in flight below the lane's limit: the room between them is the headroom."""
    return line_chart(
        "In flight, estimated input tokens, below the limit",
        axis,
        [Series(label="In flight", values=samples.enqueued_tokens)],
        _tokens,
        limit=lane.enqueued_tokens_limit or None,
        events=events,
    )


def _percent(error_ppm: int) -> str:
    return f"{error_ppm // _TEN_THOUSAND}.{error_ppm % _TEN_THOUSAND:04}".rstrip("0").rstrip(".") + " %"


def _tokens(count: int) -> str:
    for size, unit in ((_BILLION, "B"), (_MILLION, "M")):
        if count >= size:
            return f"{count // size:,}.{count % size * 10 // size}".removesuffix(".0") + f" {unit}"
    return f"{count:,}"


def _cards(lane: Lane) -> list[dict[str, Any]]:
    if lane.rate_card is None:
        return []
    card = lane.rate_card
    return [
        {"label": "We sell at", "rates": card.sell},
        {"label": "The provider bills", "rates": card.provider_batch},
        {"label": "Published, synchronous", "rates": card.list},
    ]
