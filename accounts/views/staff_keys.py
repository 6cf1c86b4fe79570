"""Keys of our own people for ``/v1/finance``: the list, making one (its text is shown once), revoking one."""

from __future__ import annotations

from django.forms import Form
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from accounts.action_pages import Action, ask, done, say_error
from accounts.domain.staff_scopes import StaffScope
from accounts.forms import StaffKeyFilterForm, StaffKeyForm
from accounts.list_pages import ROWS_PER_PAGE, Deed, ListPage, show_list
from accounts.models import StaffKey, StaffRole, User
from accounts.pages import region_asked_for, staff_page
from accounts.selectors import KeyState, key_state, staff_key_by_id, staff_key_page
from accounts.services.staff_keys import create_staff_key, may_revoke, revoke_staff_key
from accounts.views.keys import TONES
from ground import clock
from ground.errors import LanehouseError

_NAV = "staff-keys"


@require_safe
@staff_page(StaffRole.FINANCE)
def staff_key_list(request: HttpRequest, user: User) -> HttpResponse:
    """Show the keys of all our own people, newest first, with when each was last used. Alone: the region ``list``."""
    form = StaffKeyFilterForm(request.GET)
    page: list[StaffKey] = []
    has_more = False
    if form.is_valid():
        page, has_more = staff_key_page(
            after=request.GET.get("after") or None, limit=ROWS_PER_PAGE, **form.cleaned_data
        )
    return show_list(
        request,
        ListPage(
            nav=_NAV,
            title="Staff keys",
            heading="Staff keys",
            lead="What programs of finance sign in to /v1/finance with. A key acts in its person's name.",
            what="Keys",
            table="accounts/_staff_key_table.html",
            empty_title="No keys yet",
            empty_text="Make one for a program that imports reports, decides breaks or closes months.",
            deeds=[
                Deed(key="finance-openapi", label="OpenAPI", url=reverse("api:finance_openapi"), icon="book-2"),
                Deed(
                    key="new-staff-key",
                    label="New key",
                    url=reverse("accounts:staff-key-new"),
                    icon="plus",
                    is_dialog=True,
                    is_primary=True,
                ),
            ],
        ),
        form,
        [_row(key, user) for key in page],
        next_after=page[-1].public_id if has_more else "",
        at=clock.now(),
    )


@require_http_methods(["GET", "HEAD", "POST"])
@staff_page(StaffRole.FINANCE)
def staff_key_new(request: HttpRequest, user: User) -> HttpResponse:
    """Ask what a new key may do, make it for the viewer, and show its text: here and never again."""
    form = StaffKeyForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            key, new = create_staff_key(
                user,
                name=form.cleaned_data["name"],
                scopes=[StaffScope(form.cleaned_data["scope"])],
                at=clock.now(),
                lifetime=form.lifetime(),
            )
        except LanehouseError as error:
            say_error(form, error)
        else:
            context = {
                "active_nav": _NAV,
                "title": "Staff key created",
                "key": key,
                "key_text": new.text,
                "holder": "in your name at finance",
                "list_url": reverse("accounts:staff-key-list"),
            }
            is_dialog = region_asked_for(request) == "dialog"
            return render(request, f"accounts/{'_' if is_dialog else ''}key_made.html", context)
    action = Action(
        title="New staff key",
        submit="Create key",
        back_url=reverse("accounts:staff-key-list"),
        nav=_NAV,
        lead=("It acts in your name. Its text is shown once.",),
    )
    return ask(request, action, form)


@require_http_methods(["GET", "HEAD", "POST"])
@staff_page(StaffRole.FINANCE)
def staff_key_revoke(request: HttpRequest, user: User, key_id: str) -> HttpResponse:
    """Say what a revocation ends, and revoke: one's own, or any as a superadmin."""
    key = staff_key_by_id(key_id)
    if not may_revoke(key, user):
        raise Http404("This key is somebody else's.")
    if request.method == "POST":
        revoke_staff_key(key_id, by=user, at=clock.now())
        return done(request, reverse("accounts:staff-key-list"), f"The key {key.name} was revoked.")
    action = Action(
        title="Revoke the staff key",
        submit="Revoke key",
        back_url=reverse("accounts:staff-key-list"),
        nav=_NAV,
        lead=(
            f"Programs that use {key.name} ({key.prefix}…{key.last_four}) are refused from the next call on.",
            "It cannot be undone.",
            f"What it did stays, in the name of {key.user.name}.",
        ),
        is_danger=True,
    )
    return ask(request, action, Form())


def _row(key: StaffKey, user: User) -> dict[str, object]:
    state = key_state(key, clock.now())
    return {
        "key": key,
        "tone": TONES[state],
        "word": state.label,
        "scopes": ", ".join(key.scopes),
        "may_be_revoked": state is not KeyState.REVOKED and may_revoke(key, user),
    }
