"""API keys: the list, making one (its text is shown once), revoking one."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe
from django_htmx.http import HttpResponseClientRedirect

from accounts.domain.scopes import SAID
from accounts.forms import KeyFilterForm, KeyForm
from accounts.models import ApiKey, MemberRole, Membership
from accounts.pages import region_asked_for, role_page, viewer_of
from accounts.selectors import KeyPage, KeyState, api_key_by_id, api_key_page, key_state
from accounts.services.organisations import create_api_key, revoke_api_key
from ground import clock
from ground.errors import InvalidRequest, NotFound

READERS = (MemberRole.ADMIN, MemberRole.DEVELOPER)
_ROWS_PER_PAGE = 50
_REGION, _DIALOG = "list", "dialog"
TONES = {KeyState.ACTIVE: "ok", KeyState.EXPIRED: "off", KeyState.REVOKED: "off"}


@require_safe
@role_page(*READERS)
def key_list(request: HttpRequest, membership: Membership) -> HttpResponse:
    """Show the keys of an organisation and of its test twin, newest first. Alone: the region ``list``."""
    form = KeyFilterForm(request.GET)
    after = request.GET.get("after") or None
    page = KeyPage(keys=(), has_more=False)
    if form.is_valid():
        try:
            page = api_key_page(membership.organisation, after=after, limit=_ROWS_PER_PAGE, **form.wanted())
        except NotFound as error:
            raise Http404(error.message) from error
    at = clock.now()
    context = {
        "active_nav": "keys",
        "may_write": membership.role == MemberRole.ADMIN,
        "form": form,
        "chips": form.chips(),
        "rows": [_row(key) for key in page.keys],
        "is_first_page": after is None,
        "newest_url": request.path + form.query(),
        "older_url": request.path + form.query(after=page.keys[-1].public_id) if page.has_more else "",
        "at": at,
    }
    is_region = region_asked_for(request) == _REGION
    return render(request, f"accounts/{'_' if is_region else ''}key_list.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@role_page(MemberRole.ADMIN)
def key_new(request: HttpRequest, membership: Membership) -> HttpResponse:
    """Ask what a new key may do, make it, and show its text: here and never again."""
    form = KeyForm(request.POST if request.method == "POST" else None)
    is_dialog = region_asked_for(request) == _DIALOG
    context = {"active_nav": "keys", "title": "New API key", "form": form, "in_dialog": is_dialog}
    if request.method == "POST" and form.is_valid():
        try:
            key, new = create_api_key(
                organisation=form.owner(membership.organisation),
                name=form.cleaned_data["name"],
                scopes=form.cleaned_data["scopes"],
                lifetime=form.lifetime(),
                at=clock.now(),
                created_by=viewer_of(request),
            )
        except InvalidRequest as error:
            form.add_error(error.param if error.param in form.fields else None, error.message)
        else:
            context |= {
                "title": "API key created",
                "key": key,
                "key_text": new.text,
                "holder": "as your organisation",
                "list_url": reverse("accounts:key-list"),
            }
            return render(request, f"accounts/{'_' if is_dialog else ''}key_made.html", context)
    template = f"accounts/{'_' if is_dialog else ''}key_new.html"
    return render(request, template, context, status=422 if form.is_bound else 200)


@require_http_methods(["GET", "HEAD", "POST"])
@role_page(MemberRole.ADMIN)
def key_revoke(request: HttpRequest, membership: Membership, key_id: str) -> HttpResponse:
    """Say what a revocation ends, and revoke."""
    try:
        key = api_key_by_id(membership.organisation, key_id)
    except NotFound as error:
        raise Http404(error.message) from error
    is_dialog = region_asked_for(request) == _DIALOG
    if request.method == "POST":
        revoke_api_key(organisation=key.organisation, public_id=key_id, at=clock.now())
        messages.success(request, f"The key {key.name} was revoked.")
        return HttpResponseClientRedirect(reverse("accounts:key-list")) if is_dialog else redirect("accounts:key-list")
    context = {
        "active_nav": "keys",
        "title": "Revoke the key",
        "row": _row(key),
        "at": clock.now(),
        "in_dialog": is_dialog,
    }
    return render(request, f"accounts/{'_' if is_dialog else ''}key_revoke.html", context)


def _row(key: ApiKey) -> dict[str, object]:
    state = key_state(key, clock.now())
    return {
        "key": key,
        "is_test": key.organisation.is_test,
        "state": state,
        "tone": TONES[state],
        "word": state.label,
        "scopes": ", ".join(key.scopes) if len(key.scopes) < len(SAID) else "",
        "may_be_revoked": state is not KeyState.REVOKED,
    }
