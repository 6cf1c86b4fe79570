"""A deed on a page: a form in the dialog or, without script, on a page of its own, and the way back when it is done."""

from __future__ import annotations

from dataclasses import dataclass

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django_htmx.http import HttpResponseClientRedirect

from accounts.pages import region_asked_for
from ground.errors import LanehouseError

_DIALOG = "dialog"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What a form is called, what it says before it asks, where it is sent, and where one comes back to."""

    title: str
    submit: str
    back_url: str
    nav: str
    lead: tuple[str, ...] = ()
    is_danger: bool = False


def ask(request: HttpRequest, action: Action, form: forms.Form) -> HttpResponse:
    """Show the form; with its errors (422) where it was sent."""
    is_dialog = region_asked_for(request) == _DIALOG
    context = {
        "active_nav": action.nav,
        "title": action.title,
        "action": action,
        "action_url": request.get_full_path(),
        "form": form,
        "in_dialog": is_dialog,
    }
    return render(
        request, "_action.html" if is_dialog else "action.html", context, status=422 if form.is_bound else 200
    )


def done(request: HttpRequest, url: str, text: str) -> HttpResponse:
    """Lead to a page that says what was done."""
    messages.success(request, text)
    return HttpResponseClientRedirect(url) if region_asked_for(request) == _DIALOG else redirect(url)


def say_error(form: forms.Form, error: LanehouseError) -> None:
    """Put a refusal beside the field that it is about."""
    form.add_error(error.param if error.param in form.fields else None, error.message)
