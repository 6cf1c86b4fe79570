"""The settings of a wallet's low-balance alert."""

from __future__ import annotations

from django import forms
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from accounts.action_pages import Action, ask, done, say_error
from accounts.models import MemberRole, Membership
from accounts.pages import role_page, viewer_of
from billing.alerts.models import BalanceAlert
from billing.alerts.services import set_alert
from ground.errors import InvalidRequest
from ground.money_fields import UsdField


class AlertForm(forms.Form):
    """Below what to tell."""

    below_micro_usd = UsdField(
        label="Tell us when less is available than, USD", required=False, help_text="Empty: never."
    )


@require_http_methods(["GET", "HEAD", "POST"])
@role_page(MemberRole.ADMIN, MemberRole.BILLING)
def wallet_alert(request: HttpRequest, membership: Membership) -> HttpResponse:
    """Ask for the threshold, and set it."""
    alert = BalanceAlert.objects.filter(organisation=membership.organisation).first()
    initial = {"below_micro_usd": alert.below_micro_usd} if alert else {}
    form = AlertForm(request.POST if request.method == "POST" else None, initial=initial)
    back_url = reverse("billing:wallet")
    if form.is_bound and form.is_valid():
        try:
            set_alert(membership.organisation, form.cleaned_data["below_micro_usd"], viewer_of(request))
        except InvalidRequest as error:
            say_error(form, error)
        else:
            return done(request, back_url, "The alert is set.")
    lead = (
        "Admins and billing people get a mail, webhooks that listen to wallet.balance_low an event.",
        "Once each time the balance falls below it.",
    )
    action = Action(title="Low-balance alert", submit="Save", back_url=back_url, nav="wallet", lead=lead)
    return ask(request, action, form)
