"""Forms of adjustments."""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import Any

from django import forms

from billing.adjustments.models import AdjustmentKind, AdjustmentState
from ground.filters import DaysForm
from ground.money_fields import UsdField
from ground.reasons import REASON_MAX_CHARACTERS

_EXPIRIES = {
    "": ("Never", None),
    "30": ("After 30 days", timedelta(days=30)),
    "90": ("After 90 days", timedelta(days=90)),
    "365": ("After a year", timedelta(days=365)),
}


def reason_field(label: str = "Reason") -> forms.CharField:
    """Give the field for a reason that is written to the audit log."""
    return forms.CharField(
        label=label,
        max_length=REASON_MAX_CHARACTERS,
        help_text="Colleagues and auditors read it later.",
        widget=forms.TextInput({"autocomplete": "off"}),
    )


class AdjustmentFilterForm(DaysForm):
    """Which adjustments to show."""

    searches = "id_text"
    text = forms.CharField(
        label="Customer or id", required=False, max_length=80, widget=forms.TextInput({"type": "search"})
    )
    kind = forms.ChoiceField(label="Kind", required=False, choices=[("", "All"), *AdjustmentKind.choices])
    state = forms.ChoiceField(label="State", required=False, choices=[("", "All"), *AdjustmentState.choices])
    field_order = ("text", "kind", "state", "since", "until")


class AdjustmentForm(forms.Form):
    """A new adjustment. Its key makes the same form, sent twice, one request."""

    request_key = forms.CharField(max_length=80, widget=forms.HiddenInput)
    customer = forms.CharField(label="Customer", max_length=40, help_text="Its id (org_…) or its namespace.")
    kind = forms.ChoiceField(label="Kind", choices=AdjustmentKind.choices)
    amount_micro_usd = UsdField(label="Amount in USD", required=False, help_text="Empty for a reversal.")
    receipt = forms.CharField(
        label="Receipt it adjusts", max_length=40, required=False, help_text="Its id (rcpt_…), if there is one."
    )
    entry = forms.CharField(
        label="Entry it reverses",
        max_length=250,
        required=False,
        help_text="A ledger entry's key; for a reversal alone.",
    )
    break_ref = forms.CharField(
        label="Break it settles", max_length=40, required=False, help_text="A break's id, if there is one."
    )
    expires_in_days = forms.ChoiceField(
        label="A grant expires",
        required=False,
        choices=[(key, words) for key, (words, _) in _EXPIRIES.items()],
    )
    reason = reason_field()

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 -- Django's signature
        super().__init__(*args, **kwargs)
        self.fields["request_key"].initial = secrets.token_urlsafe(24)

    def clean(self) -> dict[str, Any]:
        """Ask for an amount where it is not the entry's own."""
        cleaned = super().clean() or self.cleaned_data
        is_reversal = cleaned.get("kind") == AdjustmentKind.REVERSAL
        if not is_reversal and "amount_micro_usd" in cleaned and not cleaned["amount_micro_usd"]:
            self.add_error("amount_micro_usd", "Give an amount above zero.")
        if is_reversal and not cleaned.get("entry"):
            self.add_error("entry", "Name the entry to reverse.")
        return cleaned

    def lifetime(self) -> timedelta | None:
        """Give how long the grant of a valid form lives; None for ever."""
        is_grant = self.cleaned_data["kind"] == AdjustmentKind.GRANT
        return _EXPIRIES[self.cleaned_data["expires_in_days"]][1] if is_grant else None


class DecisionForm(forms.Form):
    """Approve or refuse."""

    approves = forms.ChoiceField(
        label="Decision", choices=[("yes", "Approve and post"), ("no", "Refuse")], widget=forms.RadioSelect
    )
    reason = reason_field()
