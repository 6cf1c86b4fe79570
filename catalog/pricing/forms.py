"""Forms of rates."""

from __future__ import annotations

from datetime import date, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

from django import forms

from catalog.domain.records import TokenKind
from catalog.models import Card
from catalog.pricing.models import DraftState
from ground.filters import ListFilterForm
from ground.money_fields import UsdField
from ground.reasons import REASON_MAX_CHARACTERS

PRICE_FILE_MAX_BYTES = 8 * 1024 * 1024
_KIND_LABELS = {
    TokenKind.INPUT: "Input",
    TokenKind.CACHED_INPUT: "Cached input",
    TokenKind.CACHE_WRITE_5M: "Cache write, 5 min",
    TokenKind.CACHE_WRITE_1H: "Cache write, 1 h",
    TokenKind.OUTPUT: "Output",
}
_NEEDED = {TokenKind.INPUT, TokenKind.OUTPUT}


def _reason() -> forms.CharField:
    return forms.CharField(
        label="Reason", max_length=REASON_MAX_CHARACTERS, widget=forms.TextInput({"autocomplete": "off"})
    )


class RateFilterForm(ListFilterForm):
    """Which cards to show, as they hold on a day."""

    searches = "id_text"
    text = forms.CharField(
        label="Model, lane or provider", required=False, max_length=80, widget=forms.TextInput({"type": "search"})
    )
    card = forms.ChoiceField(label="Card", required=False, choices=[("", "All"), *Card.choices])
    on = forms.DateField(
        label="Live at the end of",
        required=False,
        input_formats=["%Y-%m-%d"],
        widget=forms.DateInput({"type": "date"}, format="%Y-%m-%d"),
    )


class DraftFilterForm(ListFilterForm):
    """Which drafts to show."""

    searches = "id_text"
    text = forms.CharField(
        label="Model or lane", required=False, max_length=80, widget=forms.TextInput({"type": "search"})
    )
    state = forms.ChoiceField(label="State", required=False, choices=[("", "All"), *DraftState.choices])


class DraftForm(forms.Form):
    """New rates of one card, in USD per million tokens."""

    model = forms.CharField(label="Model", max_length=80)
    lane = forms.CharField(label="Lane", max_length=80, help_text="Its route, such as openai-direct.")
    card = forms.ChoiceField(label="Card", choices=Card.choices)
    discount_percent = forms.IntegerField(label="Discount in percent", min_value=0, max_value=100, initial=0)
    starts_on = forms.DateField(
        label="Valid from",
        required=False,
        widget=forms.DateInput({"type": "date"}),
        help_text="Midnight UTC of that day. Empty: as soon as it is approved.",
    )
    reason = _reason()
    field_order = (
        "model",
        "lane",
        "card",
        *[kind.value for kind in TokenKind],
        "discount_percent",
        "starts_on",
        "reason",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 -- Django's signature
        super().__init__(*args, **kwargs)
        for kind, label in _KIND_LABELS.items():
            self.fields[kind.value] = UsdField(
                label=f"{label}, USD per 1M tokens",
                required=kind in _NEEDED,
                help_text="" if kind in _NEEDED else "Empty: derived from input.",
            )
        self.order_fields(self.field_order)

    def published(self) -> dict[TokenKind, int]:
        """Give the rates of a valid form in micro-USD per million tokens."""
        given = {kind: self.cleaned_data[kind.value] for kind in TokenKind}
        return {kind: rate for kind, rate in given.items() if rate is not None}

    def valid_from(self, at: datetime) -> datetime | None:
        """Give the start that a valid form asks for; None, and today, for as soon as it is approved."""
        day: date | None = self.cleaned_data["starts_on"]
        if day is None or day == at.date():
            return None
        return datetime.combine(day, time(), ZoneInfo("UTC"))


class DraftDecisionForm(forms.Form):
    """Approve or reject. The tick is asked for where the rates are extraordinary."""

    approves = forms.ChoiceField(
        label="Decision", choices=[("yes", "Approve"), ("no", "Reject")], widget=forms.RadioSelect
    )
    confirms_extraordinary = forms.BooleanField(
        label="I have checked the source: these rates are meant, though they are far from the live ones or very high.",
        required=False,
    )
    reason = _reason()


class PriceFileForm(forms.Form):
    """A community price file."""

    price_file = forms.FileField(
        label="Price file",
        help_text="JSON Lines, one model at one provider a line, whole micro-USD per million tokens.",
    )

    def clean_price_file(self) -> Any:  # noqa: ANN401 -- Django's uploaded file
        """Refuse a file that is no price file by its size."""
        file = self.cleaned_data["price_file"]
        if file.size > PRICE_FILE_MAX_BYTES:
            raise forms.ValidationError("A price file has up to 8 MiB.")
        return file
