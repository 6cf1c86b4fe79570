"""What a person set for themselves."""

from __future__ import annotations

from typing import cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from accounts.models import User
from accounts.services.preferences import set_preferences
from accounts.zones import zone_of
from console.context import membership_in
from console.forms import PreferencesForm


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def preferences(request: HttpRequest) -> HttpResponse:
    """Show and save the zone in which times are shown, and whether single keys do things."""
    user = cast(User, request.user)
    kept = {"time_zone": user.time_zone, "shortcuts": not user.shortcuts_off}
    form = PreferencesForm(request.POST if request.method == "POST" else None, initial=kept)
    if form.is_valid():
        set_preferences(
            user, time_zone=form.cleaned_data["time_zone"], shortcuts_off=not form.cleaned_data["shortcuts"]
        )
        messages.success(request, "Your preferences were saved.")
        return redirect("console:preferences")
    membership = membership_in(request, user)
    context = {
        "form": form,
        "organisation": membership.organisation if membership else None,
        "zone_now": zone_of(request, membership.organisation if membership else None).key,
    }
    return render(request, "console/preferences.html", context, status=422 if form.is_bound else 200)
