"""API keys: the list, making one (its text is shown once), revoking one."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe
from django_htmx.http import HttpResponseClientRedirect

from accounts.domain.scopes import SAID
from accounts.forms import KeyFilterForm, KeyForm
from accounts.list_pages import ROWS_PER_PAGE, Deed, ListPage, show_list
from accounts.models import ApiKey, MemberRole, Membership
from accounts.pages import region_asked_for, role_page, viewer_of
from accounts.selectors import KeyPage, KeyState, api_key_by_id, api_key_page, key_state
from accounts.services.organisations import create_api_key, revoke_api_key
from ground import clock
from ground.errors import InvalidRequest

READERS = (MemberRole.ADMIN, MemberRole.DEVELOPER)
_DIALOG = "dialog"
TONES = {KeyState.ACTIVE: "ok", KeyState.EXPIRED: "off", KeyState.REVOKED: "off"}


@require_safe
@role_page(*READERS)
def key_list(request: HttpRequest, membership: Membership) -> HttpResponse:
    """Show the keys of an organisation and of its test twin, newest first. Alone: the region ``list``."""
    form = KeyFilterForm(request.GET)
    page = KeyPage(keys=(), has_more=False)
    if form.is_valid():
        after = request.GET.get("after") or None
        page = api_key_page(membership.organisation, after=after, limit=ROWS_PER_PAGE, **form.wanted())
    may_write = membership.role == MemberRole.ADMIN
    new = Deed(
        key="new-key", label="New key", url=reverse("accounts:key-new"), icon="plus", is_dialog=True, is_primary=True
    )
    return show_list(
        request,
        ListPage(
            nav="keys",
            title="API keys",
            heading="API keys",
            lead="What your programs sign in with. A key is shown once, when it is made; only a hash of it is kept.",
            what="Keys",
            table="accounts/_key_table.html",
            empty_title="No keys yet",
            empty_text="A program needs a key to price files and send batches. A test key does the same on stand-in "
            "lanes, with play credit."
            if may_write
            else "An admin of your organisation can make one.",
            deeds=[new] if may_write else [],
            empty_deed=new if may_write else None,
        ),
        form,
        [key_row(key) for key in page.keys],
        next_after=page.keys[-1].public_id if page.has_more else "",
        may_write=may_write,
        at=clock.now(),
    )


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
    key = api_key_by_id(membership.organisation, key_id)
    is_dialog = region_asked_for(request) == _DIALOG
    if request.method == "POST":
        revoke_api_key(organisation=key.organisation, public_id=key_id, at=clock.now())
        messages.success(request, f"The key {key.name} was revoked.")
        return HttpResponseClientRedirect(reverse("accounts:key-list")) if is_dialog else redirect("accounts:key-list")
    context = {
        "active_nav": "keys",
        "title": "Revoke the key",
        "row": key_row(key),
        "at": clock.now(),
        "in_dialog": is_dialog,
    }
    return render(request, f"accounts/{'_' if is_dialog else ''}key_revoke.html", context)


def key_row(key: ApiKey) -> dict[str, object]:
    """Give what a line of a list of keys says."""
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
