"""The engine's queues, for operators: what is due, claimed or overdue, and when each part was last heard of."""

from __future__ import annotations

import hashlib
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST, require_safe

from accounts.models import StaffRole, User
from accounts.pages import region_asked_for, staff_page
from ground import clock, heartbeats
from ground.errors import InvalidRequest, NotFound
from routing.engine_steps import QUEUE_WORDS, STATE_WORDS, EngineSteps, engine_steps
from routing.forms import EngineFilterForm
from routing.services.looking import look_at_job_now
from routing.views.lists import REGION

_POLL_MS = 5_000
_TONES = {"overdue": "bad", "due": "run", "claimed": "run", "later": "idle", "unclear": "warn"}


@require_safe
@staff_page(StaffRole.OPERATOR, StaffRole.SUPPORT)
def engine_list(request: HttpRequest, user: User) -> HttpResponse:
    """Show the steps that are the longest due. Alone: the region ``list``, which asks again."""
    form = EngineFilterForm(request.GET)
    at = clock.now()
    found = EngineSteps(steps=(), counts={}, has_more=False)
    if form.is_valid():
        cleaned = form.cleaned_data
        found = engine_steps(queue=cleaned["queue"], state=cleaned["state"], text=cleaned["text"], at=at)
    rows = [
        {"step": step, "queue": QUEUE_WORDS[step.queue], "tone": _TONES[step.state], "word": STATE_WORDS[step.state]}
        for step in found.steps
    ]
    seen = [(step.token or step.what, step.state, step.due_at) for step in found.steps]
    version = hashlib.blake2b(repr((seen, found.counts)).encode(), digest_size=8).hexdigest()
    is_region = region_asked_for(request) == REGION
    if is_region and request.GET.get("v") == version:
        return HttpResponse(status=204)
    chosen = form.chosen()
    heard = heartbeats.heard_at()
    context = {
        "active_nav": "engine",
        "form": form,
        "tabs": _tabs(request, found, {name: value for name, value in chosen.items() if name != "queue"}),
        "active_tab": chosen.get("queue", ""),
        "chips": form.chips(without=frozenset({"queue"})),
        "is_filtered": bool(chosen),
        "rows": rows,
        "has_more": found.has_more,
        "is_first_page": True,
        "may_look": user.staff_role in {StaffRole.OPERATOR, StaffRole.SUPERADMIN},
        "parts": [{"name": part, "heard_at": heard.get(part)} for part in heartbeats.PARTS],
        "here": request.get_full_path(),
        "poll_url": request.path + form.query(v=version),
        "every_ms": settings.PAGE_POLL_MILLISECONDS or _POLL_MS,
        "at": at,
    }
    return render(request, f"routing/{'_' if is_region else ''}engine_list.html", context)


@require_POST
@staff_page(StaffRole.OPERATOR)
def job_look(request: HttpRequest, _user: User, token: str) -> HttpResponse:
    """Let a job be looked at now, and lead back to where it was asked for."""
    try:
        look_at_job_now(token)
    except NotFound as error:
        raise Http404(error.message) from error
    except InvalidRequest as error:
        messages.info(request, error.message)
    else:
        messages.success(request, "The job is looked at by the next worker that is free.")
    back = request.POST.get("back", "")
    is_ours = url_has_allowed_host_and_scheme(back, allowed_hosts=None)
    return redirect(back if is_ours else "routing:engine-list")


def _tabs(request: HttpRequest, found: EngineSteps, kept: dict[str, str]) -> list[dict[str, Any]]:
    words = {"": "All", **QUEUE_WORDS}
    return [
        {
            "key": key,
            "label": label,
            "count": found.counts.get(key, sum(found.counts.values())),
            "url": f"{request.path}?{urlencode({**kept, 'queue': key} if key else kept)}",
        }
        for key, label in words.items()
    ]
