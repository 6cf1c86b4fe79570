"""The accuracy boards: how far quotes lay from what was settled, for operators and for a customer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from accounts.models import Membership, StaffRole, User
from accounts.pages import member_page, staff_page
from ground import clock
from ground.errors import InvalidRequest, NotFound
from routing.accuracy import LearningHistory, ModelAccuracy, accuracy_board, learning_history
from routing.domain.learning.tallies import ONE_PPM
from routing.forms import LearningForm
from routing.services.learning_decisions import decide_learning

_SPANS = {"7": 7, "30": 30, "90": 90}
_READERS = (StaffRole.OPERATOR, StaffRole.SUPPORT, StaffRole.FINANCE)
_PPM_PER_PERCENT = 10_000


@require_safe
@staff_page(*_READERS)
def any_accuracy(request: HttpRequest, _user: User) -> HttpResponse:
    """Show how every model's quotes compare with what was settled, over all customers."""
    context = _board(request) | {"active_nav": "any-accuracy", "is_house": True}
    context["drifted"] = [row for row in context["rows"] if row["learned"] and row["learned"].has_drifted]
    return render(request, "routing/accuracy.html", context)


@require_safe
@member_page
def accuracy(request: HttpRequest, membership: Membership) -> HttpResponse:
    """Show how the organisation's own quotes compare with what its batches settled at."""
    context = _board(request, membership) | {"active_nav": "accuracy", "is_house": False}
    return render(request, "routing/accuracy.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@staff_page(*_READERS)
def learning(request: HttpRequest, user: User, model_slug: str) -> HttpResponse:
    """Show what was learned of a model; operators decide whether it is used, and from which version on."""
    try:
        history = learning_history(model_slug)
    except NotFound as error:
        raise Http404(error.message) from error
    may_decide = user.staff_role in {StaffRole.OPERATOR, StaffRole.SUPERADMIN}
    form = LearningForm(request.POST if request.method == "POST" and may_decide else None, history=history)
    if request.method == "POST" and may_decide and form.is_valid():
        choice, to_version = form.chosen()
        try:
            decide_learning(
                model_slug=model_slug,
                choice=choice,
                reason=form.cleaned_data["reason"],
                user=user,
                to_version=to_version,
            )
        except InvalidRequest as error:
            # Only a race comes here: somebody else decided while the form was open.
            messages.error(request, error.message)
        else:
            messages.success(request, "Decided. The next quote is made by it.")
        return redirect("routing:learning", model_slug)
    context = {
        "active_nav": "any-accuracy",
        "crumbs": [{"label": "Accuracy", "url": reverse("routing:any-accuracy")}],
        "model_slug": model_slug,
        "may_decide": may_decide,
        "form": form,
        **_history(history),
    }
    return render(request, "routing/learning.html", context, status=422 if form.is_bound else 200)


def _board(request: HttpRequest, membership: Membership | None = None) -> dict[str, Any]:
    chosen = request.GET.get("days", "30")
    if chosen not in _SPANS:
        chosen = "30"
    since = clock.now() - timedelta(days=_SPANS[chosen])
    board = accuracy_board(since=since, organisation=membership.organisation if membership else None)
    return {
        "rows": [_row(model) for model in board],
        "days": chosen,
        "tabs": [{"key": key, "label": f"{key} days", "url": f"?days={key}", "count": None} for key in _SPANS],
        "active_tab": chosen,
    }


def _row(model: ModelAccuracy) -> dict[str, Any]:
    return {
        "model_slug": model.model_slug,
        "vocabulary_is_public": model.vocabulary_is_public,
        "batch_count": model.batch_count,
        "row_count": model.row_count,
        "set_aside_row_count": model.set_aside_row_count,
        "sides": [
            {
                "mean": percent_of(side.mean_error_ppm),
                "p95": percent_of(side.p95_error_ppm),
                "bias": percent_of(side.bias_ppm, signed=True),
                "quoted_tokens": side.quoted_tokens,
                "settled_tokens": side.settled_tokens,
            }
            for side in (model.input, model.output)
        ],
        "learned": model.learned,
        "ratio": percent_of(model.learned.ratio_ppm - ONE_PPM, signed=True) if model.learned else "",
        "recent_error": percent_of(model.learned.recent_error_ppm, signed=True) if model.learned else "",
    }


def _history(history: LearningHistory) -> dict[str, Any]:
    learned = history.learned
    return {
        "learned": learned,
        "ratio": percent_of(learned.ratio_ppm - ONE_PPM, signed=True),
        "recent_error": percent_of(learned.recent_error_ppm, signed=True),
        "drifted_at": datetime.fromtimestamp(learned.drifted_at, UTC) if learned.drifted_at else None,
        "versions": [
            {
                "version": version.version,
                "at": version.learned_at,
                "ratio": percent_of(version.house_ratio_ppm - ONE_PPM, signed=True),
            }
            for version in history.versions
        ],
        "decisions": history.decisions,
        "table_row_count": history.table_row_count,
    }


def percent_of(ppm: int, *, signed: bool = False) -> str:
    """Give parts per million in percent with one decimal; a sign before what is not 0 where one is wanted."""
    tenths = (abs(ppm) * 10 + _PPM_PER_PERCENT // 2) // _PPM_PER_PERCENT
    sign = "" if not tenths else "\u2212" if ppm < 0 else "+" if signed else ""
    return f"{sign}{tenths // 10:,}.{tenths % 10}\u00a0%"
