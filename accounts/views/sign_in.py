"""Sign-in and sign-out: Django's own, each with its entry in the audit log."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView, LogoutView
from django.db import transaction
from django.http import HttpRequest, HttpResponse

from accounts.forms import SignInForm
from accounts.models import User
from accounts.services.sign_in import note_refused_sign_in, note_sign_in, note_sign_out


class SignIn(LoginView):
    """Django's own login, with our template, and 422 for a form that is wrong."""

    template_name = "accounts/login.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True

    @transaction.atomic
    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        """Sign in."""
        response = super().form_valid(form)
        user = form.get_user()
        assert isinstance(user, User), "a form that is valid has found somebody"
        note_sign_in(user)
        return response

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        """Redraw the form with its errors; 429 where the try was not made."""
        response = super().form_invalid(form)
        response.status_code = 422
        if isinstance(form, SignInForm) and form.wait_seconds:
            response.status_code = 429
            response["Retry-After"] = str(form.wait_seconds)
        elif form.cleaned_data.get("username") and form.cleaned_data.get("password"):
            note_refused_sign_in(form.cleaned_data["username"])
        return response


class SignOut(LogoutView):
    """Django's own logout."""

    @transaction.atomic
    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:  # noqa: ANN401 -- Django's signature
        """Sign out."""
        if isinstance(request.user, User):
            note_sign_out(request.user)
        answer: HttpResponse = super().post(request, *args, **kwargs)
        return answer
