"""The engine's queues, for operators: what is due, claimed or overdue, and when each part was last heard of."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST, require_safe

from accounts.models import StaffRole, User
from accounts.pages import region_asked_for, staff_page
from ground import clock, heartbeats, task_runs
from ground.errors import InvalidRequest, NotFound
from ground.task_runs import TaskRun
from routing.engine_steps import QUEUE_WORDS, STATE_WORDS, EngineSteps, engine_steps, polls
from routing.forms import EngineFilterForm
from routing.services.looking import look_at_job_now, look_at_polls_now
from routing.views.lists import REGION
from routing.views.task_words import TASK_WORDS

_POLL_MS = 5_000
# Runs are noted only now and then, and a long one is no late one.
_LATE_AFTER_TURNS: Final = 2
_LATE_AFTER_S: Final = 60
_TASK_ORDER: Final = ("Failed", "Late", "Not yet", "Done")
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
        "poll_count": found.counts.get("poll", 0) if chosen.get("queue", "poll") == "poll" else 0,
        "chosen": chosen,
        "may_look": user.staff_role in {StaffRole.OPERATOR, StaffRole.SUPERADMIN},
        "parts": [{"name": part, "heard_at": heard.get(part)} for part in heartbeats.PARTS],
        "tasks": _scheduled_tasks(at),
        "here": request.get_full_path(),
        "poll_url": request.path + form.query(v=version),
        "every_ms": settings.PAGE_POLL_MILLISECONDS or _POLL_MS,
        "at": at,
    }
    return render(request, f"routing/{'_' if is_region else ''}engine_list.html", context)


def _scheduled_tasks(at: datetime) -> list[dict[str, Any]]:
    """Give the scheduled tasks, what failed or is late first, each with its last run."""
    runs = task_runs.last_runs()
    tasks = [
        {
            "name": name,
            "words": TASK_WORDS.get(name, name),
            "every_s": round(seconds),
            "run": runs.get(name),
            **_task_badge(runs.get(name), seconds, at),
        }
        for name, seconds in sorted(settings.TASK_SECONDS_BETWEEN.items())
    ]
    return sorted(tasks, key=lambda task: _TASK_ORDER.index(task["word"]))


def _task_badge(run: TaskRun | None, seconds_between: float, at: datetime) -> dict[str, str]:
    if run is None:
        return {"tone": "idle", "word": "Not yet"}
    if run.has_failed:
        return {"tone": "bad", "word": "Failed"}
    if run.ran_at + timedelta(seconds=_LATE_AFTER_TURNS * seconds_between + _LATE_AFTER_S) < at:
        return {"tone": "warn", "word": "Late"}
    return {"tone": "ok", "word": "Done"}


@require_POST
@staff_page(StaffRole.OPERATOR)
def polls_look(request: HttpRequest, _user: User) -> HttpResponse:
    """Let all polls that the list's filters choose be done now, and lead back to the list."""
    form = EngineFilterForm(request.POST)
    if not form.is_valid():
        raise Http404
    state, text = form.cleaned_data["state"], form.cleaned_data["text"]
    said = ", ".join(filter(None, [STATE_WORDS.get(state, "").lower(), text])) or "all that wait"
    count = look_at_polls_now(polls(state=state, text=text), asked_for=said)
    if count:
        messages.success(request, f"{count:,} poll{'' if count == 1 else 's'} will be done by the next free workers.")
    else:
        messages.info(request, "No poll was waiting: workers have them all.")
    return redirect(reverse("routing:engine-list") + form.query())


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
