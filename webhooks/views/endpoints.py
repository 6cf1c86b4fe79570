"""Endpoints: the list, one of them, and the dialogs that make and change them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django_htmx.http import HttpResponseClientRedirect, reswap, retarget, trigger_client_event

from accounts.models import Membership
from accounts.pages import member_page, region_asked_for
from ground import clock
from ground.errors import InvalidRequest, NotFound
from webhooks import selectors
from webhooks.forms import EndpointForm, RotateForm
from webhooks.models import Endpoint, EndpointState
from webhooks.services import endpoints
from webhooks.views import shown
from webhooks.views.access import may_write, writers_only

_DAY = timedelta(hours=24)
_RECENT_COUNT = 20
_REGION = "endpoint"
_DIALOG = "dialog"
_DIALOGS = (("edit", "Edit"), ("rotate", "Rotate secret"))


@require_safe
@member_page
def endpoint_list(request: HttpRequest, membership: Membership) -> HttpResponse:
    """Show the organisation's endpoints."""
    context = {
        "active_nav": "webhooks",
        "may_write": may_write(membership),
        "rows": endpoint_rows(list(selectors.endpoint_list(membership.organisation)), clock.now()),
    }
    return render(request, "webhooks/endpoint_list.html", context)


def endpoint_rows(endpoints: Sequence[Endpoint], at: datetime) -> list[shown.EndpointRow]:
    """Give what the lines of a list of endpoints say, with the deliveries of the day before ``at``."""
    counts = selectors.delivery_counts(endpoints, at - _DAY)
    return [
        shown.EndpointRow(endpoint=endpoint, badge=shown.endpoint_badge(endpoint), counts=counts[endpoint.pk])
        for endpoint in endpoints
    ]


@require_safe
@writers_only
def endpoint_detail(request: HttpRequest, membership: Membership, endpoint_id: str) -> HttpResponse:
    """Show one endpoint. Alone: the region ``endpoint``, which asks again while something is under way."""
    context = _detail(_found(membership, endpoint_id))
    if region_asked_for(request) != _REGION:
        return render(request, "webhooks/endpoint_detail.html", context)
    if request.GET.get("v") == context["poll"].version:
        return HttpResponse(status=204)
    return render(request, "webhooks/_endpoint.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@writers_only
def endpoint_new(request: HttpRequest, membership: Membership) -> HttpResponse:
    """Ask for a new endpoint, make it, and show its secret: here and never again."""
    form = EndpointForm(request.POST or None)
    dialog = _Dialog("New endpoint", reverse("webhooks:endpoint-new"), "Create endpoint")
    if request.method == "POST" and form.is_valid():
        try:
            endpoint, secret = endpoints.create_endpoint(membership.organisation, **form.cleaned_data)
        except InvalidRequest as error:
            _add_error(form, error)
        else:
            return _secret(request, endpoint, secret, title="Endpoint created")
    return _form(request, form, dialog)


@require_http_methods(["GET", "HEAD", "POST"])
@writers_only
def endpoint_edit(request: HttpRequest, membership: Membership, endpoint_id: str) -> HttpResponse:
    """Ask for an endpoint's new settings, and set them."""
    endpoint = _found(membership, endpoint_id)
    initial = {"url": endpoint.url, "name": endpoint.name, "event_types": endpoint.event_types}
    form = EndpointForm(request.POST or None, initial=initial)
    dialog = _Dialog("Edit endpoint", reverse("webhooks:endpoint-edit", args=[endpoint_id]), "Save", endpoint.public_id)
    if request.method == "POST" and form.is_valid():
        try:
            changed = endpoints.update_endpoint(membership.organisation, endpoint_id, **form.cleaned_data)
        except InvalidRequest as error:
            _add_error(form, error)
        else:
            return _changed(request, changed, "The endpoint was saved.")
    return _form(request, form, dialog)


@require_http_methods(["GET", "HEAD", "POST"])
@writers_only
def endpoint_rotate(request: HttpRequest, membership: Membership, endpoint_id: str) -> HttpResponse:
    """Ask how long the old secret stays valid, make a new one and show it: here and never again."""
    _found(membership, endpoint_id)
    form = RotateForm(request.POST or None)
    dialog = _Dialog(
        "Rotate the secret", reverse("webhooks:endpoint-rotate", args=[endpoint_id]), "Rotate secret", endpoint_id
    )
    if request.method == "POST" and form.is_valid():
        endpoint, secret = endpoints.rotate_secret(membership.organisation, endpoint_id, overlap=form.overlap_span())
        return _secret(request, endpoint, secret, title="Secret rotated")
    return _form(request, form, dialog)


@require_http_methods(["GET", "HEAD", "POST"])
@writers_only
def endpoint_delete(request: HttpRequest, membership: Membership, endpoint_id: str) -> HttpResponse:
    """Say what a deletion ends, and delete."""
    endpoint = _found(membership, endpoint_id)
    if request.method == "POST":
        endpoints.delete_endpoint(membership.organisation, endpoint_id)
        messages.success(request, "The endpoint was deleted.")
        if region_asked_for(request) == _DIALOG:
            return HttpResponseClientRedirect(reverse("webhooks:endpoint-list"))
        return redirect("webhooks:endpoint-list")
    waiting = selectors.delivery_list(membership.organisation, state="pending", endpoint_id=endpoint_id).count()
    is_dialog = region_asked_for(request) == _DIALOG
    context = {
        "active_nav": "webhooks",
        "title": "Delete the endpoint",
        "endpoint": endpoint,
        "pending_count": waiting,
        "in_dialog": is_dialog,
    }
    return render(request, f"webhooks/{'_' if is_dialog else ''}endpoint_delete.html", context)


@require_POST
@writers_only
def endpoint_state(request: HttpRequest, membership: Membership, endpoint_id: str) -> HttpResponse:
    """Switch an endpoint on or off."""
    is_enabled = request.POST.get("state") == EndpointState.ENABLED
    endpoint = endpoints.update_endpoint(membership.organisation, endpoint_id, is_enabled=is_enabled)
    words = "The endpoint is on again: what waited is being sent." if is_enabled else "The endpoint is off."
    return _changed(request, endpoint, words)


@require_POST
@writers_only
def endpoint_test(request: HttpRequest, membership: Membership, endpoint_id: str) -> HttpResponse:
    """Send a test event."""
    try:
        endpoints.send_test_event(membership.organisation, endpoint_id)
    except NotFound as error:
        raise Http404(error.message) from error
    except InvalidRequest as error:
        return _changed(request, _found(membership, endpoint_id), error.message, tone="bad")
    return _changed(request, _found(membership, endpoint_id), "A test event is on its way.")


class _Dialog:
    """What a form's dialog is called, where it posts, and where its page goes back to."""

    def __init__(self, title: str, action: str, submit: str, endpoint_id: str = "") -> None:
        self.title = title
        self.action = action
        self.submit = submit
        args = [endpoint_id] if endpoint_id else []
        self.back_url = reverse(f"webhooks:endpoint-{'detail' if endpoint_id else 'list'}", args=args)


def _found(membership: Membership, endpoint_id: str) -> Endpoint:
    return selectors.endpoint_by_id(membership.organisation, endpoint_id)


def _detail(endpoint: Endpoint) -> dict[str, Any]:
    rows = selectors.delivery_list(endpoint.organisation, endpoint_id=endpoint.public_id)
    recent, has_more = selectors.page_of(endpoint.organisation, rows, after=None, limit=_RECENT_COUNT)
    return {
        "active_nav": "webhooks",
        "title": shown.endpoint_title(endpoint),
        "endpoint": endpoint,
        "badge": shown.endpoint_badge(endpoint),
        "counts": selectors.delivery_counts([endpoint], clock.now() - _DAY)[endpoint.pk],
        "rows": [shown.delivery_row(delivery) for delivery in recent],
        "has_more": has_more,
        "poll": shown.poll_of(recent, clock.now(), endpoint.updated_at, endpoint.state, endpoint.failure_streak_count),
        "dialogs": _DIALOGS,
        "poll_url": reverse("webhooks:endpoint-detail", args=[endpoint.public_id]),
        "at": clock.now(),
    }


def _form(request: HttpRequest, form: EndpointForm | RotateForm, dialog: _Dialog) -> HttpResponse:
    is_dialog = region_asked_for(request) == _DIALOG
    context = {
        "active_nav": "webhooks",
        "title": dialog.title,
        "dialog": dialog,
        "form": form,
        "in_dialog": is_dialog,
    }
    template = f"webhooks/{'_' if is_dialog else ''}endpoint_form.html"
    return render(request, template, context, status=422 if form.is_bound else 200)


def _secret(request: HttpRequest, endpoint: Endpoint, secret: str, *, title: str) -> HttpResponse:
    is_dialog = region_asked_for(request) == _DIALOG
    context = {"active_nav": "webhooks", "title": title, "endpoint": endpoint, "secret": secret}
    return render(request, f"webhooks/{'_' if is_dialog else ''}secret.html", context)


def _changed(request: HttpRequest, endpoint: Endpoint, words: str, *, tone: str = "ok") -> HttpResponse:
    """Answer an action: the endpoint's region anew for htmx, its page otherwise."""
    if not region_asked_for(request):
        (messages.success if tone == "ok" else messages.error)(request, words)
        return redirect("webhooks:endpoint-detail", endpoint.public_id)
    response = render(request, "webhooks/_endpoint.html", _detail(endpoint))
    trigger_client_event(response, "dialog-close")
    trigger_client_event(response, "toast", {"text": words, "tone": tone})
    return reswap(retarget(response, f"#{_REGION}"), "outerHTML")


def _add_error(form: EndpointForm, error: InvalidRequest) -> None:
    form.add_error(error.param if error.param in form.fields else None, error.message)
