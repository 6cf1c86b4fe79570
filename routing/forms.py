"""Filters of the lists of batches."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from django import forms

from ground.filters import DaysForm
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
