"""Filters of usage: days in the reporting zone, what it is told apart by, and which of it."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any, Final

from django import forms

from billing.usage.reading import Dimension, UsageChoice
from ground.filters import DaysForm

DAYS_MAX: Final = 800
_DEFAULT = "30d"
_PRESETS: Final = {
    "7d": "Last 7 days",
    "30d": "Last 30 days",
    "90d": "Last 90 days",
    "month": "This month",
    "last-month": "Last month",
    "400d": "Last 400 days",
}
_BY: Final = {"model": Dimension.MODEL, "key": Dimension.KEY, "lane": Dimension.LANE, "batch": Dimension.BATCH}


class UsageFilterForm(DaysForm):
    """Which usage to show. Days that are named go before the preset."""

    preset = forms.ChoiceField(label="Range", required=False, choices=[("", "Last 30 days"), *_PRESETS.items()])
    by = forms.ChoiceField(label="By", required=False, choices=[("", "Model"), *((name, name.title()) for name in _BY)])
    model = forms.CharField(label="Model", required=False, max_length=120, widget=forms.HiddenInput)
    key = forms.CharField(label="Key", required=False, max_length=40, widget=forms.HiddenInput)
    lane = forms.CharField(label="Lane", required=False, max_length=120, widget=forms.HiddenInput)
    field_order = ("preset", "since", "until", "by", "model", "key", "lane")

    def clean(self) -> dict[str, Any]:
        """Refuse ranges longer than are shown."""
        cleaned = super().clean()
        since, until = cleaned.get("since"), cleaned.get("until")
        if since and until and until - since >= timedelta(days=DAYS_MAX):
            self.add_error("until", f"Choose at most {DAYS_MAX} days.")
        return cleaned

    def days(self, today: date) -> tuple[date, date]:
        """Give a valid form's first and last day, both included."""
        since, until = self.cleaned_data["since"], self.cleaned_data["until"]
        if since is None and until is None:
            return _preset_days(self.cleaned_data["preset"] or _DEFAULT, today)
        if since is None:
            return until - timedelta(days=29), until
        return since, until or min(max(today, since), since + timedelta(days=DAYS_MAX - 1))

    def dimension(self) -> Dimension:
        """Give what a valid form's usage is told apart by."""
        return _BY[self.cleaned_data["by"] or "model"]

    def choice(self) -> UsageChoice:
        """Give which usage a valid form means."""
        model, key, lane = (self.cleaned_data[name] for name in ("model", "key", "lane"))
        return UsageChoice(models=(model,) if model else (), keys=(key,) if key else (), lanes=(lane,) if lane else ())


def _preset_days(preset: str, today: date) -> tuple[date, date]:
    if preset == "month":
        return today.replace(day=1), today
    if preset == "last-month":
        last = today.replace(day=1) - timedelta(days=1)
        return last.replace(day=1), last
    return today - timedelta(days=int(preset.removesuffix("d")) - 1), today
