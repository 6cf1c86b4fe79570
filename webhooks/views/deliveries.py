"""Deliveries: the list, and one with each of its attempts."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import trigger_client_event

from accounts.models import Membership, User
from accounts.pages import region_asked_for
from ground import clock
from ground.errors import InvalidRequest, NotFound
from webhooks import selectors
from webhooks.forms import DeliveryFilterForm
from webhooks.models import Delivery, EndpointState
from webhooks.services.deliveries import request_resend
from webhooks.views import shown
from webhooks.views.access import writers_only

_ROWS_PER_PAGE = 50
_LIST_REGION = "list"
_REGION = "delivery"


@require_safe
@writers_only
def delivery_list(request: HttpRequest, membership: Membership) -> HttpResponse:
    """Show deliveries, newest first; alone: the region ``list``."""
    organisation = membership.organisation
    endpoints = {
        endpoint.public_id: shown.endpoint_title(endpoint) for endpoint in selectors.endpoint_list(organisation)
    }
    form = DeliveryFilterForm(request.GET, endpoints=endpoints)
    filters = {name: value for name, value in form.cleaned_data.items() if value} if form.is_valid() else {}
    found = selectors.delivery_list(
        organisation,
        state=filters.get("state", ""),
        endpoint_id=filters.get("endpoint", ""),
        event_id=filters.get("event", ""),
        event_type=filters.get("event_type", ""),
    )
    after = request.GET.get("after") or None
    page, has_more = selectors.page_of(organisation, found, after=after, limit=_ROWS_PER_PAGE)
    context = {
        "active_nav": "webhooks",
        "form": form,
        "filters": filters,
        "rows": [shown.delivery_row(delivery) for delivery in page],
        "is_first_page": after is None,
        "first_url": f"?{urlencode(filters)}",
        "older_url": f"?{urlencode({**filters, 'after': page[-1].public_id})}" if has_more else "",
        "at": clock.now(),
    }
    is_region = region_asked_for(request) == _LIST_REGION
    return render(request, f"webhooks/{'_' if is_region else ''}delivery_list.html", context)


@require_safe
@writers_only
def delivery_detail(request: HttpRequest, membership: Membership, delivery_id: str) -> HttpResponse:
    """Show one delivery. Alone: the region ``delivery``, which asks again while an attempt is due."""
    context = _detail(_found(membership, delivery_id))
    if region_asked_for(request) != _REGION:
        return render(request, "webhooks/delivery_detail.html", context)
    if request.GET.get("v") == context["poll"].version:
        return HttpResponse(status=204)
    return render(request, "webhooks/_delivery.html", context)


@require_POST
@writers_only
def delivery_resend(request: HttpRequest, membership: Membership, delivery_id: str) -> HttpResponse:
    """Send a delivery again now."""
    assert isinstance(request.user, User), "only members come here"
    words, tone = "It is being sent again.", "ok"
    try:
        request_resend(membership.organisation, delivery_id, requested_by=request.user.name[:120])
    except NotFound as error:
        raise Http404(error.message) from error
    except InvalidRequest as error:
        words, tone = error.message, "bad"
    if not region_asked_for(request):
        (messages.success if tone == "ok" else messages.error)(request, words)
        return redirect("webhooks:delivery-detail", delivery_id)
    response = render(request, "webhooks/_delivery.html", _detail(_found(membership, delivery_id)))
    return trigger_client_event(response, "toast", {"text": words, "tone": tone})


def _found(membership: Membership, delivery_id: str) -> Delivery:
    return selectors.delivery_by_id(membership.organisation, delivery_id)


def _detail(delivery: Delivery) -> dict[str, Any]:
    payload = bytes(delivery.event.payload)
    return {
        "active_nav": "webhooks",
        "delivery": delivery,
        "badge": shown.delivery_badge(delivery),
        "reason": shown.reason_words(delivery),
        "attempts": [shown.attempt_row(attempt) for attempt in selectors.attempts_of(delivery)],
        "payload": payload.decode("utf-8", "replace"),
        "readable_payload": shown.readable(payload),
        "payload_size_bytes": len(payload),
        "may_resend": delivery.endpoint.state == EndpointState.ENABLED,
        "endpoint_badge": shown.endpoint_badge(delivery.endpoint),
        "endpoint_is_deleted": delivery.endpoint.state == EndpointState.DELETED,
        "poll": shown.poll_of([delivery], clock.now(), delivery.endpoint.state),
        "poll_url": reverse("webhooks:delivery-detail", args=[delivery.public_id]),
        "at": clock.now(),
    }
