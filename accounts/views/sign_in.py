"""Sign-in."""

from __future__ import annotations

from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.http import HttpResponse

from accounts.forms import SignInForm


class SignIn(LoginView):
    """Django's own login, with our template, and 422 for a form that is wrong."""

    template_name = "accounts/login.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        """Redraw the form with its errors; 429 where the try was not made."""
        response = super().form_invalid(form)
        response.status_code = 422
        if isinstance(form, SignInForm) and form.wait_seconds:
            response.status_code = 429
            response["Retry-After"] = str(form.wait_seconds)
        return response
