"""What a person may set for themselves."""

from __future__ import annotations

from django import forms

from accounts.zones import zone_choices


def _zones() -> list[tuple[str, str]]:
    """Give the zones, and the browser's guess before them."""
    return [("", "As my browser says"), *zone_choices()]


class PreferencesForm(forms.Form):
    """The zone of times on pages, and the keyboard map."""

    time_zone = forms.ChoiceField(
        label="Time zone",
        required=False,
        choices=_zones,
        widget=forms.Select({"class": "input"}),
        help_text="Times are shown in this zone. Days of usage are those of your organisation's reporting zone.",
    )
    shortcuts = forms.BooleanField(label="Single keys do things (press ? for the list)", required=False)
