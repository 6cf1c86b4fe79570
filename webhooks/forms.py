"""Forms of the webhook pages."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django import forms

from webhooks.domain.receivers import URL_MAX_CHARACTERS
from webhooks.models import DeliveryState
from webhooks.selectors import event_types
from webhooks.services.endpoints import NAME_MAX_CHARACTERS

_OVERLAPS = {
    "0": ("It ends at once", timedelta(0)),
    "1": ("1 hour", timedelta(hours=1)),
    "24": ("24 hours", timedelta(hours=24)),
    "168": ("7 days", timedelta(days=7)),
}


class EndpointForm(forms.Form):
    """An endpoint's settings. What makes a URL good is the service's to say."""

    url = forms.CharField(
        label="URL",
        max_length=URL_MAX_CHARACTERS,
        strip=True,
        help_text="Receives a POST for each event. It must begin with https://.",
        widget=forms.TextInput({"inputmode": "url", "autocomplete": "off", "spellcheck": "false", "autofocus": True}),
    )
    name = forms.CharField(label="Description", required=False, max_length=NAME_MAX_CHARACTERS)
    event_types = forms.MultipleChoiceField(label="Events", required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 -- Django's own
        super().__init__(*args, **kwargs)
        self.fields["event_types"] = forms.MultipleChoiceField(
            label="Events",
            required=False,
            help_text="None ticked: every event.",
            widget=forms.CheckboxSelectMultiple,
            choices=[(kind, kind) for kind in event_types()],
        )


class RotateForm(forms.Form):
    """How long the old secret signs beside the new one."""

    overlap = forms.ChoiceField(
        label="The old secret stays valid for",
        choices=[(key, words) for key, (words, _) in _OVERLAPS.items()],
        initial="24",
        help_text="Both sign meanwhile, so that you can change your receiver without losing an event.",
    )

    def overlap_span(self) -> timedelta:
        """Give the span that was chosen in a valid form."""
        return _OVERLAPS[self.cleaned_data["overlap"]][1]


class DeliveryFilterForm(forms.Form):
    """Which deliveries to show; the URL's query string holds it."""

    state = forms.ChoiceField(
        label="State",
        required=False,
        choices=[
            ("", "All"),
            (DeliveryState.PENDING, "Pending or retrying"),
            (DeliveryState.DELIVERED, "Delivered"),
            (DeliveryState.FAILED, "Gave up"),
            (DeliveryState.ENDED, "Ended"),
        ],
    )
    event_type = forms.ChoiceField(label="Event", required=False)
    endpoint = forms.ChoiceField(label="Endpoint", required=False)
    event = forms.CharField(label="Event id", required=False, max_length=40, widget=forms.TextInput({"type": "search"}))

    def __init__(self, *args: Any, endpoints: dict[str, str], **kwargs: Any) -> None:  # noqa: ANN401 -- Django's own
        super().__init__(*args, **kwargs)
        self.fields["event_type"] = forms.ChoiceField(
            label="Event", required=False, choices=[("", "All"), *((kind, kind) for kind in event_types())]
        )
        self.fields["endpoint"] = forms.ChoiceField(
            label="Endpoint", required=False, choices=[("", "All"), *endpoints.items()]
        )
