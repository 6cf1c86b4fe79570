"""An organisation's settings and its people."""

from __future__ import annotations

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from accounts.forms import InviteForm, MemberForm, OrganisationForm
from accounts.models import MemberRole, Membership
from accounts.pages import member_page, role_page, viewer_of
from accounts.selectors import members_of
from accounts.services.members import change_reporting_zone, invite_member, remove_member, set_role
from accounts.services.passwords import INVITATION, send_password_link
from ground import clock
from ground.errors import InvalidRequest


@require_http_methods(["GET", "HEAD", "POST"])
@member_page
def organisation_settings(request: HttpRequest, membership: Membership) -> HttpResponse:
    """Show what holds for the whole organisation and who is in it; an admin saves the reporting zone."""
    organisation = membership.organisation
    may_write = membership.role == MemberRole.ADMIN
    if request.method == "POST" and not may_write:
        raise PermissionDenied("This page is for the role admin.")
    form = OrganisationForm(
        request.POST if request.method == "POST" else None, initial={"reporting_zone": organisation.reporting_zone}
    )
    if form.is_valid():
        change_reporting_zone(organisation=organisation, zone=form.cleaned_data["reporting_zone"])
        messages.success(request, "The settings were saved.")
        return redirect("accounts:settings")
    context = {
        "active_nav": "settings",
        "organisation": organisation,
        "form": form,
        "members": members_of(organisation),
        "may_write": may_write,
    }
    return render(request, "accounts/settings.html", context, status=422 if form.is_bound else 200)


@require_http_methods(["GET", "HEAD", "POST"])
@role_page(MemberRole.ADMIN)
def member_invite(request: HttpRequest, membership: Membership) -> HttpResponse:
    """Ask for an address and a role, and invite."""
    form = InviteForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        organisation, role = membership.organisation, form.cleaned_data["role"]
        email, name = form.cleaned_data["email"], form.cleaned_data["name"]
        try:
            user, is_new = invite_member(organisation=organisation, email=email, name=name, role=role, at=clock.now())
        except InvalidRequest as error:
            form.add_error(error.param, error.message)
        else:
            inviter = viewer_of(request).name
            said = {"organisation": organisation.name, "inviter": inviter, "role": role}
            if not is_new:
                messages.success(request, f"{user.name} is a member now.")
            elif send_password_link(request, user, INVITATION, **said):
                messages.success(request, f"{user.name} is a member now; a mail with a link went to {user.email}.")
            else:
                messages.error(
                    request, f"{user.name} is a member now, but no mail could be sent. Let them use 'Forgotten'."
                )
            return redirect("accounts:settings")
    context = {
        "active_nav": "settings",
        "crumbs": [{"label": "Settings", "url": reverse("accounts:settings")}, {"label": "Invite"}],
        "form": form,
    }
    return render(request, "accounts/member_invite.html", context, status=422 if form.is_bound else 200)


@require_http_methods(["GET", "HEAD", "POST"])
@role_page(MemberRole.ADMIN)
def member_edit(request: HttpRequest, membership: Membership, email: str) -> HttpResponse:
    """Give a member another role, or take them out."""
    member = members_of(membership.organisation).filter(user__email=email).first()
    if member is None:
        raise Http404("There is no such member.")
    form = MemberForm(request.POST if request.method == "POST" else None, initial={"role": member.role})
    if request.method == "POST" and form.is_valid():
        try:
            if "remove" in request.POST:
                remove_member(organisation=membership.organisation, email=email)
                messages.success(request, f"{member.user.name} was removed.")
            else:
                role = form.cleaned_data["role"]
                set_role(organisation=membership.organisation, email=email, role=role, at=clock.now())
                messages.success(request, f"{member.user.name} has the role {role} now.")
        except InvalidRequest as error:
            form.add_error(None, error.message)
        else:
            return redirect("accounts:settings")
    context = {
        "active_nav": "settings",
        "crumbs": [{"label": "Settings", "url": reverse("accounts:settings")}, {"label": member.user.name}],
        "member": member,
        "form": form,
    }
    return render(request, "accounts/member_edit.html", context, status=422 if form.is_bound else 200)
