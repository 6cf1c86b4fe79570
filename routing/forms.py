"""Filters of the lists of batches, and an operator's decision about an unclear job."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

from django import forms

from ground.filters import DaysForm
from ground.reasons import REASON_MAX_CHARACTERS, REASON_MIN_CHARACTERS
from routing.models import ProviderJob, UnclearChoice
from routing.selectors import BatchFilter

# The tabs of a list, in their order.
STATE_WORDS = {
    "": "All",
    "running": "Running",
    "completed": "Completed",
    "partly_failed": "Partly failed",
    "failed": "Failed",
    "expired": "Expired",
    "cancelled": "Cancelled",
}


def _search_field(label: str) -> forms.CharField:
    return forms.CharField(
        label=label,
        required=False,
        max_length=80,
        widget=forms.TextInput({"type": "search", "size": "11", "autocomplete": "off"}),
    )


class BatchFilterForm(DaysForm):
    """Which of an organisation's batches to show."""

    text = _search_field("Name or id")
    model = _search_field("Model")
    state = forms.ChoiceField(
        label="State", required=False, choices=list(STATE_WORDS.items()), widget=forms.HiddenInput
    )
    field_order: tuple[str, ...] = ("text", "model", "since", "until", "state")

    def wanted(self, zone: ZoneInfo) -> BatchFilter:
        """Give what a valid form asks for."""
        cleaned = self.cleaned_data
        return BatchFilter(
            state=cleaned["state"],
            text=cleaned["text"],
            model=cleaned["model"],
            lane=cleaned.get("lane", ""),
            span=self.span(zone),
        )


class OperatorBatchFilterForm(BatchFilterForm):
    """Which of all batches to show."""

    customer = _search_field("Customer")
    lane = _search_field("Lane")
    field_order = ("text", "customer", "model", "lane", "since", "until", "state")


class UnclearJobForm(forms.Form):
    """What becomes of a job of which nobody can tell whether its provider has it, and why."""

    choice = forms.ChoiceField(label="What is true", widget=forms.RadioSelect)
    reason = forms.CharField(
        label="Reason",
        min_length=REASON_MIN_CHARACTERS,
        max_length=REASON_MAX_CHARACTERS,
        help_text="What you saw at the provider. It is kept with your name.",
        widget=forms.Textarea({"rows": 3}),
    )

    def __init__(self, *args: Any, job: ProviderJob, **kwargs: Any) -> None:  # noqa: ANN401 -- Django's own
        super().__init__(*args, **kwargs)
        adoptions = [
            (f"{UnclearChoice.ADOPT.value}:{candidate['batch_ref']}", f"It is {candidate['batch_ref']}: take that one")
            for candidate in job.candidates
        ]
        self.fields["choice"] = forms.ChoiceField(
            label="What is true",
            widget=forms.RadioSelect,
            choices=[
                *adoptions,
                (UnclearChoice.SEND_AGAIN.value, "It never arrived: send it again"),
                (UnclearChoice.GIVE_UP.value, "It cannot be told: give it up, its rows go to another lane or fail"),
            ],
        )

    def chosen(self) -> tuple[UnclearChoice, str]:
        """Give the choice of a valid form, and the provider's reference where one is adopted."""
        choice, _, batch_ref = self.cleaned_data["choice"].partition(":")
        return UnclearChoice(choice), batch_ref
