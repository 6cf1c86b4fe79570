"""Operators' page of the accounts we have at providers, and of the secret that proves a provider's notices."""

from __future__ import annotations

from django import forms
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from accounts.action_pages import Action, ask, done, say_error
from accounts.models import StaffRole, User
from accounts.pages import staff_page
from ground import clock
from ground.errors import InvalidRequest, NotFound
from ground.reasons import REASON_MAX_CHARACTERS, REASON_MIN_CHARACTERS
from routing.oversight import provider_account, provider_accounts
from routing.services.provider_accounts import set_notice_secret

_NAV = "accounts"
_LIST = "routing:provider-account-list"
_SECRET_MAX_CHARACTERS = 120


class NoticeSecretForm(forms.Form):
    """The secret of a provider's notices, and why it changes."""

    secret = forms.CharField(
        label="Signing secret",
        required=False,
        max_length=_SECRET_MAX_CHARACTERS,
        help_text="Begins with whsec_; the provider shows it once. Empty: notices end, jobs are found by asking.",
        widget=forms.PasswordInput({"autocomplete": "off"}),
    )
    reason = forms.CharField(label="Reason", min_length=REASON_MIN_CHARACTERS, max_length=REASON_MAX_CHARACTERS)


@require_safe
@staff_page(StaffRole.OPERATOR, StaffRole.SUPPORT)
def provider_account_list(request: HttpRequest, user: User) -> HttpResponse:
    """Show our accounts: where they lead, whether they are answered, and where their notices are to be sent."""
    rows = []
    for account in provider_accounts():
        path = reverse("routing:provider-notice", args=[account.provider, account.kind])
        rows.append({"account": account, "notice_path": path, "notice_url": request.build_absolute_uri(path)})
    context = {
        "active_nav": _NAV,
        "rows": rows,
        "may_change": user.staff_role in {StaffRole.OPERATOR, StaffRole.SUPERADMIN},
        "at": clock.now(),
    }
    return render(request, "routing/provider_account_list.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@staff_page(StaffRole.OPERATOR)
def notice_secret(request: HttpRequest, user: User, provider: str, kind: str) -> HttpResponse:
    """Ask for the secret of an account's notices, and set it; it is never shown again."""
    try:
        account = provider_account(provider, kind)
    except NotFound as error:
        raise Http404(error.message) from error
    form = NoticeSecretForm(request.POST if request.method == "POST" else None)
    if form.is_bound and form.is_valid():
        secret = form.cleaned_data["secret"].strip()
        try:
            set_notice_secret(
                provider=provider, kind=kind, secret=secret, reason=form.cleaned_data["reason"], user=user
            )
        except InvalidRequest as error:
            say_error(form, error)
        else:
            said = "are taken from now on, if signed with this secret" if secret else "are not taken any more"
            return done(request, reverse(_LIST), f"Notices of {account.name} {said}.")
    lead = (f"Account: {account.name}. A signed notice wakes the poll of its job; what it says is never believed.",)
    action = Action(title="Secret of notices", submit="Set secret", back_url=reverse(_LIST), nav=_NAV, lead=lead)
    return ask(request, action, form)
