"""A forgotten password, and the first one of somebody who was invited: Django's own views around our mail."""

from __future__ import annotations

from typing import cast

from django.contrib import messages
from django.contrib.auth.views import PasswordResetConfirmView
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse_lazy
from django.views.decorators.http import require_http_methods

from accounts.forms import ForgottenForm, NewPasswordForm
from accounts.models import User
from accounts.services.passwords import RESET, send_password_link
from accounts.services.sign_in import Try, address_of, note_chosen_password, note_password_link


@require_http_methods(["GET", "HEAD", "POST"])
def forgotten(request: HttpRequest) -> HttpResponse:
    """Send a link to an address, and say the same whether or not anybody has it."""
    form = ForgottenForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        email = form.cleaned_data["email"]
        # Counted apart from sign-ins, so that asking for links locks nobody out.
        wait_seconds = Try(email=f"reset:{email}", address=address_of(request)).begin()
        if wait_seconds:
            form.add_error(None, f"Too many links were asked for here. Try again in {-(-wait_seconds // 60)} min.")
            answer = render(request, "accounts/forgotten.html", {"form": form}, status=429)
            answer["Retry-After"] = str(wait_seconds)
            return answer
        user = User.objects.filter(email=email.lower(), is_active=True).first()
        if user is not None:
            note_password_link(user)
            send_password_link(request, user, RESET)
        messages.success(request, "If this address has an account, a mail with a link is on its way to it.")
        return redirect("accounts:login")
    return render(request, "accounts/forgotten.html", {"form": form}, status=422 if form.is_bound else 200)


class ChoosePassword(PasswordResetConfirmView):
    """The page behind the link; the token leaves the address before anything is shown."""

    template_name = "accounts/password_choose.html"
    form_class = NewPasswordForm
    success_url = reverse_lazy("accounts:login")

    @transaction.atomic
    def form_valid(self, form: object) -> HttpResponse:
        """Keep the password and lead to the sign-in."""
        answer: HttpResponse = super().form_valid(form)  # type: ignore[arg-type]  # Django's stubs name its own form
        note_chosen_password(cast(User, self.user))
        messages.success(self.request, "Your password was saved. Sign in with it.")
        return answer

    def form_invalid(self, form: object) -> HttpResponse:
        """Redraw the form with its errors."""
        answer: HttpResponse = super().form_invalid(form)  # type: ignore[arg-type]  # as above
        answer.status_code = 422
        return answer
