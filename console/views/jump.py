"""The jump box's page."""

from __future__ import annotations

from typing import cast

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from accounts.models import User
from console.context import membership_in
from console.jump import TEXT_MAX_CHARACTERS, TEXT_MIN_CHARACTERS, hits, page_of_id


@require_safe
@login_required
def go(request: HttpRequest) -> HttpResponse:
    """Lead straight to the page of a typed id, else show what answers to the text."""
    user = cast(User, request.user)
    membership = membership_in(request, user)
    text = request.GET.get("q", "").strip()[:TEXT_MAX_CHARACTERS]
    page = page_of_id(text, user=user, membership=membership)
    if page is not None:
        return redirect(page)
    context = {
        "text": text,
        "is_too_short": len(text) < TEXT_MIN_CHARACTERS,
        "groups": hits(text, user=user, membership=membership),
    }
    return render(request, "console/go.html", context)
